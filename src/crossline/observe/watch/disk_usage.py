"""Disk usage of the state logs."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

LOOK_EVERY_S = 15.0


@dataclass(frozen=True, slots=True)
class DiskUsage:
    """Bytes, files, and when the newest file was written."""

    size: int = 0
    files: int = 0
    newest_s: float | None = None


def disk_usage_of(root: str) -> DiskUsage:
    """The usage below the folder ``root``; zero where it is not a local folder."""
    size, files, newest_s = 0, 0, None
    for each in _files(root):
        with suppress(OSError):  # merged and removed meanwhile
            stat = each.stat()
            size, files = size + stat.st_size, files + 1
            newest_s = stat.st_mtime if newest_s is None else max(newest_s, stat.st_mtime)
    return DiskUsage(size, files, newest_s)


def _files(root: str) -> Iterator[os.DirEntry[str]]:
    if not root or "://" in root or not Path(root).is_dir():
        return
    left = [root]
    while left:
        with suppress(OSError), os.scandir(left.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    left.append(entry.path)
                else:
                    yield entry


class DiskUsageMeter:
    """Measures at most every LOOK_EVERY_S: there may be thousands of files, and scrapes are frequent."""

    def __init__(self) -> None:
        self._space = DiskUsage()
        self._looked_s: float | None = None

    def of(self, root: str) -> DiskUsage:
        """The last measurement."""
        now_s = time.monotonic()
        if root and (self._looked_s is None or now_s - self._looked_s >= LOOK_EVERY_S):
            self._looked_s, self._space = now_s, disk_usage_of(root)
        return self._space
