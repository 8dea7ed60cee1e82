"""An append-only log of lines in numbered files. Every acknowledged line is stored once, in order.

Files are ``00000001.jsonl``, ``00000002.jsonl`` and so on. Hidden files beside them are the lock and the index of ids.
"""

from __future__ import annotations

import fcntl
import os
import socket
import sqlite3
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import orjson

from crossline.basics.errors import SourceError, StateError
from crossline.io.files.sync import sync_path
from crossline.io.recordlog.ids import RecordIds, Spot, id_digest
from crossline.io.recordlog.sync import SUFFIX, SyncedEnd
from crossline.logs import get_logger

LOCK, INDEX = ".lock", ".ids"
_DIGITS = 8
_LEARN_LINES = 20_000  # whose ids go into the index at once
_BLOCK = 1 << 20
_MARK_BYTES = 128
_RECENT_MAX = 1_024  # ids that are noted at once

log = get_logger(__name__)

Line = tuple[str, bytes]  # the id of a record, and its JSON without an end of line


def segment_name(number: int) -> str:
    """The name of a log's file."""
    return f"{number:0{_DIGITS}d}{SUFFIX}"


def segment_numbers(folder: Path) -> list[int]:
    """The files that a log has, ascending."""
    stems = [path.name.removesuffix(SUFFIX) for path in folder.iterdir() if path.name.endswith(SUFFIX)]
    return sorted(int(stem) for stem in stems if len(stem) >= _DIGITS and stem.isascii() and stem.isdigit())


class Segments:
    """The log in ``folder``, held by one process from ``open`` to ``close``. Not for several threads at a time.

    ``id_of`` gives the id of a line; it raises ValueError, KeyError or TypeError for what is none of ours.
    """

    def __init__(self, folder: Path, segment_bytes: int, id_of: Callable[[bytes], str]) -> None:
        self.folder = folder
        self._segment_bytes = segment_bytes
        self._id_of = id_of
        self._ids = RecordIds(folder / INDEX)
        self._recent: dict[bytes, Spot] = {}  # ids that are not in the index yet
        self._known_to: Spot = (1, 0)
        self._synced = SyncedEnd(folder)
        self._hold: _Hold | None = None
        self._descriptor: int | None = None
        self._number = 0
        self._end = 0  # of the last whole line
        self._unsynced: list[tuple[int, bytes]] = []  # what a failed sync may have lost, and where it belongs

    def open(self) -> None:
        """Hold the log, and put its end in order.

        Raises StateError where another process writes it, RetryableError where the disk fails.
        """
        if self._hold is not None:
            return
        with self._translated_errors():
            self.folder.mkdir(parents=True, exist_ok=True)
            self._hold = _Hold(self.folder)
            try:
                self._take_up()
                self._ids.open()
                self._check_index()
                self._learn()
            except BaseException:
                self.close()
                raise

    def append(self, lines: Sequence[Line]) -> list[Spot]:
        """Append ``lines``; returns their positions, for a known id the old one, once all are on the disk.

        Raises RetryableError where the disk does not take them: some may be there, and are found when they come again.
        """
        if self._hold is None:
            self.open()
        with self._translated_errors():
            self._mend()
            self._learn()
            digests = [id_digest(record_id) for record_id, _ in lines]
            places = {each: self._recent[each] for each in digests if each in self._recent}
            places |= self._ids.find(set(digests) - places.keys())
            fresh: list[tuple[bytes, bytes]] = []
            met = set(places)
            for digest, (_, raw) in zip(digests, lines, strict=True):
                if digest not in met:
                    met.add(digest)
                    fresh.append((digest, raw))
            added = self._write(fresh) if fresh else {}
            self._note(added)
            places |= added
            return [places[digest] for digest in digests]

    def close(self) -> None:
        """Let go of it; safe to call twice."""
        if self._hold is not None:
            self._flush()
        self._ids.close()
        self._synced.close()
        self._close_file()
        hold, self._hold = self._hold, None
        if hold is not None:
            hold.release()

    def _take_up(self) -> None:
        numbers = segment_numbers(self.folder)
        self._open_file(numbers[-1] if numbers else 1)
        try:
            self._end_last_line(self._running())
            sync_path(self.folder)
        except BaseException:
            self._close_file()  # the next call begins with this again
            raise

    def _end_last_line(self, descriptor: int) -> None:
        size = os.fstat(descriptor).st_size
        self._end = _last_line_end(descriptor, size)
        if self._end < size:
            tail = os.pread(descriptor, size - self._end, self._end)
            if self._whole(tail):  # a kill took its end of line alone
                os.pwrite(descriptor, b"\n", size)
                self._end = size + 1
            else:
                os.ftruncate(descriptor, self._end)  # it was never acknowledged
                log.warning("half a record at the end of a log is cut off", file=self._name, bytes=len(tail))
        os.fsync(descriptor)  # a process that was killed may have written more than it synced
        self._synced.put((self._number, self._end))

    def _whole(self, tail: bytes) -> bool:
        try:
            self._id_of(tail)
        except (ValueError, KeyError, TypeError):
            return False
        return True

    def _write(self, fresh: Sequence[tuple[bytes, bytes]]) -> dict[bytes, Spot]:
        """Write and sync lines of these digests, which are new; where they stand."""
        if self._end >= self._segment_bytes:
            self._rotate()
        places, at, block = {}, self._end, bytearray()
        for digest, raw in fresh:
            places[digest] = (self._number, at + len(block))
            block += raw
            block += b"\n"
        self._unsynced.append((at, bytes(block)))
        self._put(at, block)
        self._end = at + len(block)
        self._sync()
        return places

    def _put(self, at: int, data: bytes | bytearray) -> None:
        """Write all of it, or cut off what is no whole line."""
        descriptor, left, written = self._running(), memoryview(data), 0
        try:
            while written < len(left):
                written += os.pwrite(descriptor, left[written:], at + written)
        except OSError:
            keep = bytes(left[:written]).rfind(b"\n") + 1
            self._end = at + keep
            self._unsynced = [(at, bytes(left[:keep]))] if keep else []
            self._cut()
            raise

    def _sync(self) -> None:
        os.fdatasync(self._running())
        self._synced.put((self._number, self._end))
        self._unsynced = []

    def _mend(self) -> None:
        """Before anything else is written: what a failure left half done."""
        if self._descriptor is None:
            self._take_up()
        self._check_file()
        self._cut()
        if self._unsynced:
            # A system may forget what it failed to write, and call the next sync a success: it is written again.
            for at, data in self._unsynced:
                written = 0
                while written < len(data):
                    written += os.pwrite(self._running(), data[written:], at + written)
            self._sync()

    def _check_file(self) -> None:
        """Raise where the file was moved or cut: no reader would see further writes."""
        mine = os.fstat(self._running())
        try:
            there = Path(self._name).stat()
            same = (there.st_dev, there.st_ino) == (mine.st_dev, mine.st_ino)
        except FileNotFoundError:
            same = False
        if not same:
            raise SourceError(
                f"{self._name} was moved away, deleted or replaced while records are put into it; put it back, or "
                "start the API again: it then goes on with what stands there"
            )
        if mine.st_size < self._end:
            raise SourceError(
                f"{self._name}: {mine.st_size} bytes, expected at least {self._end}: it was truncated; put back "
                "what it had, or start the API again: it then goes on with what stands there"
            )

    def _cut(self) -> None:
        descriptor = self._running()
        if os.fstat(descriptor).st_size > self._end:
            with suppress(OSError):  # then the next call does
                os.ftruncate(descriptor, self._end)

    def _rotate(self) -> None:
        """Go on in a new file; the folder is synced before a line of it counts."""
        self._close_file()
        self._open_file(self._number + 1)
        self._end = 0

    def _open_file(self, number: int) -> None:
        path = self.folder / segment_name(number)
        new = not path.exists()
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        try:
            if new:
                sync_path(self.folder)
        except BaseException:
            self._close_file()  # the next call takes the log up anew
            raise
        self._number = number

    def _close_file(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def _note(self, added: dict[bytes, Spot]) -> None:
        """The index is behind the acknowledged records: the log is authoritative."""
        self._recent |= added
        self._known_to = (self._number, self._end)
        if len(self._recent) >= _RECENT_MAX:
            self._flush()

    def _flush(self) -> None:
        if not self._recent:
            return
        try:
            self._add(self._recent.items(), self._known_to)
        except sqlite3.Error as error:
            log.warning("the index of record ids is not written; it is caught up later", error=str(error))
        self._recent, self._known_to = {}, self._ids.read_to

    def _check_index(self) -> None:
        """One that knows more than there is belongs to another log, or to this one before it was cut."""
        number, at = self._ids.read_to
        if number > self._number or self._mark(number, at) != self._ids.mark:
            log.warning("the index of record ids does not fit its log, and is made again", folder=str(self.folder))
            self._ids.clear()
        self._known_to = self._ids.read_to

    def _add(self, found: Iterable[tuple[bytes, Spot]], read_to: Spot) -> None:
        self._ids.add(found, read_to, self._mark(*read_to))

    def _mark(self, number: int, at: int) -> bytes:
        """By what the log is known again at a place: the bytes before it; b"" at the beginning of a file."""
        if not at:
            return b""
        size = min(_MARK_BYTES, at)
        try:
            with (self.folder / segment_name(number)).open("rb", buffering=0) as file:
                return os.pread(file.fileno(), size, at - size)
        except FileNotFoundError:
            return b""

    def _learn(self) -> None:
        """Add the ids of the lines that the index does not know yet."""
        if self._known_to == (self._number, self._end):
            return
        self._flush()
        passed, found, read_to = 0, list[tuple[bytes, Spot]](), self._ids.read_to
        for spot, line in self._lines(*self._ids.read_to):
            try:
                found.append((id_digest(self._id_of(line)), spot))
            except (ValueError, KeyError, TypeError):
                passed += 1
            read_to = (spot[0], spot[1] + len(line) + 1)
            if len(found) >= _LEARN_LINES:
                self._add(found, read_to)
                found = []
        self._known_to = (self._number, self._end)
        self._add(found, self._known_to)
        if passed:
            log.warning("lines of a log without an id were passed over", folder=str(self.folder), lines=passed)

    def _lines(self, number: int, at: int) -> Iterator[tuple[Spot, bytes]]:
        """The whole lines from a place on, without their ends, with where they begin."""
        for each in [n for n in segment_numbers(self.folder) if number <= n <= self._number]:
            begin = at if each == number else 0
            with (self.folder / segment_name(each)).open("rb", buffering=_BLOCK) as file:
                file.seek(begin)
                for line in file:
                    if not line.endswith(b"\n") or (each == self._number and begin >= self._end):
                        break
                    yield (each, begin), line[:-1]
                    begin += len(line)

    @property
    def _name(self) -> str:
        return str(self.folder / segment_name(self._number))

    def _running(self) -> int:
        if self._descriptor is None:
            self._open_file(self._number or 1)
        assert self._descriptor is not None  # noqa: S101 - it was opened
        return self._descriptor

    @contextmanager
    def _translated_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise SourceError(
                f"{self.folder}: a record could not be kept: {error.strerror or error}; nothing was "
                "acknowledged. Make room, or mend the disk: the log goes on by itself"
            ) from error
        except sqlite3.Error as error:
            raise SourceError(
                f"{self._ids.path}: the index of record ids fails: {error}; the log itself is whole. Make room; or "
                "stop the API and delete the index, which is made again"
            ) from error


class _Hold:
    """One process writes a log. Its forks close the lock at once, so the lock ends with this process."""

    def __init__(self, folder: Path) -> None:
        path = folder / LOCK
        self._descriptor: int | None = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, orjson.dumps({"process": os.getpid(), "host": socket.gethostname()}), 0)
        except BlockingIOError:
            raw = os.pread(self._descriptor, 4096, 0)
            self.release()
            raise StateError(
                f"{folder}: another process writes this log{_who(raw)}: one API has it; stop that one first"
            ) from None
        except BaseException:
            self.release()
            raise
        _HOLDS.add(self)

    def release(self) -> None:
        """Let others have it."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


_HOLDS: weakref.WeakSet[_Hold] = weakref.WeakSet()


def _in_child() -> None:
    for each in list(_HOLDS):
        each.release()


os.register_at_fork(after_in_child=_in_child)


def _who(raw: bytes) -> str:
    try:
        body = orjson.loads(raw)
        return f" (process {body['process']} on {body['host']})"
    except (ValueError, KeyError, TypeError):
        return ""


def _last_line_end(descriptor: int, size: int) -> int:
    """Behind the last end of line before ``size``; 0 where there is none."""
    at = size
    while at > 0:
        begin = max(0, at - _BLOCK)
        found = os.pread(descriptor, at - begin, begin).rfind(b"\n")
        if found >= 0:
            return begin + found + 1
        at = begin
    return 0
