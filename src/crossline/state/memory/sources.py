"""What numba's cache on disk has to tell apart.

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

_PACKAGE = "crossline.state.windows"


@cache
def digest(*packages: str) -> int:
    """Of the sources of a kernel, in ``packages`` (none given: in that of windows), of aggregates, and the build."""
    found = sha256(BUILD.encode() + sources_of(*(packages or (_PACKAGE,))) + sources())
    return int.from_bytes(found.digest()[:7], "little")
