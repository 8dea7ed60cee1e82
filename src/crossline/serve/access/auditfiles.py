"""The files of the audit log: the one that is written, and those before it, each named by the lines that it has."""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from errno import ENOENT
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import IO, NamedTuple

from crossline.io.files.sync import sync_path

FOLDER = "audit"  # of serve.path
FILE = "audit.jsonl"
ROTATE_BYTES = 64 << 20
_PART = re.compile(r"audit-([0-9]{12})-([0-9]{12})\.jsonl")


class AuditFile(NamedTuple):
    """A file that is written no more: numbers of its first and its last line."""

    first: int
    last: int
    path: Path


def parts_of(path: Path) -> list[AuditFile]:
    """Those before the file ``path``, in their order."""
    there = ((_PART.fullmatch(each.name), each) for each in path.parent.glob("audit-*.jsonl"))
    return sorted(AuditFile(int(name[1]), int(name[2]), each) for name, each in there if name is not None)


def lines_of(path: Path, after: int = 0) -> Iterator[tuple[int, bytes]]:
    """All lines behind number ``after`` with their numbers, from the oldest file on; also half a line at the end.

    While others write. Raises OSError if there is no file, or one cannot be read.
    """
    with ExitStack() as held:
        newest, before = _open_files(path, held)
        if newest is None and not before:
            raise FileNotFoundError(ENOENT, os.strerror(ENOENT), str(path))
        for part in before:
            if part.last > after:
                with part.path.open("rb") as file:
                    yield from ((number, line) for number, line in enumerate(file, part.first) if number > after)
        if newest is not None:
            first = before[-1].last + 1 if before else 1
            yield from ((number, line) for number, line in enumerate(newest, first) if number > after)


@contextmanager
def mapped(path: Path) -> Iterator[list[mmap]]:
    """All files as they are now, the newest first; none where there is none. While others write."""
    with ExitStack() as held:
        newest, before = _open_files(path, held)
        files = [held.enter_context(each.path.open("rb")) for each in before] + ([] if newest is None else [newest])
        sizes = ((each, os.fstat(each.fileno()).st_size) for each in reversed(files))
        yield [held.enter_context(mmap(each.fileno(), size, access=ACCESS_READ)) for each, size in sizes if size]


def _open_files(path: Path, held: ExitStack) -> tuple[IO[bytes] | None, list[AuditFile]]:
    """The file that is written, open, and those before it.

    Opened before the others are listed: where it became one of them meanwhile, it is read once.
    """
    newest: IO[bytes] | None = None
    with suppress(FileNotFoundError):
        newest = held.enter_context(path.open("rb"))
    mine = None if newest is None else _which(os.fstat(newest.fileno()))
    return newest, [each for each in parts_of(path) if _which(each.path.stat()) != mine]


@contextmanager
def held(path: Path, rotate_bytes: int) -> Iterator[int]:
    """A descriptor of the file that is written, locked against other writers; the file before it is put away.

    From ``rotate_bytes`` on it is, unless it ends with half a line: the next line has its length.
    Raises OSError if that cannot be.
    """
    while True:
        new = not path.exists()
        if new:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if not _exists(descriptor, path):  # another process has put it away while this one waited
                continue
            if new:
                sync_path(path.parent)
            if _put_away(descriptor, path, rotate_bytes):
                continue
            yield descriptor
            return
        finally:
            os.close(descriptor)


def _exists(descriptor: int, path: Path) -> bool:
    try:
        return _which(os.fstat(descriptor)) == _which(path.stat(follow_symlinks=False))
    except FileNotFoundError:
        return False


def _put_away(descriptor: int, path: Path, rotate_bytes: int) -> bool:
    size = os.fstat(descriptor).st_size
    if size < rotate_bytes or not size or os.pread(descriptor, 1, size - 1) != b"\n":
        return False
    with path.open("rb") as file:
        count = sum(1 for _ in file)
    before = parts_of(path)
    first = before[-1].last + 1 if before else 1
    path.rename(path.with_name(f"audit-{first:012}-{first + count - 1:012}.jsonl"))
    sync_path(path.parent)
    return True


def _which(stat: os.stat_result) -> tuple[int, int]:
    return stat.st_dev, stat.st_ino
