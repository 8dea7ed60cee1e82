"""The figures of one key as they are now: the features of its rules from the state, without a new record.

Nothing enters a window by asking.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from crossline.evaluate.entity.figure_queries import QueriedFigure, is_queried, queried_figures
from crossline.evaluate.kernels import new_kernel
from crossline.evaluate.shard import ShardState
from crossline.ingest.route.keys import key_from_text
from crossline.plan.compile import StorePlan, StreamPlan
from crossline.state.windows.point_query import feature_query_plan, features_now, point_query_batch


@dataclass(frozen=True, slots=True)
class CurrentFigure:
    """What one figure of a rule version is, looking back from ``now_ms``, and how many records it is of.

    ``value`` None: there is none, as of an average of no records.
    """

    queried: QueriedFigure
    value: int | float | None
    count: int
    window_start_ms: int
    window_end_ms: int
    now_ms: int


@dataclass(frozen=True, slots=True)
class Unanswered:
    """A rule of which some figures cannot be computed for the key, and why."""

    rule_id: str
    why: str


def figures_of_key(
    plans: Sequence[StreamPlan], state: ShardState, field: str, text: str
) -> Iterator[CurrentFigure | Unanswered]:
    """The figures of each rule in force whose key is ``field`` alone, of the key that is written as ``text``.

    A stream's now is the highest ingest time that was read of it. Of a value that never came the windows are empty.

    Args:
        plans: those that ``state`` is judged by; of each its state stores.
        state: it holds all keys; it is of no use any more afterwards.
        field: a field of keys.
        text: its value, as in a URL.
    """
    for plan in plans:
        now_ms = _now_ms(plan, state)
        for store_plan in plan.state_stores:
            if store_plan.state_store.group_fields != (field,):
                continue
            if now_ms is None:
                yield from _unread(plan, store_plan)
                continue
            queried = list(queried_figures(plan, store_plan, now_ms))
            if queried:
                yield from _current_figures(store_plan, state, queried, key_from_text(plan.spec, field, text), now_ms)
            yield from _elsewhere(plan, store_plan, now_ms)


def _now_ms(plan: StreamPlan, state: ShardState) -> int | None:
    """The highest ingest time of the records that ``plan`` judges; None where none came."""
    clocks = state.log_clock.get(plan.stream, {})
    return max((clocks if plan.met is None else plan.met.judged_logs(clocks)).values(), default=None)


def _current_figures(
    store_plan: StorePlan,
    state: ShardState,
    queried: Sequence[QueriedFigure],
    key: bytes | None,
    now_ms: int,
) -> Iterator[CurrentFigure]:
    kernel = store_plan.plan.windowed
    assert kernel is not None  # noqa: S101 - others have no figures
    feature_query = feature_query_plan(kernel, [(each.aggregate, each.count) for each in queried])
    store: Any = state.stores.get(store_plan.state_store.name)
    alone = new_kernel(feature_query) if key is None or store is None else store.alone(feature_query, key)
    features = features_now(alone.judge(point_query_batch(feature_query, key or b"", now_ms)))
    for each, (value, count) in zip(queried, features, strict=True):
        window = kernel.windows[kernel.aggregates[each.aggregate].window]
        start_ms, end_ms = window.span_ms(now_ms)
        yield CurrentFigure(
            queried=each, value=value, count=count, window_start_ms=start_ms, window_end_ms=end_ms, now_ms=now_ms
        )


def _unread(plan: StreamPlan, store_plan: StorePlan) -> Iterator[Unanswered]:
    """Why a key without records has no figures."""
    rules = dict.fromkeys(each.rule_id for each in queried_figures(plan, store_plan, None))
    return (Unanswered(rule_id, f"no record of {plan.base} came yet") for rule_id in rules)


def _elsewhere(plan: StreamPlan, store_plan: StorePlan, now_ms: int) -> Iterator[Unanswered]:
    """The cross-key figures of formulas: they need the other key, which this key does not determine."""
    kernel = store_plan.plan
    for line, versions in zip(kernel.formulas, store_plan.versions[len(kernel.lines) :], strict=bool(kernel.formulas)):
        if line.cross_key_inputs and is_queried(plan, line, versions[0].rule, now_ms):
            names = ", ".join(dict.fromkeys(each.name for each in line.cross_key_inputs))
            yield Unanswered(line.rule_id, f"{names}: of another key, which a record would say")
