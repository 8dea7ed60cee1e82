"""The past that a source no longer has, from a store of records: the lake.

A topic keeps its records for a while. A rule that is published later reads what the topic has deleted from the lake, up
to a mark that the lake has whole and the topic has not passed yet, and the rest from the topic.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from crossline.runtime.snapshot.snapshot import PlanSnapshot
from crossline.runtime.sources.intake import DecodedRows, Intake
from crossline.runtime.sources.plan_source import SourcePlan, lacks
from crossline.runtime.state_log.offset_history import OffsetMark
from crossline.runtime.work.task import Task

BODY = "body"


@dataclass(frozen=True, slots=True)
class StoredSpan:
    """What is wanted of a store.

    Attributes:
        batch: The batch of the checkpoint that is the last one wanted.
        ends: By stream, the offsets behind that batch.
        from_ms: Ingest time in epoch milliseconds from which on records are wanted; None: from the first.
        to_ms: Ingest time that no wanted record is after.
    """

    batch: int
    ends: Mapping[str, Mapping[str, Any]]
    from_ms: int | None
    to_ms: int


@dataclass(frozen=True, slots=True)
class StoredSlice:
    """A run of records.

    Attributes:
        rows: By stream; a batch of rows is of one log.
        ends: By stream, the offsets behind the records.
    """

    rows: Mapping[str, Sequence[pa.RecordBatch]]
    ends: Mapping[str, Mapping[str, Any]]


class StoredTail(Protocol):
    """What a store has of topics from some offsets on, without a gap."""

    @property
    def ends(self) -> Mapping[str, Mapping[str, Any]]:
        """By stream, the offsets up to which it has all."""
        ...

    def slices(
        self, begins: Mapping[str, Mapping[str, Any]], ends: Mapping[str, Mapping[str, Any]]
    ) -> Iterator[StoredSlice]:
        """The records between offsets, in the order in which they came; the last slice ends at ``ends``."""
        ...


class StoredPast(Protocol):
    """A store of the records of a checkpoint's streams."""

    def batch(self) -> int | None:
        """The last batch of the checkpoint up to which it is whole; None: it has none."""
        ...

    def slices(self, span: StoredSpan) -> Iterator[Mapping[str, Sequence[pa.RecordBatch]]]:
        """The records of a span by stream, in the order in which they came. Raises StateError where some are missing.

        A batch of rows is of one log; all logs of a slice reach the same instant, and continue the slice before.
        """
        ...

    def behind(self, begins: Mapping[str, Mapping[str, Any]]) -> StoredTail | None:
        """What it has from these offsets of topics on; None: it has nothing, or a gap."""
        ...

    def intake(self, stream: str) -> Intake:
        """Decodes the rows of a stream."""
        ...


@dataclass(frozen=True, slots=True)
class PastStart:
    """Where the reading of a past starts.

    Attributes:
        mark: The source is read after this mark; None: from its beginning.
        stored: What is read from the store before; None: nothing.
        short: Why a part is missing, for people; empty: nothing is known to be missing.
        firsts: The first offsets that each source still has; marks before are passed over.
    """

    mark: OffsetMark | None
    stored: StoredSpan | None = None
    short: str = ""
    firsts: Sequence[Mapping[str, Any]] = ()

    def readable(self, offsets: Sequence[Mapping[str, Any] | None]) -> bool:
        """Whether the sources still have what follows ``offsets``."""
        return not any(lacks(mine, first) for mine, first in zip(offsets, self.firsts, strict=bool(self.firsts)))


def past_start(
    sources: Sequence[SourcePlan],
    begun: OffsetMark | None,
    first_read: Sequence[Mapping[str, Any] | None],
    end: OffsetMark,
    stored: StoredPast | None,
    marks: Iterable[OffsetMark],
    from_ms: int | None,
) -> PastStart:
    """Where to read the past of ``sources`` from.

    Args:
        sources: Those whose records are wanted; their offsets in marks are in this order.
        begun: The mark after which their records are wanted; None: from the first.
        first_read: The offset at which the checkpoint began to read each source.
        end: The mark up to which they are wanted.
        stored: A store that has older records; None: there is none.
        marks: The marks before ``end``, in their order.
        from_ms: The instant of ``begun`` on the ingest clock, for the store; None: from the first.
    """
    ends = [offsets or {} for offsets in end.offsets]
    firsts = [
        source.first(dict(offsets)) if source.first is not None and offsets else {}
        for source, offsets in zip(sources, ends, strict=True)
    ]
    starts = [
        first_offset if offset is None else offset
        for offset, first_offset in zip(begun.offsets if begun is not None else first_read, first_read, strict=True)
    ]
    lost = [
        source.stream
        for source, start, first in zip(sources, starts, firsts, strict=True)
        if start is not None and lacks(start, first)
    ]
    older = begun is None and any(lacks(None, first) for first in firsts)
    if not lost and not older:
        return PastStart(begun)
    mark = _stored_mark(stored, marks, end)
    if mark is not None and not any(lacks(have, first) for have, first in zip(mark.offsets, firsts, strict=True)):
        offsets = {source.stream: each for source, each in zip(sources, mark.offsets, strict=True) if each is not None}
        to_ms = max((mark.ingest_ms[stream] for stream in offsets if stream in mark.ingest_ms), default=0)
        return PastStart(mark, StoredSpan(mark.batch, offsets, from_ms, to_ms))
    if not lost:
        return PastStart(begun)
    why = "there is no lake" if stored is None else "the lake has not got them, or has a gap before those of the topic"
    names = ", ".join(lost)
    return PastStart(None, short=f"topics of {names} have deleted records that are needed, and {why}", firsts=firsts)


def _stored_mark(stored: StoredPast | None, marks: Iterable[OffsetMark], end: OffsetMark) -> OffsetMark | None:
    """The newest mark that the store has whole."""
    batch = stored.batch() if stored is not None else None
    if batch is None:
        return None
    if end.batch <= batch:
        return end
    found = None
    for mark in marks:
        if mark.batch > batch:
            break
        found = mark
    return found


@dataclass(frozen=True, slots=True)
class StoredIntake:
    """Rows of a store in tasks of Spark: each has a batch of rows in Arrow's IPC format, so that no type changes."""

    inner: Intake

    def decode(self, snapshot: PlanSnapshot, batch: pa.RecordBatch, task: Task, number: int) -> DecodedRows:
        """By the store's own decoder."""
        for body in batch.column(BODY):
            with pa.ipc.open_stream(body.as_buffer()) as reader:
                for rows in reader:
                    yield from self.inner.decode(snapshot, rows, task, number)


def stored_frame(spark: SparkSession, batches: Sequence[pa.RecordBatch]) -> DataFrame:
    """Rows of a store as a DataFrame for ``StoredIntake``."""
    bodies: list[bytes] = []
    for rows in batches:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema) as writer:
            writer.write_batch(rows)
        bodies.append(sink.getvalue().to_pybytes())
    return spark.createDataFrame(pa.table({BODY: pa.array(bodies, pa.binary())}))
