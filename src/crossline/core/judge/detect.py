"""``detect(plan, state, batch) -> (detection, state)``: a pure function, for tests and for use without Spark.

The stream, the backtest and this call go through the same routing and the same judging; only the number of shards
differs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from crossline.core.alerts.alert import alerts_of
from crossline.core.alerts.hits import Hit
from crossline.core.basics.values import Records
from crossline.core.conditions.lists import Lists
from crossline.core.judge.shard import Bounds, Position, ShardState, judge
from crossline.core.plan.compile import StreamPlan
from crossline.core.route.parts import Chunk, route


@dataclass(slots=True)
class State:
    """The states of all shards, and how many chunks were seen."""

    shards: list[ShardState]
    sequence: int = 0


@dataclass(slots=True)
class Detection:
    """What a batch gave: hits, their alerts as JSON values, duplicates and late records by position."""

    hits: list[Hit] = field(default_factory=list)
    alerts: list[dict[str, Any]] = field(default_factory=list)
    duplicates: list[Position] = field(default_factory=list)
    late: list[Position] = field(default_factory=list)


def new_state(shards: int = 1) -> State:
    """State that has seen nothing."""
    return State([ShardState() for _ in range(shards)])


def detect(
    plan: StreamPlan,
    state: State,
    batch: Records,
    *,
    detected_ms: int = 0,
    lists: Lists | None = None,
    bounds: Bounds | None = None,
) -> tuple[Detection, State]:
    """Judge ``batch``, the next records of one log. ``state`` is moved on in place and returned.

    ``detected_ms`` is written into alerts as the time of detection; nothing else reads it.
    """
    chunk = Chunk(batch.partition, state.sequence, batch.partition)
    parts = route(plan, batch, chunk, len(state.shards), lists or {})
    state.sequence += 1
    detection = Detection()
    for number, shard in enumerate(state.shards):
        mine = [(p.meta, p.arrays) for p in parts if p.shard == number]
        output = judge([plan], shard, mine, bounds or Bounds())
        detection.hits += output.hits
        detection.alerts += alerts_of([plan], output.hits, detected_ms)
        detection.duplicates += output.duplicates
        detection.late += output.late
    return detection, state
