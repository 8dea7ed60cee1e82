"""A file of JSON lines that stores each line once, by its id."""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import orjson

from crossline.basics.errors import PermanentError, SinkError
from crossline.evaluate.alerts.alert_json import json_bytes
from crossline.io.files.sync import sync_path
from crossline.io.sinks.id_index import IdIndex
from crossline.io.sinks.outfile import INDEX_SUFFIX, STATE_SUFFIX
from crossline.io.stores.open_file import OpenFile
from crossline.logs import get_logger

_TAIL_BYTES = 65_536
_MARK_BYTES = 4_096
_LEARN_BYTES = 64 << 20  # of the file whose ids go into the index at once: large, since each time all of it is touched

Line = Mapping[str, Any]

log = get_logger(__name__)


class OnceFile:
    """Lines in ``path``, each once by its ``identity`` (16 bytes), whichever batch it comes in, over kills and starts.

    The file is authoritative. ``.ids`` beside it holds the ids of its lines, so that they need not be read again
    at each start nor held in memory: about 30 bytes a line. What the index does not have yet is read from the file; one
    that is missing, damaged, or of another file is made again, in ten to twenty seconds for a million lines. ``.state``
    has the name of the pipeline that owns the file, and is there before the first line.

    A line torn by a kill or a full disk has no end of line, and is cut off before the next one is written. Lines are
    synced before ``append`` returns, also those that an attempt or a process before it wrote. The file is held open:
    while it is, one that is deleted, replaced or cut short takes no line.
    """

    def __init__(self, path: Path, pipeline: str, identity: Callable[[Line], bytes]) -> None:
        self.path = path
        self.state_path = path.with_name(path.name + STATE_SUFFIX)
        self._pipeline = pipeline
        self._identity = identity
        self._index = IdIndex(path.with_name(path.name + INDEX_SUFFIX))
        self._descriptor: int | None = None
        self._standing: OpenFile | None = None
        self._owned = False
        self._compared = False
        self._dirty = True  # something of the file may not be synced

    def open(self) -> None:
        """Open the file. Raises PermanentError where it belongs to another pipeline, SinkError where the disk fails."""
        try:
            with self._translated_errors():
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self._owned = self._is_owned()
                if self._owned and self.path.exists():
                    self._take_up()
        except BaseException:
            self.close()
            raise

    def append(self, lines: list[dict[str, Any]]) -> None:
        """Write those of ``lines`` that are not there yet, and sync them.

        Raises SinkError where the disk does not take them, or the file was deleted, replaced or cut short.
        """
        if lines:
            self._append([self._identity(line) for line in lines], lambda number: json_bytes(lines[number]))

    def append_encoded(self, identities: Sequence[bytes], lines: Sequence[bytes]) -> None:
        """As ``append``, of lines that are JSON already, without an end of line, each with its identity."""
        if lines:
            self._append(identities, lines.__getitem__)

    def _append(self, identities: Sequence[bytes], encoded: Callable[[int], bytes]) -> None:
        with self._translated_errors():
            descriptor = self._take_up()
            self._check(descriptor)
            self._cut_torn_line(descriptor)
            with self._index.adding():
                new = self._index.add(identities)
                fresh = [encoded(number) + b"\n" for number, is_new in enumerate(new) if is_new]
                if fresh:
                    self._dirty = True
                    _write(descriptor, b"".join(fresh))
                if self._dirty:
                    os.fsync(descriptor)
                    self._dirty = False
                if fresh:
                    self._check(descriptor)
                    self._stand_at(descriptor, os.fstat(descriptor).st_size)

    def close(self) -> None:
        """Let go of the files."""
        descriptor, self._descriptor = self._descriptor, None
        self._standing = None
        self._index.close()
        if descriptor is not None:
            with suppress(OSError):  # what was delivered is synced
                os.close(descriptor)

    def _is_owned(self) -> bool:
        """Whether the file is this pipeline's; False for one that has no lines yet."""
        owner = self._owner()
        there = self.path.exists()
        if there and not self.path.is_file():
            raise PermanentError(f"{self.path} is no regular file: what stands there could not be read again")
        if owner is None and there and self.path.stat().st_size > 0:
            raise PermanentError(
                f"{self.path} has lines that this pipeline did not write (there is no {self.state_path.name} "
                "beside it); move it away, or give the sink another path"
            )
        if owner not in {None, self._pipeline}:
            raise PermanentError(
                f"{self.path} belongs to pipeline {owner!r}, found {self._pipeline!r}; "
                "give each pipeline a file of its own"
            )
        return owner is not None

    def _take_up(self) -> int:
        """Hold the file open, and know its lines; nothing is made before there is a line to write."""
        if not self._owned:
            self._take_ownership()
        if self._descriptor is None:
            self._descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
            self._standing = OpenFile.of(self.path, self._descriptor)
            self._compared = False
            self._dirty = True  # by a process that was killed
            sync_path(self.path.parent)
        self._index.open()
        if not self._compared and self._index.mark != _mark(self._descriptor, self._index.read_to):
            self._index.clear()  # the index is of another file, or this one was truncated between runs
        self._compared = True
        self._learn(self._descriptor, self._end(self._descriptor))
        return self._descriptor

    def _end(self, descriptor: int) -> int:
        """Where the last whole line ends."""
        size = os.fstat(descriptor).st_size
        return size if size == self._index.read_to else _last_line_end(descriptor, size)

    def _cut_torn_line(self, descriptor: int) -> None:
        """Cut off what follows the last end of line."""
        end = self._end(descriptor)
        if end < os.fstat(descriptor).st_size:
            os.ftruncate(descriptor, end)

    def _check(self, descriptor: int) -> None:
        if self._standing is not None:
            self._standing.check()
        size = os.fstat(descriptor).st_size
        if size < self._index.read_to:
            raise SinkError(
                f"{self.path} was cut short while the pipeline writes to it: found {size} bytes, expected at least "
                f"{self._index.read_to}; put back what it had and the run goes on, or stop the pipeline and start it "
                "again: it then goes on with what stands there"
            )

    def _learn(self, descriptor: int, end: int) -> None:
        """Add the ids of the lines up to ``end`` that are not known yet."""
        unreadable = 0
        if end - self._index.read_to > _LEARN_BYTES:
            log.info(
                "reading the ids of lines that the index lacks", file=str(self.path), bytes=end - self._index.read_to
            )
        while self._index.read_to < end:
            begun = self._index.read_to
            ids, read_to = [], begun
            for line in _lines(descriptor, begun, min(end, begun + _LEARN_BYTES), end):
                read_to += len(line)
                try:
                    ids.append(self._identity(orjson.loads(line)))
                except (ValueError, KeyError, TypeError):
                    unreadable += 1
            with self._index.adding():
                self._index.learn(ids)
                self._stand_at(descriptor, read_to)
        if unreadable:
            log.warning("lines that are not this pipeline's were passed over", file=str(self.path), lines=unreadable)

    def _stand_at(self, descriptor: int, read_to: int) -> None:
        self._index.stand_at(read_to, _mark(descriptor, read_to))

    def _owner(self) -> str | None:
        try:
            noted = orjson.loads(self.state_path.read_bytes())
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise PermanentError(f"{self.state_path} is damaged: {error}; move it and {self.path} away") from None
        if not isinstance(noted, dict) or not isinstance(noted.get("pipeline"), str):
            raise PermanentError(f"{self.state_path} is damaged: no pipeline; move it and {self.path} away")
        return str(noted["pipeline"])

    def _take_ownership(self) -> None:
        draft = self.state_path.with_name(self.state_path.name + ".new")
        with draft.open("wb") as file:
            file.write(orjson.dumps({"pipeline": self._pipeline}))
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self.state_path)
        sync_path(self.path.parent)
        self._owned = True  # only now: what failed is tried again

    @contextmanager
    def _translated_errors(self) -> Iterator[None]:
        try:
            yield
        except (OSError, sqlite3.Error) as error:
            if isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError):
                log.warning(
                    "the index of the lines is damaged and made again", index=str(self._index.path), error=str(error)
                )
                with suppress(OSError):
                    self._index.discard()
            raise SinkError(f"{self.path} cannot be written now: {error}") from error


def _write(descriptor: int, data: bytes) -> None:
    """All of ``data``; a full disk may take a part of it, which the next attempt cuts off or learns."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _mark(descriptor: int, end: int) -> bytes:
    """A 16-byte digest of the bytes before ``end``."""
    size = min(end, _MARK_BYTES)
    return hashlib.blake2b(os.pread(descriptor, size, end - size), digest_size=16).digest()


def _lines(descriptor: int, start: int, least: int, end: int) -> Iterator[bytes]:
    """Whole lines from ``start`` on, until ``least`` bytes were passed or ``end`` is reached."""
    with os.fdopen(os.dup(descriptor), "rb") as file:
        file.seek(start)
        while start < least and start < end:
            line = file.readline()
            start += len(line)
            yield line


def _last_line_end(descriptor: int, end: int) -> int:
    """Where the last whole line before ``end`` ends."""
    while end > 0:
        start = max(0, end - _TAIL_BYTES)
        newline = os.pread(descriptor, end - start, start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        end = start
    return 0
