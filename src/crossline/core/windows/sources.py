"""What numba's cache on disk has to tell apart.

Numba looks only at the file that a function stands in. The digest of all of the kernel's sources, and of the build's
name (see ``memory``), is therefore part of each function that it keeps, as a variable of its closure: no change of any
of them meets an older compilation.
"""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from importlib import resources

from crossline.core.windows.memory import BUILD


@cache
def digest() -> int:
    """Of the kernel's sources and the build."""
    found = sha256(BUILD.encode())
    for source in sorted(resources.files(__package__).iterdir(), key=lambda file: file.name):
        if source.name.endswith(".py"):
            found.update(source.read_bytes())
    return int.from_bytes(found.digest()[:7], "little")
