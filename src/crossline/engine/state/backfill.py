"""The past of a rule that comes while the pipeline runs.

A new layer's store starts with the records that its windows could reach, read again from the source up to where the
pipeline stands, and judged by nothing. Without that, a rule published now would differ for a while from the same rule
in a backtest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import structlog
from pyspark.sql import SparkSession

from crossline.core.compile import StreamPlan
from crossline.core.pack import pack, unpack
from crossline.core.persist import encode_delta
from crossline.core.route import route
from crossline.core.shard import ShardState, evict_before, judge
from crossline.engine.book import Book, BookSource, StaticBook
from crossline.engine.source.intake import Intake
from crossline.engine.source.plan_source import SourcePlan
from crossline.engine.stages import PACKED_SCHEMA, packed_batch
from crossline.engine.state.history import HistoryLog, Mark
from crossline.engine.state.statelog import StateLog
from crossline.engine.task import Task

ArrowBatches = Iterator[pa.RecordBatch]
log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Fill:
    """Layers of one stream to be filled, as of the end of ``batch``.

    ``clock_ms``: the log's clock where reading starts.
    """

    stream: str
    layers: tuple[str, ...]
    batch: int
    clock_ms: int | None

    def plan(self, book: Book) -> StreamPlan:
        """The stream's plan with only those layers; the first carries the clock."""
        plan = book.plan(self.stream)
        layers = tuple(lp for lp in plan.layers if lp.layer.name in self.layers)
        return replace(plan, layers=layers, reporter=0, stateless=())


def new_layers(before: Book, after: Book) -> dict[str, tuple[str, ...]]:
    """By stream, the layers of ``after`` that ``before`` did not have."""
    known = {lp.layer.name for plan in before.plans() for lp in plan.layers}
    fresh = {
        plan.stream: tuple(
            lp.layer.name for lp in plan.layers if lp.layer.name not in known and not lp.layer.name.endswith("#home")
        )
        for plan in after.plans()
    }
    return {stream: layers for stream, layers in fresh.items() if layers}


def backfill(
    spark: SparkSession,
    book: Book,
    fresh: Mapping[str, tuple[str, ...]],
    sources: Sequence[SourcePlan],
    history: HistoryLog,
    state_root: str,
) -> None:
    """Give the ``fresh`` layers of ``book`` their past, as of the newest finished batch."""
    end = history.last()
    if end is None:
        return
    for number, source in enumerate(sources):
        layers = fresh.get(source.stream)
        if not layers or end.offsets[number] is None or source.stream not in end.ingest_ms:
            continue
        plan = book.plan(source.stream)
        mine = [lp for lp in plan.layers if lp.layer.name in layers]
        slowest_ms = end.ingest_ms[source.stream] - book.bounds.partition_lag_ms
        reach_ms = min(evict_before(lp.layer, slowest_ms) for lp in mine)
        start = history.before(source.stream, reach_ms)
        fill = Fill(source.stream, layers, end.batch, start.ingest_ms.get(source.stream) if start else None)
        log.info("backfill", stream=source.stream, layers=list(layers))
        _run(spark, book, fill, source, (start, end, number), state_root)


def _run(
    spark: SparkSession,
    book: Book,
    fill: Fill,
    source: SourcePlan,
    span: tuple[Mark | None, Mark, int],
    state_root: str,
) -> None:
    start, end, number = span
    frame = source.history(spark, start.offsets[number] if start else None, end.offsets[number] or {})
    holder = StaticBook(book.to_json())
    packed = frame.mapInArrow(_take_in(holder, source.intake, fill), PACKED_SCHEMA)
    by_shard = packed.repartitionById(book.shards, packed.shard)
    by_shard.mapInArrow(_fill_shards(holder, fill, state_root), "shard int").count()


def _take_in(source: BookSource, intake: Intake, fill: Fill) -> Callable[[ArrowBatches], ArrowBatches]:
    def run(batches: ArrowBatches) -> ArrowBatches:
        book = source.current()
        plan = fill.plan(book)
        task = Task.now()
        for number, batch in enumerate(batches):
            for decoded, chunk in intake.decode(book, batch, 0, task.partition, number):
                parts = route(plan, decoded.records, chunk, book.shards, book.lists)
                yield packed_batch([(s, "parts", pack(p for p in parts if p.shard == s)) for s in range(book.shards)])

    return run


def _fill_shards(source: BookSource, fill: Fill, state_root: str) -> Callable[[ArrowBatches], ArrowBatches]:
    def run(batches: ArrowBatches) -> ArrowBatches:
        book = source.current()
        plan = fill.plan(book)
        shard = Task.now().partition
        parts = [part for batch in batches for body in batch.column(2) for part in unpack(body.as_buffer(), "backfill")]
        state = ShardState()
        if fill.clock_ms is not None:
            state.log_clock = {fill.stream: {meta["log"]: fill.clock_ms for meta, _ in parts if meta["running"]}}
        output = judge([plan], state, parts, 0, book.bounds)
        for delta in output.deltas:
            StateLog(state_root, shard).write_fill(delta.layer, encode_delta(fill.batch, state, [delta]))
        yield pa.RecordBatch.from_arrays([pa.array([shard], pa.int32())], names=["shard"])

    return run
