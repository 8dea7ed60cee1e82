"""The digest of kernel sources by which numba's cache on disk is keyed.

Numba looks only at the file that a function stands in. The digest of all of the kernel's sources, and of the build's
name (see ``access``), is therefore part of each function that it keeps, as a variable of its closure: no change of any
of them meets an older compilation.
"""

from __future__ import annotations

from functools import cache
from hashlib import sha256

from crossline.basics.compiling import sources_of
from crossline.programs.registry import sources
from crossline.state.memory.access import BUILD

# What every kernel has of the others' sources.
_SHARED = tuple(f"crossline.state.{each}" for each in ("memory", "arithmetic", "records", "windows"))


@cache
def digest(*packages: str) -> int:
    """Of a kernel's sources: the shared ones, those in ``packages``, and those of aggregates; and of the build."""
    found = sha256(BUILD.encode() + sources_of(*_SHARED, *packages) + sources())
    return int.from_bytes(found.digest()[:7], "little")
