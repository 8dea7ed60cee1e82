"""The digest of the sources of kernels, by which their files are kept.

It covers all that a kernel may call or read while it is compiled, in other modules and packages too: no change of any
of them meets an older compilation.
"""

from __future__ import annotations

from functools import cache
from hashlib import sha256

from crossline.basics.kernels.files import sources_of
from crossline.programs.registry import foreign_sources

# What every kernel has of the others' sources.
_SHARED = tuple(f"crossline.state.{each}" for each in ("memory", "arithmetic", "records", "windows"))
_DECLARED = ("crossline.aggregates", "crossline.programs")


@cache
def digest(*packages: str) -> bytes:
    """Of a kernel's sources: the shared ones, those in ``packages``, and those of aggregates."""
    return sha256(sources_of(*_SHARED, *_DECLARED, *packages) + foreign_sources()).digest()
