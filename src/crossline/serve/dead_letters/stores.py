"""Finds where a pipeline keeps dead letters, and reads them back at a bounded cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson

from crossline.basics.deadletter import DeadLetter
from crossline.basics.errors import UsageError
from crossline.io.sinks.jsonl import dead_letter
from crossline.io.stores.protocol import Store
from crossline.serve.dead_letters.values import LetterBox, Letters, ReasonCounts, StoredDeadLetter
from crossline.settings.config import PipelineConfig

LOOKED_AT_MAX = 50_000  # dead letters that one look goes through
TAIL_BYTES = 32 << 20  # of a file, its end
_FIELDS = tuple(DeadLetter.__dataclass_fields__)


def box_of(config: PipelineConfig, open_store: Callable[[], Store | None]) -> LetterBox | None:
    """The store of a pipeline, else the first file of its dead letters; None if no sink can be read back."""
    if any(sink.kind in {"sqlite", "postgres"} for sink in config.sinks):
        return StoreBox(config.name, open_store)
    files = (getattr(sink, "dead_letters", None) for sink in config.sinks)
    path = next((each for each in files if each is not None), None)
    return None if path is None else FileBox(Path(path))


def why_none(config: PipelineConfig) -> str:
    """Why dead letters cannot be read back."""
    topics = [str(topic) for sink in config.sinks if (topic := getattr(sink, "dead_letter_topic", None)) is not None]
    where = (
        f"they go to the topic {' and '.join(topics)} alone, which is not read back here"
        if topics
        else ("no sink keeps them: their number stands in the figures of each batch, and their bytes are lost")
    )
    return f"{where}; a sink of kind sqlite or postgres keeps them, or dead_letters: FILE of a sink of kind jsonl"


class StoreBox:
    """Those in a store. ``open_store``: opens it anew, in the thread that reads it."""

    def __init__(self, pipeline: str, open_store: Callable[[], Store | None]) -> None:
        self.name = "the pipeline's store"
        self._pipeline = pipeline
        self._open = open_store

    def page(self, reason: str | None, before: int | None, limit: int) -> Letters:
        """See ``LetterBox``."""
        with self._store() as store:
            if store is None:
                return Letters((), None)
            first, last = store.dead_numbers()
            end = last + 1 if before is None else before
            numbers = range(max(first, end - LOOKED_AT_MAX), end)
            rows = store.dead_between(self._pipeline, numbers, reason, limit)
        found = [_stored_letter(number, row) for number, row in rows]
        on = found[-1].number if len(found) == limit else numbers.start
        return Letters(found, on if on > first else None)

    def one(self, number: int) -> StoredDeadLetter | None:
        """See ``LetterBox``."""
        with self._store() as store:
            rows = [] if store is None else store.dead_between(self._pipeline, range(number, number + 1), None, 1)
        return _stored_letter(*rows[0]) if rows else None

    def counts(self) -> ReasonCounts:
        """See ``LetterBox``."""
        with self._store() as store:
            if store is None:
                return ReasonCounts({}, whole=True)
            first, last = store.dead_numbers()
            numbers = range(max(first, last + 1 - LOOKED_AT_MAX), last + 1)
            return ReasonCounts(store.dead_reasons(self._pipeline, numbers), whole=numbers.start <= first)

    def _store(self) -> _Opened:
        try:
            return _Opened(self._open())
        except UsageError:  # nothing was delivered yet, so that there is no file
            return _Opened(None)


class _Opened:
    """A store that is closed at the end; None if there is none yet."""

    def __init__(self, store: Store | None) -> None:
        self._store = store

    def __enter__(self) -> Store | None:
        return self._store

    def __exit__(self, *_: object) -> None:
        if self._store is not None:
            self._store.close()


class FileBox:
    """Those in a file of JSON lines; the number of each is the byte at which its line begins."""

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self._path = path

    def page(self, reason: str | None, before: int | None, limit: int) -> Letters:
        """See ``LetterBox``."""
        found: list[StoredDeadLetter] = []
        lines, first = self._lines(before)
        for at, line in reversed(lines):
            letter = _letter(line)
            if letter is not None and reason in {None, letter.reason}:
                found.append(StoredDeadLetter(at, letter))
                if len(found) == limit:
                    return Letters(found, at if at > 0 else None)
        return Letters(found, first if first > 0 else None)

    def one(self, number: int) -> StoredDeadLetter | None:
        """See ``LetterBox``."""
        try:
            with self._path.open("rb") as file:
                if number:
                    file.seek(number - 1)
                    if file.read(1) != b"\n":
                        return None
                letter = _letter(file.readline(TAIL_BYTES))
        except (FileNotFoundError, OverflowError):
            return None
        return None if letter is None else StoredDeadLetter(number, letter)

    def counts(self) -> ReasonCounts:
        """See ``LetterBox``."""
        lines, first = self._lines(None)
        counted = Counter(letter.reason for _, line in lines if (letter := _letter(line)) is not None)
        return ReasonCounts(dict(sorted(counted.items(), key=lambda each: (-each[1], each[0]))), whole=first == 0)

    def _lines(self, before: int | None) -> tuple[list[tuple[int, bytes]], int]:
        """The last whole lines before a byte, each with its first byte; and where the first of them begins."""
        try:
            size = self._path.stat().st_size
        except FileNotFoundError:
            return [], 0
        end = size if before is None else min(before, size)
        start = max(0, end - TAIL_BYTES)
        with self._path.open("rb") as file:
            file.seek(start)
            data = file.read(end - start)
        lines = list(_cut(data, start))[-LOOKED_AT_MAX:]
        return lines, lines[0][0] if lines else 0


def _cut(data: bytes, start: int) -> Iterator[tuple[int, bytes]]:
    """The whole lines of ``data``; one that began before it is none, unless it is the file's beginning."""
    at = 0 if start == 0 else data.find(b"\n") + 1
    while (end := data.find(b"\n", at)) >= 0:
        yield start + at, data[at:end]
        at = end + 1


def _letter(line: bytes) -> DeadLetter | None:
    """None for what is no line of dead letters: of another program, or torn."""
    try:
        return dead_letter(orjson.loads(line))
    except (ValueError, KeyError, TypeError):
        return None


def _stored_letter(number: int, row: Mapping[str, Any]) -> StoredDeadLetter:
    return StoredDeadLetter(number, DeadLetter(**{name: row[name] for name in _FIELDS}), row["delivered_at"])
