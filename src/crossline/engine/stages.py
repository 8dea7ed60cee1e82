"""The two stages that run in Spark's Python workers: take in, and detect.

Taking in is decoding, routing and packing; detecting is judging a shard's batch.

Both are plain functions over iterators of Arrow batches, as ``mapInArrow`` wants them; all they know of Spark is the
task's batch and query id.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass

import orjson
import pyarrow as pa
from pyspark import TaskContext

from crossline.core.pack import dead_to_json, pack, unpack
from crossline.core.route import Part, route
from crossline.core.shard import ShardOutput, judge
from crossline.core.values import DeadLetter
from crossline.engine.book import Book, BookSource
from crossline.engine.source.intake import Intake
from crossline.engine.state.cache import ShardCache
from crossline.engine.stopwatch import Stopwatch

ArrowBatches = Iterator[pa.RecordBatch]

PACKED_SCHEMA = "shard int, kind string, body binary"
OUTPUT_SCHEMA = "kind string, body binary"
_PACKED = pa.schema([("shard", pa.int32()), ("kind", pa.string()), ("body", pa.binary())])
_OUTPUT = pa.schema([("kind", pa.string()), ("body", pa.binary())])


@dataclass(frozen=True, slots=True)
class TaskClock:
    """The query and batch that the running task belongs to; batch 0 of no query in a batch job."""

    query_id: str
    batch_id: int

    @staticmethod
    def now() -> TaskClock:
        """Read from the task that is running."""
        context = TaskContext.get()
        if context is None:
            return TaskClock("", 0)
        batch = context.getLocalProperty("streaming.sql.batchId")
        return TaskClock(context.getLocalProperty("sql.streaming.queryId") or "", int(batch) if batch else 0)


def take_in(source: BookSource, intake: Intake) -> Callable[[ArrowBatches], ArrowBatches]:
    """Stage one: raw input to parts per shard."""

    def run(batches: ArrowBatches) -> ArrowBatches:
        book = source.current()
        clock = TaskClock.now()
        context = TaskContext.get()
        partition = context.partitionId() if context else 0
        watch = Stopwatch()
        for number, batch in enumerate(batches):
            watch.start()
            for decoded, chunk in intake.decode(book, batch, clock.batch_id, partition, number):
                watch.lap("decode")
                plan = book.plan(decoded.records.stream)
                parts = route(plan, decoded.records, chunk, book.shards, book.lists)
                watch.lap("route")
                packed = _packed(parts, decoded.dead, book.shards, chunk.sequence)
                watch.lap("pack")
                yield packed
                watch.start()
        yield packed_batch([(partition % book.shards, "spent", watch.to_json())])

    return run


def _packed(parts: list[Part], dead: list[DeadLetter], shards: int, sequence: int) -> pa.RecordBatch:
    by_shard: dict[int, list[Part]] = {}
    for part in parts:
        by_shard.setdefault(part.shard, []).append(part)
    rows = [(shard, "parts", pack(mine)) for shard, mine in by_shard.items()]
    if dead:
        rows.append((sequence % shards, "dead", dead_to_json(dead)))
    return packed_batch(rows)


def packed_batch(rows: Sequence[tuple[int, str, bytes]]) -> pa.RecordBatch:
    """Rows (shard, kind, body) of PACKED_SCHEMA."""
    return pa.RecordBatch.from_arrays(
        [
            pa.array([r[0] for r in rows], pa.int32()),
            pa.array([r[1] for r in rows], pa.string()),
            pa.array([r[2] for r in rows], pa.binary()),
        ],
        schema=_PACKED,
    )


def detect_shards(
    source: BookSource, cache: ShardCache | None, partitions: int
) -> Callable[[ArrowBatches], ArrowBatches]:
    """Stage two: each shard's parts to outcomes. ``cache`` None: a batch job, whose state ends with it."""

    def run(batches: ArrowBatches) -> ArrowBatches:
        book = source.current()
        clock = TaskClock.now()
        context = TaskContext.get()
        own = context.partitionId() if context else 0
        watch = Stopwatch()
        # Every shard of the task is judged in every batch, be it on nothing: its log must have no gap.
        grouped: dict[int, list[memoryview]] = {shard: [] for shard in range(own, book.shards, partitions)}
        for batch in batches:
            shards = batch.column(0).to_numpy()
            for row in range(batch.num_rows):
                kind, body = batch.column(1)[row].as_py(), memoryview(batch.column(2)[row].as_buffer())
                if kind == "parts":
                    grouped[int(shards[row])].append(body)
                else:
                    yield _output([(kind, bytes(body))])
        for shard, blobs in grouped.items():
            yield _output(_outcomes(_judge_shard(book, cache, clock, (shard, blobs), watch)))
        yield _output([("spent", watch.to_json())])

    return run


def in_one(source: BookSource, intake: Intake, cache: ShardCache | None) -> Callable[[ArrowBatches], ArrowBatches]:
    """Both stages in one task: raw input to the outcomes of all shards."""
    take, detect = take_in(source, intake), detect_shards(source, cache, 1)

    def run(batches: ArrowBatches) -> ArrowBatches:
        return detect(take(batches))

    return run


def _judge_shard(
    book: Book, cache: ShardCache | None, clock: TaskClock, given: tuple[int, list[memoryview]], watch: Stopwatch
) -> ShardOutput:
    shard, blobs = given
    watch.start()
    parts = [part for blob in blobs for part in unpack(blob, f"parts for shard {shard}")]
    watch.lap("unpack")
    detected_ms = time.time_ns() // 1_000_000
    if cache is None:
        output = judge(book.plans(), book.new_state(), parts, detected_ms, book.bounds)
        watch.lap("judge")
        return output
    with cache.shard(book, clock.query_id, shard, clock.batch_id) as held:
        watch.lap("state")
        output = judge(book.plans(), held.state, parts, detected_ms, book.bounds)
        watch.lap("judge")
        held.commit(output.deltas)
        watch.lap("log")
    return output


def _outcomes(output: ShardOutput) -> list[tuple[str, bytes]]:
    rows = []
    if output.alerts:
        rows.append(("alerts", orjson.dumps(output.alerts)))
    for kind, positions in (("duplicates", output.duplicates), ("late", output.late)):
        if positions:
            rows.append((kind, orjson.dumps([asdict(p) for p in positions])))
    figures = {"records": output.records, "ingest_ms": output.ingest_ms, "retained": output.retained}
    rows.append(("figures", orjson.dumps(figures, option=orjson.OPT_SERIALIZE_NUMPY)))
    return rows


def _output(rows: list[tuple[str, bytes]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [pa.array([r[0] for r in rows], pa.string()), pa.array([r[1] for r in rows], pa.binary())], schema=_OUTPUT
    )
