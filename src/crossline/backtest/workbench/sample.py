"""A sample of the history, decoded once and judged in this process any number of times, by any rules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from crossline.backtest.backtest import BacktestSpec, RecordedInput
from crossline.backtest.in_process import Inputs
from crossline.basics.deadletter import DeadLetter
from crossline.basics.values import Records
from crossline.evaluate.alerts.alert import alerts_of
from crossline.evaluate.alerts.current_alerts import current_states
from crossline.evaluate.derived_streams import derived
from crossline.evaluate.kernels import Kernel
from crossline.evaluate.output import ShardOutput
from crossline.evaluate.shard import ShardState, judge
from crossline.ingest.route.partitioner import Chunk
from crossline.plan.compile import StreamPlan
from crossline.rules.ruleset import RuleSet
from crossline.runtime.snapshot.snapshot import PlanSnapshot
from crossline.runtime.stages.stages import parts_of
from crossline.runtime.work.task import Task

BATCH_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Batch:
    """Decoded records in the order of their logs, each run with its chunk; and dead letters."""

    inputs: tuple[tuple[Records, Chunk], ...]
    dead: tuple[DeadLetter, ...] = ()

    def __len__(self) -> int:
        return sum(len(records) for records, _ in self.inputs)


def batches(history: RecordedInput, folder: Path) -> Iterator[Batch]:
    """The records of ``history`` in batches; ``folder``: for temporary files.

    Raises UsageError if an input matches no file, SourceError if one cannot be read.
    """
    inputs = Inputs.of(history.files(), folder, 1, BATCH_BYTES)
    snapshot = BacktestSpec(RuleSet(), history).snapshot(RuleSet(), 1)
    for number, (mine,) in enumerate(inputs.batches(1)):
        found = [
            each
            for place, rows in enumerate(mine)
            for each in inputs.intake.decode(snapshot, rows, Task(batch_id=number), place)
        ]
        dead = tuple(letter for decoded, _ in found for letter in decoded.dead)
        yield Batch(tuple((decoded.records, chunk) for decoded, chunk in found), dead)


@dataclass(slots=True)
class SampleJudge:
    """Judges batches one after the other by the rules of ``judged``, with the engine's own routing and judging."""

    judged: BacktestSpec
    states: dict[int, ShardState] = field(
        default_factory=dict
    )  # by depth: rules that read hits are judged a depth later
    snapshot: PlanSnapshot = field(init=False)
    plans: Mapping[str, StreamPlan] = field(init=False)

    def __post_init__(self) -> None:
        self.snapshot = self.judged.snapshot(self.judged.rules, 1)
        self.plans = {plan.stream: plan for plan in self.snapshot.plans()}

    def judge(self, batch: Batch) -> ShardOutput:
        """The hits of the next batch, and what it added to each state store."""
        plans, whole = list(self.plans.values()), ShardOutput()
        parts = [each for records, chunk in batch.inputs for each in parts_of(self.snapshot, records, chunk)]
        for depth in range(1, max((each.depth for each in plans), default=1) + 1):
            state = self.states.setdefault(depth, ShardState())
            mine = [(part.meta, part.arrays) for at, part in parts if at == depth]
            output = judge([each for each in plans if each.depth == depth], state, mine, self.judged.bounds)
            whole.hits += output.hits
            whole.deltas += output.deltas
            parts += derived(plans, depth, output.read, state.log_clock, 1, self.judged.lists, output.feature_queries)
        return whole

    def store(self, state_store: str) -> Kernel | None:
        """The kernel of a state store; None if it has no records yet."""
        return next((state.stores[state_store] for state in self.states.values() if state_store in state.stores), None)

    def alerts(self, batch: Batch) -> list[dict[str, Any]]:
        """The alerts of the next batch, those of one rule in the order of their records."""
        return alerts_of(self.plans.values(), self.judge(batch).hits, 0)


def alerts_over(judged: BacktestSpec, sample: Iterable[Batch]) -> list[dict[str, Any]]:
    """All alerts of a sample, after corrections."""
    jury = SampleJudge(judged)
    return current_states(alert for batch in sample for alert in jury.alerts(batch))
