"""Temporary folders of our own: each is locked while a process uses it, and removed by the next run after that.

The lock is a file lock of the system. It ends with the last process that holds it, however that process ended. It also
works between containers that share a temporary folder.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

PREFIX = "crossline-"
LOCK = "lock"
# What stands in a lock of ours: others may name their folders and locks alike.
OURS = b"a folder of crossline, removed once nobody holds this lock\n"


@dataclass(frozen=True, slots=True)
class OwnFolder:
    """``lock``: the descriptor that holds it; a process that inherits it holds the folder too."""

    path: Path
    lock: int

    def remove(self) -> None:
        """Remove the folder with its content, and release the lock; not to be called twice."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self.lock)


def own_folder(kind: str = "", within: Path | None = None) -> OwnFolder:
    """A new folder ``within`` another one, which only this user can enter; ``kind`` stands in its name.

    ``within``: by default the system's folder for temporary files.
    """
    while True:
        path = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{kind}-" if kind else PREFIX, dir=within))
        with suppress(FileNotFoundError):
            lock = os.open(path / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
            if _locked(lock) and _is_there(path / LOCK, lock):
                os.pwrite(lock, OURS, 0)  # from here on it can be swept, once its lock is released
                return OwnFolder(path, lock)
            os.close(lock)  # another process removed it between two of these lines


@contextmanager
def own_folder_for(kind: str) -> Iterator[Path]:
    """A folder for as long as the context lasts."""
    folder = own_folder(kind)
    try:
        yield folder.path
    finally:
        folder.remove()


def sweep(within: Path | None = None) -> list[Path]:
    """Remove our folders ``within`` another one that no process locks any more; returns those that were removed.

    Whatever else has such a name is left alone: what is another user's, what is no folder, what has no lock of ours.
    """
    swept = []
    for path in sorted((within or Path(tempfile.gettempdir())).glob(f"{PREFIX}*")):
        with suppress(OSError):  # another run sweeps as well
            about = path.lstat()
            if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.geteuid():
                continue
            lock = os.open(path / LOCK, os.O_RDWR | os.O_NOFOLLOW)
            # Read before it is locked: no lock but ours is touched.
            if _is_ours(lock) and _locked(lock) and _is_there(path / LOCK, lock):
                OwnFolder(path, lock).remove()
                swept.append(path)
            else:
                os.close(lock)
    return swept


def is_held(lock: Path) -> bool:
    """Whether a process has the lock of a folder; not where it is gone."""
    try:
        descriptor = os.open(lock, os.O_RDWR | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        return not _locked(descriptor)
    finally:
        os.close(descriptor)


def _is_ours(descriptor: int) -> bool:
    """Whether exactly what we write stands in a lock."""
    try:
        return os.pread(descriptor, len(OURS) + 1, 0) == OURS
    except OSError:  # no file: a pipe, a device
        return False


def _locked(descriptor: int) -> bool:
    """Whether the lock is ours now."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _is_there(path: Path, descriptor: int) -> bool:
    """Whether ``path`` is still the file that was opened."""
    with suppress(FileNotFoundError):
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    return False
