"""``detect(plan, state, batch) -> (detection, state)``: a pure function, for tests and for use without Spark.

The stream, the backtest and this call go through the same routing and the same judging; only the number of shards
differs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from crossline.basics.conditions.lists import Lists
from crossline.basics.values import Records
from crossline.evaluate.alerts.alert import alerts_of
from crossline.evaluate.alerts.hits import Hit
from crossline.evaluate.bounds import Bounds
from crossline.evaluate.derived_streams import derived
from crossline.evaluate.output import Position
from crossline.evaluate.shard import ShardState, judge
from crossline.ingest.route.partitioner import Chunk
from crossline.ingest.route.plan_inputs import entering
from crossline.plan.compile import StreamPlan


@dataclass(slots=True)
class State:
    """The states of all shards, at each depth of plans (see ``StreamPlan``), and how many chunks were seen."""

    count: int
    states_by_depth: dict[int, list[ShardState]] = field(default_factory=dict)
    sequence: int = 0

    def shards(self, depth: int) -> list[ShardState]:
        """Those that judge plans of ``depth``."""
        return self.states_by_depth.setdefault(depth, [ShardState() for _ in range(self.count)])


@dataclass(slots=True)
class Detection:
    """What a batch gave: hits, their alerts as JSON values, duplicates and late records by position."""

    hits: list[Hit] = field(default_factory=list)
    alerts: list[dict[str, Any]] = field(default_factory=list)
    duplicates: list[Position] = field(default_factory=list)
    late: list[Position] = field(default_factory=list)


def new_state(shards: int = 1) -> State:
    """State that has seen nothing."""
    return State(shards)


def detect(
    plan: StreamPlan | Sequence[StreamPlan],
    state: State,
    batch: Records,
    *,
    detected_ms: int = 0,
    lists: Lists | None = None,
    bounds: Bounds | None = None,
) -> tuple[Detection, State]:
    """Judge ``batch``, the next records of one log. ``state`` is moved on in place and returned.

    ``plan``: that of the batch's stream, or several with those of the hits that rules read (``compile_all``).
    ``detected_ms`` is written into alerts as the time of detection; nothing else reads it.
    """
    plans = [plan] if isinstance(plan, StreamPlan) else list(plan)
    chunk = Chunk(batch.partition, state.sequence, batch.partition)
    parts = list(entering(plans, batch, chunk, state.count, lists or {}))
    state.sequence += 1
    detection = Detection()
    for depth in range(1, max(each.depth for each in plans) + 1):
        here = [each for each in plans if each.depth == depth]
        for number, shard in enumerate(state.shards(depth)):
            mine = [(p.meta, p.arrays) for at, p in parts if at == depth and p.shard == number]
            output = judge(here, shard, mine, bounds or Bounds())
            detection.hits += output.hits
            detection.alerts += alerts_of(here, output.hits, detected_ms)
            detection.duplicates += output.duplicates
            detection.late += output.late
            parts += derived(
                plans,
                depth,
                output.read,
                clocks=shard.log_clock,
                shards=state.count,
                lists=lists or {},
                feature_queries=output.feature_queries,
                own=number,
            )
    return detection, state
