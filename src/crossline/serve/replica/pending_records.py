"""The records that came through the API, in their order, as long as no batch that is judged on has them."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from crossline.io.files.listing import ChunkList
from crossline.runtime.snapshot.spark_log import offsets_of
from crossline.serve.decisions.values import LogPosition, SubmittedRecord
from crossline.serve.replica.overlay import Laid
from crossline.serve.replica.setup import KAFKA, Source

Ends = Mapping[str, Mapping[str, int]]  # by stream and log: what is before it is in the batch


@dataclass(slots=True, eq=False)
class PendingRecord:
    """A record. ``at``: its number among those here. ``answer``: the future of a waiting request; None: none waits."""

    at: int
    asked: SubmittedRecord
    came_s: float
    answer: asyncio.Future[Any] | None = None
    place: LogPosition | None = None
    failures: int = 0

    @property
    def wanted(self) -> bool:
        """Whether a request waits for it."""
        return self.answer is not None and not self.answer.done()

    def laid(self, *, wanted: bool) -> Laid:
        """The record as sent to the fork."""
        asked = self.asked
        return Laid(asked.stream, asked.record_id, asked.raw, asked.ingest_ms, wanted)


@dataclass(slots=True)
class PendingRecords:
    """All of them. ``lost_s``: after which one that is in no stream counts as not stored."""

    lost_s: float = 30.0
    _entries: deque[PendingRecord] = field(default_factory=deque)
    _by_number: dict[int, PendingRecord] = field(default_factory=dict)
    _next: int = 1

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def last(self) -> int:
        """The number of the newest; 0: there was none."""
        return self._next - 1

    def add(self, asked: SubmittedRecord, answer: asyncio.Future[Any] | None) -> PendingRecord:
        """Behind all others."""
        entry = PendingRecord(self._next, asked, time.monotonic(), answer)
        self._next += 1
        self._entries.append(entry)
        self._by_number[asked.number] = entry
        return entry

    def placed(self, number: int, place: LogPosition) -> None:
        """Where the record stands that its asker calls ``number``."""
        entry = self._by_number.get(number)
        if entry is not None:
            entry.place = place

    def drop(self, number: int) -> None:
        """It stands nowhere, and never will."""
        entry = self._by_number.pop(number, None)
        if entry is not None:
            self._entries.remove(entry)

    def after(self, at: int) -> list[PendingRecord]:
        """Those behind number ``at``, in order."""
        found: list[PendingRecord] = []
        for entry in reversed(self._entries):
            if entry.at <= at:
                break
            found.append(entry)
        return found[::-1]

    def upto(self, at: int, ends: Ends) -> list[PendingRecord]:
        """Those up to number ``at`` that a batch with these ``ends`` does not have, in order."""
        found: list[PendingRecord] = []
        for entry in self._entries:
            if entry.at > at:
                break
            if not _covered(entry, ends):
                found.append(entry)
        return found

    def prune(self, ends: Ends) -> list[PendingRecord]:
        """Forget those that a batch has which all judge on; those that were forgotten because they stand nowhere."""
        old_s = time.monotonic() - self.lost_s
        kept: deque[PendingRecord] = deque()
        lost: list[PendingRecord] = []
        for entry in self._entries:
            nowhere = entry.place is None and entry.came_s < old_s
            if entry.wanted or not (nowhere or _covered(entry, ends)):
                kept.append(entry)
                continue
            self._by_number.pop(entry.asked.number, None)
            if nowhere:
                lost.append(entry)
        self._entries = kept
        return lost

    def pending(self) -> Iterator[PendingRecord]:
        """Those with a waiting request."""
        return (entry for entry in self._entries if entry.wanted)


def _covered(entry: PendingRecord, ends: Ends) -> bool:
    place = entry.place
    if place is None:
        return False
    end = ends.get(entry.asked.stream, {}).get(place.log)
    return end is not None and place.at < end


class BatchEnds:
    """Where batches end in the logs of their sources: what came before is in the state after them."""

    def __init__(self, checkpoint: str, sources: Sequence[Source]) -> None:
        self._checkpoint = checkpoint
        self._sources = sources
        self._lists = {
            each.stream: ChunkList(str(Path(checkpoint) / "sources" / each.stream))
            for each in sources
            if each.kind != KAFKA
        }
        self._read_to: dict[str, int] = {}
        self._ends: dict[str, dict[str, int]] = {}

    def of(self, batch: int) -> Ends:
        """Those of ``batch``; where Spark's log does not have it any more, none: all is laid over again, and known."""
        try:
            offsets = offsets_of(self._checkpoint, batch) if batch >= 0 else []
        except (FileNotFoundError, ValueError):
            offsets = []
        found: dict[str, Mapping[str, int]] = {}
        for source, end in zip(self._sources, offsets, strict=False):
            if end is None:
                continue
            found[source.stream] = _of_topics(end) if source.kind == KAFKA else self._of_chunks(source.stream, end)
        return found

    def _of_chunks(self, stream: str, end: Mapping[str, Any]) -> Mapping[str, int]:
        """Batches come in order: what was read for one serves the next."""
        chunks, ends, done = self._lists[stream], self._ends.setdefault(stream, {}), self._read_to.get(stream, 0)
        until = int(end["chunk"])
        if until < done:
            ends, done = {}, 0
        if until > len(chunks):
            chunks.refresh()
        for chunk in chunks.chunks(done, until):
            name = Path(chunk.path).name
            ends[name] = max(chunk.end, ends.get(name, 0))
        self._read_to[stream] = until
        self._ends[stream] = ends
        return dict(ends)


def _of_topics(end: Mapping[str, Mapping[str, int]]) -> Mapping[str, int]:
    return {f"{topic}-{number}": at for topic, partitions in end.items() for number, at in partitions.items()}
