"""What a batch goes through, as a plain value: hops, each a function of rows to rows, and what brings them their rows.

A row is (hop, shard, kind, body): meant for the hop of that number, or for nobody in here (``OUT``), and then for
whoever delivers. A hop that is ``by_shard`` gets all rows of a shard in one task; the first gets rows of the input
instead. A hop hands on what is meant for others. It knows nothing of who runs it: that is for the runners (``flow``:
Spark in stages, Spark in one task; ``local``: processes of this machine), which know no rule. A further hop is a
further item in the list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from crossline.core.basics.deadletter import DeadLetter
from crossline.core.route.pack import dead_to_json, pack
from crossline.core.route.parts import Part, route
from crossline.engine.book.book import BookSource
from crossline.engine.hops.deciding import DecideShards, decides_at
from crossline.engine.hops.rows import OUT, ArrowBatches, rows_of
from crossline.engine.source.intake import Intake
from crossline.engine.state.cache import Sent
from crossline.engine.work.stopwatch import Stopwatch
from crossline.engine.work.task import Task

Step = Callable[[Task, ArrowBatches], ArrowBatches]

# Judges, at a level of plans, the packed parts that a batch has for each shard; what comes of each of them.
Judge = Callable[[Task, int, Mapping[int, Sequence[memoryview]], Stopwatch], Iterator[Sent]]


@dataclass(frozen=True, slots=True)
class Hop:
    """One step, and whether its rows come to it by their shards."""

    name: str
    step: Step
    by_shard: bool = True


def hops_of(source: BookSource, intake: Intake, judge: Judge) -> tuple[Hop, ...]:
    """The hops of a batch by the book that ``source`` has: judged once for each level of plans, then decided about."""
    book = source.current()
    levels = range(1, book.depth + 1)
    judging = (Hop("judge" if at == 1 else f"judge hits {at}", JudgeShards(source, judge, at)) for at in levels)
    deciding = (Hop("decide", DecideShards(source, decides_at(book))),) if book.deciding is not None else ()
    return (Hop("take in", TakeIn(source, intake, to=1), by_shard=False), *judging, *deciding)


def in_one(hops: Sequence[Hop], task: Task, batches: ArrowBatches) -> ArrowBatches:
    """All hops, one within the other."""
    for hop in hops:
        batches = hop.step(task, batches)
    return batches


@dataclass(frozen=True, slots=True)
class TakeIn:
    """Raw input to parts per shard: decode, route, pack."""

    source: BookSource
    intake: Intake
    to: int

    def __call__(self, task: Task, batches: ArrowBatches) -> ArrowBatches:
        """Parts for hop ``to``, and dead letters."""
        book = self.source.current()
        watch = Stopwatch()
        for number, batch in enumerate(batches):
            watch.start()
            for decoded, chunk in self.intake.decode(book, batch, task, number):
                watch.lap("decode")
                plan = book.plan(decoded.records.stream)
                parts = route(plan, decoded.records, chunk, book.shards, book.lists)
                watch.lap("route")
                packed = self._packed(parts, decoded.dead)
                watch.lap("pack")
                yield packed
                watch.start()
        yield _spent(watch)

    def _packed(self, parts: list[Part], dead: list[DeadLetter]) -> pa.RecordBatch:
        by_shard: dict[int, list[Part]] = {}
        for part in parts:
            by_shard.setdefault(part.shard, []).append(part)
        rows = [(self.to, shard, "parts", pack(mine)) for shard, mine in by_shard.items()]
        return rows_of([*rows, (OUT, 0, "dead", dead_to_json(dead))] if dead else rows)


@dataclass(frozen=True, slots=True)
class JudgeShards:
    """The parts of each shard to what comes of them, by the plans of level ``at``, which is the number of the hop."""

    source: BookSource
    judge: Judge
    at: int

    def __call__(self, task: Task, batches: ArrowBatches) -> ArrowBatches:
        """Outcomes of the shards of this task."""
        watch = Stopwatch()
        # Every shard of the task is judged in every batch, be it on nothing: its log must have no gap.
        shards = range(task.partition, self.source.current().shards, task.partitions)
        given: dict[int, list[memoryview]] = {shard: [] for shard in shards}
        for batch in batches:
            meant, shard = batch.column(0).to_numpy(), batch.column(1).to_numpy()
            for row in (meant == self.at).nonzero()[0].tolist():
                given[int(shard[row])].append(memoryview(batch.column(3)[row].as_buffer()))
            if (meant != self.at).any():
                yield batch.filter(pa.array(meant != self.at))
        for sent in self.judge(task, self.at, given, watch):
            yield rows_of(sent)
        yield _spent(watch)


def _spent(watch: Stopwatch) -> pa.RecordBatch:
    return rows_of([(OUT, 0, "spent", watch.to_json())])
