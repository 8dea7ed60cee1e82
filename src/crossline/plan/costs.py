"""The cost of rules: processor time by component, and the share of each rule in shared components.

Rules share conditions, state stores and figures. Without a clock reading for each record, only the time of a state
store, of a stream's conditions and of all hits can be measured. ``Sharing`` divides it; ``docs/operations.md`` defines
how.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from crossline.basics.values import F64, I64, U8
from crossline.plan.compile import StorePlan, StreamPlan

LOOKED_AT = 256  # rows of a batch of a state store, from which the number that enters each window is estimated
NO_RULE = ""  # what serves all rules alike: every record is known again

Clock = Callable[[], int]


@dataclass(slots=True)
class Meter:
    """Processor time in ns, by what it went to. ``clock_ns`` None: nothing is measured.

    ``state_stores``: by state store. ``conditions``: by stream, of all its conditions. ``hits_ns``: of making alerts of
    ``hits``, which are counted by rule version. ``entered``: by state store, about how many rows passed each of its
    filters.
    """

    clock_ns: Clock | None = None
    state_stores: Counter[str] = field(default_factory=Counter)
    conditions: Counter[str] = field(default_factory=Counter)
    hits: Counter[str] = field(default_factory=Counter)
    hits_ns: int = 0
    entered: dict[str, list[int]] = field(default_factory=dict)
    _lap_ns: int = 0

    def start(self) -> None:
        """What is measured next begins now."""
        if self.clock_ns is not None:
            self._lap_ns = self.clock_ns()

    def state_store(self, name: str) -> None:
        """What passed since the last reading was for a state store."""
        if self.clock_ns is not None:
            self.state_stores[name] += self._lap(self.clock_ns())

    def condition(self, stream: str) -> None:
        """It was for the conditions of a stream's rules."""
        if self.clock_ns is not None:
            self.conditions[stream] += self._lap(self.clock_ns())

    def count_hits(self, rules: Iterable[str] = ()) -> None:
        """It was for hits; ``rules``: the rule version of each of those that were not counted before."""
        if self.clock_ns is not None:
            self.hits_ns += self._lap(self.clock_ns())
            self.hits.update(rules)

    def _lap(self, now_ns: int) -> int:
        before_ns, self._lap_ns = self._lap_ns, now_ns
        return now_ns - before_ns

    def rows(self, plan: StorePlan, passed: U8) -> None:
        """Count rows by filter, from a sample of ``passed`` (bits per row), where several predicates share a store."""
        count = len(plan.state_store.filters)
        if self.clock_ns is None or count < 2 or len(plan.plan.judging) < 2:
            return
        step = -(-len(passed) // LOOKED_AT) or 1
        bits = np.unpackbits(passed[::step], axis=1, count=count, bitorder="little")
        self._enter(plan.state_store.name, (bits.sum(axis=0, dtype=np.int64) * step).tolist())

    def _enter(self, state_store: str, counts: Sequence[int]) -> None:
        known = self.entered.get(state_store)
        self.entered[state_store] = (
            list(counts) if known is None else [a + b for a, b in zip(known, counts, strict=True)]
        )

    def to_json(self) -> dict[str, Any]:
        """For ``add``."""
        found = {name: getattr(self, name) for name in ("state_stores", "conditions", "hits", "hits_ns", "entered")}
        return {name: each for name, each in found.items() if each}

    def add(self, body: dict[str, Any]) -> None:
        """Take in what another one measured."""
        self.state_stores.update(body.get("state_stores", {}))
        self.conditions.update(body.get("conditions", {}))
        self.hits.update(body.get("hits", {}))
        self.hits_ns += body.get("hits_ns", 0)
        for state_store, counts in body.get("entered", {}).items():
            self._enter(state_store, counts)


UNMEASURED = Meter()


@dataclass(frozen=True, slots=True)
class _Units:
    """What a state store's time goes to: unit u to the rows of filter ``filters[u]``, and of it ``parts[i]`` to a rule.

    That is rule ``rules[i]`` of unit ``units[i]``.
    """

    filters: I64
    units: I64
    rules: I64
    parts: F64

    def weights(self, entered: Sequence[int] | None) -> F64:
        """What part of the time each of ``rules`` gets; ``entered``: rows by filter, None where all are alike."""
        rows = np.ones(len(self.filters)) if entered is None else np.array(entered, np.float64)[self.filters]
        if not rows.any():
            rows = np.ones(len(self.filters))
        found: F64 = (rows / rows.sum())[self.units] * self.parts
        return found


class Sharing:
    """Divides what was measured among the rules of ``plans``."""

    def __init__(self, plans: Sequence[StreamPlan]) -> None:
        self._names: dict[str, int] = {NO_RULE: 0}
        self._state_stores = {
            lp.state_store.name: self._units(_read_of(lp)) for plan in plans for lp in plan.state_stores
        }
        self._conditions = {plan.stream: self._units(_conditions_of(plan)) for plan in plans}

    def _units(self, readers: dict[Any, list[str]]) -> _Units:
        """``readers``: rule versions, by what they share; the first of each key is its filter."""
        given = readers or {(0,): [NO_RULE]}
        numbers = [[self._names.setdefault(name, len(self._names)) for name in names] for names in given.values()]
        return _Units(
            np.array([key[0] for key in given], np.int64),
            np.repeat(np.arange(len(numbers)), [len(each) for each in numbers]),
            np.array([rule for each in numbers for rule in each], np.int64),
            np.array([1 / len(each) for each in numbers for _ in each]),
        )

    def ms(self, meter: Meter) -> dict[str, float]:
        """Milliseconds by rule version, those of no rule under ``NO_RULE``; rules that cost nothing are left out."""
        found = np.zeros(len(self._names))
        for measured, known in ((meter.state_stores, self._state_stores), (meter.conditions, self._conditions)):
            for name, ns in measured.items():
                units = known.get(name)
                if units is None:
                    found[0] += ns  # a state store that another plan snapshot has
                    continue
                parts = units.weights(meter.entered.get(name))
                found += ns * np.bincount(units.rules, parts, len(found))
        shared = dict(zip(self._names, found.tolist(), strict=True))
        hits = meter.hits.total()
        for name, count in meter.hits.items():
            shared[name] = shared.get(name, 0.0) + meter.hits_ns * count / hits
        if not hits:
            shared[NO_RULE] += meter.hits_ns
        return {name: ns / 1e6 for name, ns in shared.items() if ns}


def version_name(rule_id: str, version: int) -> str:
    """What a rule version is called in figures."""
    return f"{rule_id}@{version}"


def _read_of(plan: StorePlan) -> dict[Any, list[str]]:
    """By unit of work of a state store's kernel (filter first): the rule versions that read it.

    A figure is computed once, however many read it; a formula, and a step of a sequence, is the rule's own.
    """
    found: dict[Any, list[str]] = {}
    whole: Any = plan.plan
    for each in (*whole.judging, *whole.feature_queries):
        name = version_name(each.rule_id, each.version)
        for number, aggregate in each.units_in(whole):
            readers = found.setdefault((number, name if aggregate is None else aggregate), [])
            if name not in readers:
                readers.append(name)
    return found


def _conditions_of(plan: StreamPlan) -> dict[Any, list[str]]:
    """By condition, the rule versions that have it."""
    found: dict[Any, list[str]] = {}
    for (rule_id, version), program in plan.programs.items():
        for condition in program.conditions:
            if condition.canonical:
                found.setdefault((0, condition.canonical), []).append(version_name(rule_id, version))
    return found
