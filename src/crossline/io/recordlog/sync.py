"""The synced end of a log, for its readers: they never read a line that a power failure could revoke."""

from __future__ import annotations

import os
from pathlib import Path

from crossline.io.recordlog.ids import Spot

SYNCED, SUFFIX = ".synced", ".jsonl"
_SIZE = 32


class SyncedEnd:
    """The end of what is synced: a file's number, and its byte, in a small file that its one writer keeps open.

    It needs no sync of its own: an older one hides lines until the writer has opened the log again.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / SYNCED
        self._descriptor: int | None = None

    def put(self, end: Spot) -> None:
        """Say so to readers. Raises OSError."""
        if self._descriptor is None:
            self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        os.pwrite(self._descriptor, (b"%d %d\n" % end).ljust(_SIZE), 0)

    def close(self) -> None:
        """Let go of the file."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


def synced_size(path: str) -> int | None:
    """How many bytes of a log's file count by now; None: all, where no such bound exists, as in a copy of a log."""
    folder, _, name = path.rpartition("/")
    try:
        with Path(f"{folder}/{SYNCED}").open("rb", buffering=0) as file:
            number, end = map(int, os.pread(file.fileno(), _SIZE, 0).split())
        mine = int(name.removesuffix(SUFFIX))
    except (FileNotFoundError, ValueError):
        return None
    return end if mine == number else None if mine < number else 0
