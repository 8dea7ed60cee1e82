"""The two stages that run in Spark's Python workers: take in, and detect.

Taking in is decoding, routing and packing; detecting is judging a shard's batch.

Both are plain functions over iterators of Arrow batches, as ``mapInArrow`` wants them; all they know of Spark is
which task they run in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa

from crossline.core.pack import dead_to_json, pack
from crossline.core.route import Part, route
from crossline.core.values import DeadLetter
from crossline.engine.book import BookSource
from crossline.engine.judging import Judging
from crossline.engine.source.intake import Intake
from crossline.engine.state.cache import ShardCache
from crossline.engine.state.keepers import judged
from crossline.engine.stopwatch import Stopwatch
from crossline.engine.task import Task

ArrowBatches = Iterator[pa.RecordBatch]

PACKED_SCHEMA = "shard int, kind string, body binary"
OUTPUT_SCHEMA = "kind string, body binary"
_PACKED = pa.schema([("shard", pa.int32()), ("kind", pa.string()), ("body", pa.binary())])
_OUTPUT = pa.schema([("kind", pa.string()), ("body", pa.binary())])


def take_in(source: BookSource, intake: Intake) -> Callable[[ArrowBatches], ArrowBatches]:
    """Stage one: raw input to parts per shard."""

    def run(batches: ArrowBatches) -> ArrowBatches:
        book = source.current()
        task = Task.now()
        watch = Stopwatch()
        for number, batch in enumerate(batches):
            watch.start()
            for decoded, chunk in intake.decode(book, batch, task, number):
                watch.lap("decode")
                plan = book.plan(decoded.records.stream)
                parts = route(plan, decoded.records, chunk, book.shards, book.lists)
                watch.lap("route")
                packed = _packed(parts, decoded.dead, book.shards, chunk.sequence)
                watch.lap("pack")
                yield packed
                watch.start()
        yield packed_batch([(task.partition % book.shards, "spent", watch.to_json())])

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
    source: BookSource, cache: ShardCache | None, partitions: int, keepers: int
) -> Callable[[ArrowBatches], ArrowBatches]:
    """Stage two, in ``partitions`` tasks: each shard's parts to outcomes, judged by up to ``keepers`` a machine.

    ``cache`` None: a batch job, whose state ends with it.
    """

    def run(batches: ArrowBatches) -> ArrowBatches:
        book = source.current()
        task = Task.now()
        watch = Stopwatch()
        # Every shard of the task is judged in every batch, be it on nothing: its log must have no gap.
        grouped: dict[int, list[memoryview]] = {shard: [] for shard in range(task.partition, book.shards, partitions)}
        for batch in batches:
            shards = batch.column(0).to_numpy()
            for row in range(batch.num_rows):
                kind, body = batch.column(1)[row].as_py(), memoryview(batch.column(2)[row].as_buffer())
                if kind == "parts":
                    grouped[int(shards[row])].append(body)
                else:
                    yield _output([(kind, bytes(body))])
        work = Judging(source, cache, task.query_id, task.batch_id)
        for rows in judged(work, grouped, keepers, watch):
            yield _output(rows)
        yield _output([("spent", watch.to_json())])

    return run


def in_one(
    source: BookSource, intake: Intake, cache: ShardCache | None, keepers: int
) -> Callable[[ArrowBatches], ArrowBatches]:
    """Both stages in one task: raw input to the outcomes of all shards."""
    take, detect = take_in(source, intake), detect_shards(source, cache, 1, keepers)

    def run(batches: ArrowBatches) -> ArrowBatches:
        return detect(take(batches))

    return run


def _output(rows: list[tuple[str, bytes]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [pa.array([r[0] for r in rows], pa.string()), pa.array([r[1] for r in rows], pa.binary())], schema=_OUTPUT
    )
