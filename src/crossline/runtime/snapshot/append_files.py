"""Files that only grow, and copies of them that follow."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

_CHECKED = 256  # bytes of its end by which a file is known to be the one that was followed


def continues(file: BinaryIO, copy: Path, size: int) -> bool:
    """Whether ``copy`` has the first ``size`` bytes of ``file``; only their end is compared."""
    if not size:
        return True
    first = max(0, size - _CHECKED)
    file.seek(first)
    found = file.read(size - first)
    with copy.open("rb") as noted:
        noted.seek(first)
        return found == noted.read(size - first)


def complete_lines(file: BinaryIO, size: int) -> bytes:
    """The whole lines behind the first ``size`` bytes."""
    file.seek(size)
    more = file.read()
    return more[: more.rfind(b"\n") + 1]


def append(copy: Path, size: int, more: bytes) -> int:
    """Have ``copy``, which has ``size`` bytes that count, go on with ``more``; how many it has then."""
    copy.parent.mkdir(parents=True, exist_ok=True)
    with copy.open("ab") as file:
        file.truncate(size)
        file.write(more)
    return size + len(more)
