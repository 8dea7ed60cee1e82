"""Which offsets stood at which ingest time: so that a rule that comes later can be given its past from the source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from crossline.basics.times import BEGINNING_MS
from crossline.evaluate.output import StreamClocks
from crossline.runtime.snapshot.spark_log import first_offsets, offsets_of, unfinished_batch

EVERY_MS = 1_000  # of ingest time between two marks
KEEP_BYTES = 64 << 20  # of marks; with more, the older half goes


@dataclass(frozen=True, slots=True)
class OffsetMark:
    """After batch ``batch``: the offsets of each source, in their order, and how far each stream had been read.

    ``ingest_ms`` and ``event_ms``: the highest ingest and event time per stream; ``slowest_ms``: where the log stands
    that is furthest behind.
    """

    batch: int
    offsets: list[dict[str, Any] | None]
    ingest_ms: dict[str, int]
    event_ms: dict[str, int] = field(default_factory=dict)
    slowest_ms: dict[str, int] = field(default_factory=dict)

    def reached(self, stream: str) -> int:
        """No record up to here is dated or came later than this; the beginning of time where none came."""
        clocks = [ms[stream] for ms in (self.ingest_ms, self.event_ms) if stream in ms]
        return max(clocks, default=BEGINNING_MS)


class OffsetHistory:
    """Marks in ``folder`` (the pipeline's checkpoint), one a second of ingest time; the newest two always have one."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)
        self._path = self._folder / "history.jsonl"
        self._last = self._folder / "history.last.json"
        self._written: dict[str, int] = {}

    def add(self, batch: int, clocks: Mapping[str, StreamClocks]) -> None:
        """Note that ``batch`` is done; its offsets are read from Spark's own log."""
        ingest_ms = {stream: each.ingest_ms for stream, each in clocks.items()}
        event_ms = {stream: each.event_ms for stream, each in clocks.items() if each.event_ms is not None}
        slowest_ms = {stream: each.slowest_ms for stream, each in clocks.items()}
        mark = OffsetMark(batch, offsets_of(str(self._folder), batch), ingest_ms, event_ms, slowest_ms)
        raw = orjson.dumps(mark)
        temporary = self._last.with_suffix(".tmp")
        temporary.write_bytes(orjson.dumps([*(each for each in self._newest() if each.batch < batch), mark][-2:]))
        temporary.replace(self._last)
        if any(ms - self._written.get(stream, BEGINNING_MS) >= EVERY_MS for stream, ms in ingest_ms.items()):
            with self._path.open("ab") as file:
                file.write(b"\n" + raw)  # the end of line first: a mark cut off by a kill spoils no other
                grown = file.tell() > KEEP_BYTES
            if grown:
                self._trim()
            self._written = ingest_ms

    def last(self) -> OffsetMark | None:
        """The mark of the newest finished batch: a batch that is run again counts as not done."""
        again = unfinished_batch(str(self._folder))
        done = [mark for mark in self._newest() if again is None or mark.batch < again]
        return done[-1] if done else None

    def _newest(self) -> list[OffsetMark]:
        return [OffsetMark(**each) for each in orjson.loads(self._last.read_bytes())] if self._last.exists() else []

    def clocks(self) -> dict[str, StreamClocks]:
        """How far each stream had been read after the newest finished batch."""
        mark = self.last()
        if mark is None:
            return {}
        return {
            stream: StreamClocks(ms, mark.slowest_ms.get(stream, BEGINNING_MS), mark.event_ms.get(stream))
            for stream, ms in mark.ingest_ms.items()
        }

    def first_read(self, count: int) -> list[dict[str, Any] | None]:
        """Where the reading of each of ``count`` sources began; None where that is not known."""
        return [first_offsets(str(self._folder), number) for number in range(count)]

    def before(self, stream: str, clock_ms: int) -> OffsetMark | None:
        """The newest mark at which no record of ``stream`` was of ``clock_ms`` or later; None: from the beginning."""
        found = None
        for mark in self._marks():
            if mark.reached(stream) >= clock_ms:
                break
            found = mark
        return found

    def between(self, start: OffsetMark | None, end: OffsetMark) -> Iterator[OffsetMark]:
        """The marks after ``start`` (None: the beginning) and before ``end``, then ``end``."""
        first = start.batch if start else -1
        yield from (mark for mark in self._marks() if first < mark.batch < end.batch)
        yield end

    def _marks(self) -> Iterator[OffsetMark]:
        if self._path.exists():
            with self._path.open("rb") as file:
                yield from (mark for mark in map(_mark_of, file) if mark is not None)

    def _trim(self) -> None:
        """Drop the older half of the marks."""
        lines = self._path.read_bytes().splitlines(keepends=True)
        temporary = self._path.with_suffix(".tmp")
        temporary.write_bytes(b"".join(lines[len(lines) // 2 :]))
        temporary.replace(self._path)


def _mark_of(line: bytes) -> OffsetMark | None:
    """None where a kill cut the line off."""
    try:
        return OffsetMark(**orjson.loads(line))
    except orjson.JSONDecodeError:
        return None
