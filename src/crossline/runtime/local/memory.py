"""Judging with states that live in the process that judges, and end with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from crossline.basics.wire import WirePart
from crossline.evaluate.alerts.hits import Hit
from crossline.evaluate.alignment import AlignmentBuffer
from crossline.evaluate.output import StoreDelta
from crossline.evaluate.shard import ShardState, judge
from crossline.ingest.route.partitioner import Part
from crossline.runtime.snapshot.snapshot import PlanSnapshot, SnapshotSource
from crossline.runtime.stages.shard_judge import part_rows, result_rows
from crossline.runtime.stages.spill import parts_of
from crossline.runtime.work.rows import StageRows
from crossline.runtime.work.stopwatch import Stopwatch, measuring
from crossline.runtime.work.task import Task


@dataclass(slots=True)
class MemoryJudge:
    """Judges the shards of one process, batch after batch; nothing is logged.

    ``on_delta``: called with the depth, the state and the segment of a batch, by a caller that saves them. ``wanted``:
    which hits become alerts; None: all.
    """

    source: SnapshotSource
    on_delta: Callable[[int, ShardState, Sequence[StoreDelta]], None] | None = None
    states: dict[tuple[int, int], ShardState] = field(default_factory=dict)
    waiting: dict[int, AlignmentBuffer] = field(default_factory=dict)
    wanted: Callable[[Hit], bool] | None = None

    def __call__(
        self, task: Task, depth: int, given: Mapping[int, Sequence[memoryview]], watch: Stopwatch
    ) -> Iterator[StageRows]:
        """What comes of each shard."""
        snapshot = self.source.current()
        for shard, blobs in given.items():
            watch.start()
            state = self.states.get((depth, shard))
            if state is None:
                state = self.states[depth, shard] = snapshot.new_state()
            if not depth:
                from crossline.runtime.stages.decision_stage import decide_shard  # noqa: PLC0415 - where there is a policy
                from crossline.runtime.stages.decision_writer import DecisionWriter  # noqa: PLC0415 - as above

                rows, deltas = decide_shard(snapshot, state, DecisionWriter(task, shard), blobs, watch)
                self._note(depth, state, deltas)
                yield rows
                continue
            parts = list(parts_of(blobs, f"parts of batch {task.batch_id} for shard {shard}"))
            watch.lap("unpack")
            if snapshot.bounds.aligned and depth == 1:
                parts, later = self._aligned(snapshot, shard, parts)
                yield later
            output = judge(snapshot.plans_at(depth), state, parts, snapshot.judging, measuring())
            watch.lap("judge")
            if self.wanted is not None:
                output.hits = [hit for hit in output.hits if self.wanted(hit)]
            rows = result_rows(snapshot, depth, shard, output, state)
            self._note(depth, state, output.deltas)
            yield rows

    def _note(self, depth: int, state: ShardState, deltas: Sequence[StoreDelta]) -> None:
        if self.on_delta is not None:
            self.on_delta(depth, state, deltas)

    def _aligned(self, snapshot: PlanSnapshot, shard: int, parts: list[WirePart]) -> tuple[list[WirePart], StageRows]:
        """The parts that a shard judges now, new and buffered; parts for later stages are buffered here too."""
        waiting = self.waiting.setdefault(shard, AlignmentBuffer(snapshot.bounds.aligned))
        depth_of = {plan.stream: plan.depth for plan in snapshot.plans()}
        ready = waiting.release(snapshot.plans(), parts)
        above = [(depth_of[m["stream"]], Part(shard, dict(m), a)) for m, a in ready if depth_of[m["stream"]] > 1]
        return [part for part in ready if depth_of[part[0]["stream"]] == 1], part_rows(above)
