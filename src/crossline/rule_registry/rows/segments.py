"""What came of a table's messages, on the disk: contents written whole, and behind each the changes that followed.

A folder for each table of a pipeline: ``00000001.jsonl`` and so on, each of which begins with what stood in the table
(in ``DIGEST.rows``) and goes on with a line a change, in the order in which they held.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import orjson
import pyarrow as pa

from crossline.basics.errors import RetryableError, StateError
from crossline.rule_registry.content import digest_of
from crossline.rule_registry.log_file import bring, sync_folder

FORMAT = 1
RAW = pa.schema([pa.field("key", pa.binary()), pa.field("value", pa.binary())])
_ZSTD = pa.ipc.IpcWriteOptions(compression="zstd")

ENDING = ".jsonl"
_SEEN = "seen"
Begins = Mapping[str, int]
Undo = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Read:
    """How far a topic was read: by partition the next offset, and which topic of that name it is."""

    offsets: Mapping[int, int]
    topic_id: str | None = None


@dataclass(frozen=True, slots=True)
class Header:
    """A content: ``base`` has its ``rows``, which hold from ``begins``, by stream; the first one from the beginning."""

    number: int
    base: str
    rows: int
    begins: Begins
    read: Read


@dataclass(frozen=True, slots=True)
class Change:
    """Messages that were loaded, as they came (``RAW``; a null value takes its row away), from ``begins`` on."""

    raw: pa.Table
    begins: Begins
    read: Read


class Segments:
    """The folder of one table. Whoever holds the rule log of its pipeline may write."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def headers(self) -> list[Header]:
        """Of all contents, the oldest first. Raises StateError where one is damaged."""
        return [self._header(number) for number in self._numbers()]

    def _numbers(self) -> list[int]:
        return sorted(int(path.stem) for path in self.folder.glob("*.jsonl") if path.stem.isdecimal())

    def _header(self, number: int) -> Header:
        path = self._path(number)
        try:
            with path.open("rb") as file:
                body = orjson.loads(file.readline())
            _check_format(body["format"])
            return Header(number, body["base"], body["rows"], body["begins"], _read(body))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise _damaged(path, 1, error) from None

    def changes(self, number: int) -> list[Change]:
        """Those that followed a content. A last line that a kill cut off is none. Raises StateError for damage."""
        path = self._path(number)
        try:
            *lines, _ = path.read_bytes().split(b"\n")
        except OSError as error:
            raise StateError(f"{path} cannot be read: {error.strerror}") from None
        found = []
        for line_number, line in enumerate(lines[1:], 2):
            try:
                body = orjson.loads(line)
                raw = _unpacked(base64.b64decode(body["messages"])) if body["messages"] else RAW.empty_table()
                found.append(Change(raw, body["begins"], _read(body)))
            except (ValueError, KeyError, TypeError, pa.ArrowException) as error:
                raise _damaged(path, line_number, error) from None
        return found

    def mend(self) -> None:
        """Take away what a kill left of a last line."""
        numbers = self._numbers()
        if numbers:
            path = self._path(numbers[-1])
            data = path.read_bytes()
            whole = data.rfind(b"\n") + 1
            if whole < len(data):
                os.truncate(path, whole)

    def content(self, header: Header) -> pa.Table:
        """The messages of the rows of a content. Raises StateError where they are not there, or damaged."""
        path = self._base(header.base)
        bring(path, beside=self.folder.parents[2])
        try:
            data = path.read_bytes()
            if digest_of(data) != header.base:
                raise StateError(f"{path}, what stood in a table, was changed. Put the file back from a copy")
            return _unpacked(data)
        except (OSError, pa.ArrowException) as error:
            raise StateError(
                f"{path}, what stood in a table, cannot be read: {error}. Put the file back from a copy; without it, "
                "what judged past records is not known"
            ) from None

    def keep(self, raw: pa.Table) -> str:
        """Have the messages of rows on the disk; their digest. Raises RetryableError where it does not take them."""
        data = _packed(raw)
        digest = digest_of(data)
        if not self._base(digest).exists():
            self._write(self._base(digest), data)
        return digest

    def begin(self, header: Header) -> Undo:
        """Go on from a content that was kept. Raises RetryableError where the disk does not take it."""
        body = {"format": FORMAT, "base": header.base, "rows": header.rows, "begins": dict(header.begins)}
        path = self._path(header.number)
        self._write(path, orjson.dumps({**body, **_read_json(header.read)}) + b"\n")
        return lambda: path.unlink(missing_ok=True)

    def append(self, number: int, change: Change) -> Undo:
        """Write down a change behind content ``number``, and wait for the disk.

        Raises RetryableError, with nothing written, where it does not take it.
        """
        messages = base64.b64encode(_packed(change.raw)).decode() if len(change.raw) else ""
        line = orjson.dumps({"begins": dict(change.begins), **_read_json(change.read), "messages": messages}) + b"\n"
        path = self._path(number)
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)
        except OSError as error:
            raise RetryableError(f"{path} cannot be written: {error.strerror}; put it back") from error
        size = os.fstat(descriptor).st_size

        def undo() -> None:
            with suppress(OSError):
                os.truncate(path, size)

        try:
            written = 0
            while written < len(line):
                written += os.write(descriptor, line[written:])
            os.fsync(descriptor)
        except OSError as error:
            undo()
            raise RetryableError(f"{path} cannot be written: {error.strerror}") from error
        finally:
            os.close(descriptor)
        return undo

    def mark(self) -> None:
        """Note that the topic was read to its end now."""
        with suppress(OSError):
            self.folder.joinpath(_SEEN).touch()

    def unread_ms(self, now_ms: int) -> int:
        """For how long the topic was not read to its end; 0 where that is not known."""
        try:
            return now_ms - self.folder.joinpath(_SEEN).stat().st_mtime_ns // 1_000_000
        except OSError:
            return 0

    def clear(self) -> None:
        """Nothing was loaded: a first start that ended before it was written down."""
        for path in [*self.folder.glob("*.jsonl"), *self.folder.glob("*.rows")]:
            path.unlink(missing_ok=True)

    def _write(self, path: Path, data: bytes) -> None:
        draft = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with draft.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(path)
            sync_folder(path.parent)
        except OSError as error:
            raise RetryableError(f"{path} cannot be written: {error.strerror}") from error

    def _path(self, number: int) -> Path:
        return self.folder / f"{number:08}.jsonl"

    def _base(self, digest: str) -> Path:
        return self.folder / f"{digest}.rows"


def segments_of(log: Path, table: str) -> Segments:
    """Those of ``table`` beside the rule log at ``log``."""
    return Segments(rows_folder(log) / table)


def rows_folder(log: Path) -> Path:
    """Where the tables of the rule log at ``log`` lie, each in a folder."""
    return log.parent / "rows" / log.stem


def unread(folder: Path) -> None:
    """Of a table that comes from elsewhere it is not known when its topic was read to its end: very long ago."""
    seen = folder / _SEEN
    with suppress(OSError):
        seen.touch()
        os.utime(seen, (0, 0))


def _check_format(number: int) -> None:
    if number != FORMAT:
        raise ValueError(f"format {number}; this crossline reads {FORMAT}")


def _read_json(read: Read) -> dict[str, object]:
    return {"offsets": {str(n): at for n, at in read.offsets.items()}, "topic_id": read.topic_id}


def _read(body: Mapping[str, Mapping[str, int]]) -> Read:
    topic_id = body["topic_id"]
    return Read({int(n): at for n, at in body["offsets"].items()}, None if topic_id is None else str(topic_id))


def _packed(raw: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, RAW, options=_ZSTD) as writer:
        writer.write_table(raw)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


def _unpacked(data: bytes) -> pa.Table:
    return pa.ipc.open_file(pa.BufferReader(data)).read_all().combine_chunks()


def _damaged(path: Path, line: int, error: Exception) -> StateError:
    return StateError(
        f"{path}:{line}: found no line of a table's log ({error}). Put the file back from a copy; without it, what "
        "judged past records is not known"
    )
