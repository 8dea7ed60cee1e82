"""Retention of a rule: the records it keeps, and the rules it shares them with, from the compiled plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from crossline.basics.streams.inputs import column_text
from crossline.plan.compile import StorePlan, StreamPlan


@dataclass(frozen=True, slots=True)
class RetainedRecords:
    """A state store that a rule uses.

    ``state_store``: its name. ``filters``: the numbers of the store's filters that the rule uses. ``shared_with``:
    other rules that are judged on it. ``base``: the stream of the records, if ``stream`` is a derived stream or a join.

    ``retention_ms``: the reach of the windows; ``lateness_ms``: the additional time a record is kept for late ones.
    """

    state_store: str
    stream: str
    base: str
    key_fields: tuple[str, ...]
    time_mode: str
    columns: tuple[str, ...]
    filters: tuple[int, ...]
    filters_of_state_store: int
    retention_ms: int
    lateness_ms: int
    shared_with: tuple[str, ...]

    @property
    def remembers_ms(self) -> int:
        """How long a record is kept after its arrival."""
        return self.retention_ms + self.lateness_ms


def retained_by(plan: StreamPlan, rule_id: str) -> list[RetainedRecords]:
    """The state stores of a rule; empty for rules of single records."""
    return [_kept(plan, each, rule_id) for each in plan.state_stores if rule_id in _rules(each)]


def retained_among(plans: Mapping[str, StreamPlan], reading: str, rule_id: str) -> list[RetainedRecords]:
    """The state stores of a rule that reads ``reading``, on any clock."""
    mine = [plan for name, plan in plans.items() if reading == (name if plan.clock is None else plan.base)]
    return [kept for plan in mine for kept in retained_by(plan, rule_id)]


def _rules(state_store: StorePlan) -> list[str]:
    return sorted({line.rule_id for line in state_store.plan.judging})


def _kept(plan: StreamPlan, store_plan: StorePlan, rule_id: str) -> RetainedRecords:
    state_store = store_plan.state_store
    return RetainedRecords(
        state_store=state_store.name,
        stream=plan.met.reading.text if plan.met is not None else plan.stream if plan.clock is None else plan.base,
        base=plan.base,
        key_fields=state_store.group_fields,
        time_mode=plan.clock or state_store.time_mode,
        columns=tuple(column_text(name) for name, _ in state_store.columns),
        filters=tuple(sorted(set(_filters(store_plan, rule_id)))),
        filters_of_state_store=len(state_store.filters),
        retention_ms=state_store.retention_ms,
        lateness_ms=state_store.lateness_ms,
        shared_with=tuple(name for name in _rules(store_plan) if name != rule_id),
    )


def _filters(store_plan: StorePlan, rule_id: str) -> Iterator[int]:
    kernel: Any = store_plan.plan
    for line in kernel.judging:
        if line.rule_id == rule_id:
            yield from (entry for entry, _ in line.units_in(kernel))
