"""What a batch goes through, as a plain value: stages, each a function of rows to rows.

A row is (stage, shard, kind, body): meant for the stage of that number, or for no stage (``OUT``): then it is
delivered. A stage that is ``by_shard`` gets all rows of a shard in one task; the first gets rows of the input instead.
A stage hands on what is meant for others. It knows nothing of who runs it: that is for the runners (``flow``: Spark in
stages, Spark in one task; ``local``: processes of this machine), which know no rule. A further stage is a further item
in the list.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from crossline.basics.deadletter import DeadLetter
from crossline.basics.values import Records
from crossline.ingest.enrich.headers import with_headers
from crossline.ingest.route.part_codec import dead_to_json, packed_views
from crossline.ingest.route.partitioner import Chunk, Part
from crossline.ingest.route.plan_inputs import entering
from crossline.plan.costs import UNMEASURED, Meter
from crossline.runtime.snapshot.snapshot import PlanSnapshot, SnapshotSource
from crossline.runtime.sources.intake import Intake
from crossline.runtime.stages.rows import OUT, ArrowBatches, Body, costs_row, rows_of
from crossline.runtime.stages.shard_judge import by_shard
from crossline.runtime.stages.spill import spilled_rows
from crossline.runtime.work.stopwatch import Stopwatch, measuring
from crossline.runtime.work.task import Task

if TYPE_CHECKING:
    from crossline.runtime.stages.decision_stage import Judge

StageFunction = Callable[[Task, ArrowBatches], ArrowBatches]


@dataclass(frozen=True, slots=True)
class Stage:
    """One step, and whether its rows come to it by their shards."""

    name: str
    step: StageFunction
    by_shard: bool = True


def stages_of(
    source: SnapshotSource, intake: Intake, judge: Judge, *, kept: bool = False, patient: bool = True
) -> tuple[Stage, ...]:
    """The stages of a batch by the snapshot of ``source``: judged once for each depth of plans, then decided about.

    ``kept``: it is decided where states are, whether it may be revised or not; ``patient``: see ``DecideShards``.
    """
    snapshot = source.current()
    if any(plan.tables for plan in snapshot.plans()):
        from crossline.runtime.snapshot import tables  # noqa: F401, PLC0415 - once, before processes are forked

    depths = range(1, snapshot.depth + 1)
    judging = (Stage("judge" if at == 1 else f"judge hits {at}", JudgeShards(source, judge, at)) for at in depths)
    stages = (take_in_stage(source, intake), *judging)
    if snapshot.deciding is None:
        return stages
    from crossline.evaluate.suppression import changes  # noqa: F401, PLC0415 - once, before processes are forked
    from crossline.runtime.stages.decision_stage import DecideShards, decision_stage_number  # noqa: PLC0415 - mostly not

    keeping = judge if kept or snapshot.revises_ms is not None else None
    return (*stages, Stage("decide", DecideShards(source, decision_stage_number(snapshot), keeping, patient)))


def stage_count(snapshot: PlanSnapshot) -> int:
    """How many stages a batch goes through by ``snapshot``, as ``stages_of`` makes them."""
    return 1 + snapshot.depth + (snapshot.deciding is not None)


def take_in_stage(source: SnapshotSource, intake: Intake) -> Stage:
    """The first stage, which has no state."""
    return Stage("take in", TakeIn(source, intake), by_shard=False)


def in_one(stages: Sequence[Stage], task: Task, batches: ArrowBatches) -> ArrowBatches:
    """All stages, one within the other."""
    for stage in stages:
        batches = stage.step(task, batches)
    return batches


@dataclass(frozen=True, slots=True)
class TakeIn:
    """Raw input to parts per shard, each for the stage that is its depth: decode, join with tables, route, pack."""

    source: SnapshotSource
    intake: Intake

    def __call__(self, task: Task, batches: ArrowBatches) -> ArrowBatches:
        """Parts for the stages that judge, and dead letters."""
        snapshot = self.source.current()
        watch, meter = Stopwatch(), measuring()
        for number, batch in enumerate(batches):
            watch.start()
            for decoded, chunk in self.intake.decode(snapshot, batch, task, number):
                watch.lap("decode")
                parts = parts_of(snapshot, decoded.records, chunk, meter)
                if snapshot.bounds.aligned:  # what is for stages above waits with the rest
                    parts = [(1, part) for _, part in parts]
                watch.lap("route")
                packed = _packed(parts, decoded.dead, task)
                watch.lap("pack")
                del decoded, parts  # megabytes that the next chunk is read into, rather than into pages of its own
                yield packed
                watch.start()
        yield rows_of([(OUT, 0, "spent", watch.to_json()), costs_row(meter)])


def parts_of(
    snapshot: PlanSnapshot, records: Records, chunk: Chunk, meter: Meter = UNMEASURED
) -> list[tuple[int, Part]]:
    """Records with the fields of tables, cut by shard and store, each part with the depth that it is judged at."""
    plan = snapshot.plan(records.stream)
    if plan.spec.headers and not plan.spec.headers.keys() <= records.fields.keys():
        records = with_headers(plan.spec, records)  # of no topic
    if plan.tables:
        from crossline.ingest.enrich.join import joined  # noqa: PLC0415 - where there are tables; see ``stages_of``

        records = joined(plan.spec, snapshot.joins(records.stream), records)
    return list(entering(snapshot.plans(), records, chunk, snapshot.shards, snapshot.lists, meter))


@dataclass(frozen=True, slots=True)
class JudgeShards:
    """The parts of each shard to what comes of them, by the plans of depth ``at``, which is the number of the stage."""

    source: SnapshotSource
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


def _packed(parts: list[tuple[int, Part]], dead: list[DeadLetter], task: Task) -> pa.RecordBatch:
    rows: list[tuple[int, int, str, Body]] = [
        (depth, shard, "parts", packed_views(mine)) for (depth, shard), mine in by_shard(parts).items()
    ]
    return spilled_rows([*rows, (OUT, 0, "dead", dead_to_json(dead))] if dead else rows, task)


def _spent(watch: Stopwatch) -> pa.RecordBatch:
    return rows_of([(OUT, 0, "spent", watch.to_json())])
