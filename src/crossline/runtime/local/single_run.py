"""The stages of one stream in this very process: records in, outcomes out, the state kept between two batches."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any

from crossline.evaluate.output import StoreDelta
from crossline.evaluate.shard import ShardState
from crossline.evaluate.state_log import encode_delta
from crossline.runtime.local.memory import MemoryJudge
from crossline.runtime.local.saved_state import Segments, plan_of
from crossline.runtime.snapshot.snapshot import HeldSnapshot, PlanSnapshot
from crossline.runtime.sources.column_check import check_columns
from crossline.runtime.sources.rows import RowIntake, Rows, read_rows
from crossline.runtime.stages.outcome import Outcome, collect_outcome
from crossline.runtime.stages.stages import Stage, in_one, stages_of
from crossline.runtime.work.task import Task

ROWS_MAX = 200_000  # of a batch
# A key with records out of order replays all its records of the batch for each of them.
ROWS_MAX_AGAIN = 5_000


def wall_clock_ms() -> int:
    """Epoch milliseconds now."""
    return time.time_ns() // 1_000_000


@dataclass(slots=True)
class SingleRun:
    """Judges the records of ``stream`` by ``snapshot``, which has one shard, batch after batch.

    ``segments``: what the batches added to the state, where that is to be saved; None: it is not.
    """

    snapshot: PlanSnapshot
    stream: str
    clock_ms: Callable[[], int] = wall_clock_ms
    segments: Segments | None = None
    batch: int = 0
    _stages: tuple[Stage, ...] = field(init=False)
    _judge: MemoryJudge = field(init=False)
    _intake: RowIntake = field(init=False)

    def __post_init__(self) -> None:
        """Compile the plan; raises UsageError where a rule does not compile."""
        self.snapshot.plans()
        source = HeldSnapshot(self.snapshot)
        self._intake = RowIntake(self.stream, self.clock_ms)
        self._judge = MemoryJudge(source, None if self.segments is None else self._keep)
        self._stages = stages_of(source, self._intake, self._judge)

    def batches(self, data: Any) -> Iterator[Rows]:
        """The records of ``data`` as batches for ``judge``.

        Raises UsageError where ``data`` holds no records, or lacks fields of the stream; where an item of an iterable
        is no dict, once that is read.
        """
        again = any(version.rule.judges_again for version in self.snapshot.rules.versions)
        rows = read_rows(data, ROWS_MAX_AGAIN if again else ROWS_MAX)
        if rows.schema is not None:
            first = list(islice(rows.batches, 1))
            check_columns(rows.schema, self.stream, self.snapshot.streams[self.stream], "table", empty=not first)
            return chain(first, rows.batches)
        return rows.batches

    def judge(self, rows: Rows) -> Outcome:
        """What comes of one batch; the state moves on."""
        task = Task(batch_id=self.batch)
        given: Any = iter([rows])
        found = in_one(self._stages, task, given)
        columns = ((batch.column(2).to_pylist(), batch.column(3).to_pylist()) for batch in found)
        outcome = collect_outcome([pair for each in columns for pair in zip(*each, strict=True)], None)
        self.batch += 1
        if self.segments is not None:
            self.segments.trim(self.snapshot, self._states())
        return outcome

    def _keep(self, depth: int, state: ShardState, deltas: Sequence[StoreDelta]) -> None:
        if self.segments is not None:
            self.segments.add(depth, encode_delta(self.batch, state, deltas))

    def _states(self) -> dict[int, ShardState]:
        return {depth: state for (depth, _), state in self._judge.states.items()}

    def restore(self, segments: Segments, batch: int, rows: int) -> None:
        """Go on from where another run of the same plan was after ``batch`` batches with ``rows`` rows."""
        states = segments.states(self.snapshot)
        self._judge.states = {(depth, 0): state for depth, state in states.items()}
        self.segments, self.batch, self._intake.rows = segments, batch, rows

    @property
    def rows(self) -> int:
        """Rows that came so far."""
        return self._intake.rows

    def plan(self) -> dict[str, Any]:
        """By what it judges, as JSON values that can be compared: digests, and the rule versions by name."""
        return plan_of(self.snapshot)
