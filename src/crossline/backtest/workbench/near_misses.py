"""Near misses: the records of a sample at which rules came closest to a threshold without crossing it.

For each key without an alert, the closest record is one. For rules of single records, it is a record that fails exactly
one condition.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import orjson

from crossline.backtest.absence_reasons import wait_outcome
from crossline.backtest.alert_figures import read_figures
from crossline.backtest.backtest import BacktestSpec
from crossline.backtest.in_process import outcomes
from crossline.backtest.sample_view import (
    IngestClocks,
    duration_text,
    figures_text,
    shown_value,
    with_fields,
    worded_rule,
)
from crossline.backtest.trial import Trial
from crossline.basics.conditions.condition import Condition
from crossline.basics.conditions.tree import ORDERING, AllOf, Leaf
from crossline.basics.formula.canonical import canonical
from crossline.basics.formula.naive import evaluate
from crossline.basics.formula.tree import FAMILIES, Compare, Join, Node
from crossline.basics.values import I64, Records
from crossline.evaluate.alerts.current_alerts import current_states
from crossline.evaluate.alerts.hits import Hit
from crossline.plan.compose import sources_of
from crossline.programs.program import Comparison, FormulaPredicate, Program
from crossline.rules.base import Rule
from crossline.rules.predicate_rule import PredicateRule
from crossline.runtime.snapshot.snapshot import PlanSnapshot

KEPT = 3  # of a rule
_ORDERED = {">", ">=", "<", "<="}


@dataclass(frozen=True, slots=True)
class NearMiss:
    """A record at which a rule did not fire.

    ``value``: its figure. ``missing``: the threshold minus the figure (None: it is no single number). ``why``: what was
    missing, as a sentence. ``distance``: the sort key, smaller is nearer.
    """

    record_id: str
    key: Mapping[str, Any]
    value: Any
    missing: float | None
    why: str
    distance: tuple[int, float] = (0, 0.0)


class MissCollector(Protocol):
    """Collects misses."""

    def take(self, miss: NearMiss) -> None:
        """Add a miss."""


@dataclass(slots=True)
class _Nearest:
    """Collects the nearest miss of each key of one rule."""

    by_key: dict[bytes, NearMiss] = field(default_factory=dict)

    def take(self, miss: NearMiss) -> None:
        """Keep ``miss`` if it is the nearest of its key so far; of equal ones the first."""
        key = orjson.dumps(miss.key, option=orjson.OPT_SORT_KEYS) if miss.key else miss.record_id.encode()
        known = self.by_key.get(key)
        if known is None or miss.distance < known.distance:
            self.by_key[key] = miss

    def best(self) -> list[NearMiss]:
        """The nearest few misses."""
        return sorted(self.by_key.values(), key=lambda each: each.distance)[:KEPT]


def near_misses(judged: BacktestSpec, trial: Trial, folder: Path) -> dict[str, list[NearMiss]]:
    """The near misses by rule id. ``trial``: the result of the run itself; ``folder``: for temporary files."""
    fired = {(alert["rule_id"], _key_json(alert["key"])) for alert in trial.alerts}
    rules = {version.rule.rule_id: version.rule for version in judged.rules.versions}
    sources = sources_of(judged.rules, judged.history.streams)
    programs = {name: rule.program(sources.of_reading(rule.reading), judged.defaults) for name, rule in rules.items()}
    found = {name: _Nearest() for name in rules}
    of_record = [rules[name] for name, each in programs.items() if each.verdict is None]
    alone = RecordConditionMisses(judged, judged.snapshot(judged.rules, 1), of_record, found)
    depth_of = {name: sources.depth_of(rule.reading) for name, rule in rules.items()}
    for depth in sorted(set(depth_of.values())):
        seen = alone if depth == 1 else None
        mine = {name for name, its_depth in depth_of.items() if its_depth == depth}

        def wanted(hit: Hit, mine: set[str] = mine) -> bool:
            rule_id = hit.version.rule.rule_id
            return rule_id in mine and (rule_id, _key_json(hit.key)) not in fired

        for alert in _probes(replace(judged, probing=depth), folder / f"probes-{depth}", seen, wanted):
            miss = miss_at(rules[alert["rule_id"]], programs[alert["rule_id"]], alert)
            if miss is not None:
                found[alert["rule_id"]].take(miss)
    return {name: each.best() for name, each in found.items()}


def _key_json(key: Mapping[str, Any]) -> bytes:
    return orjson.dumps(dict(key))


def _probes(
    judged: BacktestSpec,
    folder: Path,
    seen: Callable[[Records], None] | None,
    wanted: Callable[[Hit], bool],
) -> Iterator[Mapping[str, Any]]:
    """The wanted alerts of probes, after corrections; those of rules with corrections come last."""
    corrected: list[dict[str, Any]] = []
    again = judged.rules.again_ms(judged.defaults)
    for outcome in outcomes(judged, folder, seen, wanted):
        for alert in outcome.alerts:
            if alert["rule_id"] in again:
                corrected.append(alert)
            else:
                yield alert
    yield from current_states(corrected)


def miss_at(rule: Rule, program: Program, alert: Mapping[str, Any]) -> NearMiss | None:
    """The miss at a probe; None if the predicate held, or has no notion of distance."""
    if (verdict := program.comparison) is not None:
        value = float(alert["value"])
        if verdict.operator not in _ORDERED or math.isnan(value):
            return None
        missing = verdict.threshold - (value if isinstance(alert["value"], str) else alert["value"])
        if _beyond(verdict, missing):
            return None  # the predicate held: within a cooldown, or after an earlier crossing
        why = f"{shown_value(alert['value'])} is not {verdict.operator} {shown_value(verdict.threshold)}"
        if missing:
            why += f": {shown_value(_rounded(abs(missing)))} {'is missing' if missing > 0 else 'is too much'}"
        return NearMiss(alert["record_id"], alert["key"], alert["value"], missing, why, (0, abs(missing)))
    if program.formula is not None:
        return _missed_formula(rule, program.formula, alert)
    if (absence := program.absence) is not None and alert["value"] is not None:
        left_ms = absence.within_ms - alert["value"]
        return NearMiss(
            alert["record_id"],
            alert["key"],
            alert["value"],
            left_ms,
            wait_outcome(absence, alert["value"]),
            (0, left_ms),
        )
    return None


def _beyond(verdict: Comparison, missing: float) -> bool:
    return {">": missing < 0, ">=": missing <= 0, "<": missing > 0, "<=": missing >= 0}[verdict.operator]


def _missed_formula(rule: Rule, verdict: FormulaPredicate, alert: Mapping[str, Any]) -> NearMiss | None:
    read = read_figures(verdict, alert)
    failing = _failing(verdict.when.root, read)
    if not failing:
        return None
    gaps = [gap_of(part, read) for part in failing]
    missing = gaps[0][0] if len(gaps) == 1 else None
    distance = (len(failing), sum(share for _, share in gaps))
    words = worded_rule(rule)
    if words is not None:
        missing, why = _missed_in_words(words, verdict, alert["value"], read, failing)
        return NearMiss(alert["record_id"], alert["key"], alert["value"], missing, why, distance)
    why = f"{figures_text(rule, read)}: not {' and not '.join(_written(part, verdict) for part in failing)}"
    if missing:
        lacks = duration_text(rule, failing[0], abs(missing)) or shown_value(_rounded(abs(missing)))
        why += f": {lacks} is missing"
    return NearMiss(alert["record_id"], alert["key"], alert["value"], missing, why, distance)


def _missed_in_words(
    rule: PredicateRule, verdict: FormulaPredicate, body: Any, read: Mapping[str, Any], failing: Sequence[Node]
) -> tuple[float | None, str]:
    """What an alert's value lacks of the rule's threshold (None: unknown), and the sentence about it.

    ``failing``: the comparisons that do not hold; they are used if the rule has several thresholds.
    """
    value = float(body) if isinstance(body, str) else body
    why = f"found {rule.in_words(value, read)}; it fires where {rule.fires_where()}"
    line = None if value is None else verdict.nearest(value)
    if line is None:
        gap = gap_of(failing[0], read)[0] if len(failing) == 1 else None
        return gap, f"{why}; {_lacks(failing[0], gap)}" if gap else why
    if not math.isfinite(value) or line.met(value):
        return None, why
    missing = _rounded(line.threshold - value)
    farther = (missing > 0) != (line.threshold < 0)  # of a line below 0 what is missing lies farther down
    return missing, f"{why}; {rule.measure(abs(missing))} {'is missing' if farther else 'is too much'}"


def _written(part: Node, verdict: FormulaPredicate) -> str:
    """A comparison as the rule has it, with its `10m`; of a derived formula in canonical form."""
    return " ".join(verdict.when.text[part.span.start : part.span.end].split()) or canonical(part)


def _lacks(part: Node, gap: float) -> str:
    return f"not {canonical(part)}: {shown_value(_rounded(abs(gap)))} is missing"


def _failing(part: Node, read: Mapping[str, Any]) -> list[Node]:
    """The comparisons that make the formula fail; of alternatives those of the nearest."""
    if evaluate(part, read) is True:
        return []
    match part:
        case Join("and", parts):
            return [each for one in parts for each in _failing(one, read)]
        case Join("or", parts):
            ways = [_failing(one, read) for one in parts]
            return min(ways, key=lambda way: (len(way), sum(gap_of(each, read)[1] for each in way)))
    return [part]


def gap_of(part: Node, read: Mapping[str, Any]) -> tuple[float | None, float]:
    """What a comparison lacks, absolute (None: unknown) and as a share of its threshold (1: unknown)."""
    match part:
        case Compare((left, right), (operator,)) if operator in _ORDERED and FAMILIES[left.kind] == "number":
            a, b = evaluate(left, read), evaluate(right, read)
            if a is not None and b is not None:
                return b - a, min(1.0, abs(b - a) / max(abs(b), 1e-9))
    return None, 1.0


def _rounded(value: float) -> float:
    """Without digits that only the machine's arithmetic has."""
    return value if isinstance(value, int) else float(f"{value:.12g}")


@dataclass(frozen=True, slots=True)
class RecordConditionMisses:
    """Collects the misses of rules of single records from the decoded records.

    ``beyond``: by record with a hit, by which share of its nearest threshold the record exceeds it.
    """

    judged: BacktestSpec
    snapshot: PlanSnapshot
    rules: Sequence[Rule]
    found: Mapping[str, MissCollector]
    clocks: IngestClocks = field(default_factory=IngestClocks)
    beyond: dict[str, float] = field(default_factory=dict)

    def __call__(self, records: Records) -> None:
        """Add decoded records."""
        mine = [rule for rule in self.rules if rule.source_topic == records.stream]
        if mine and len(records):
            ingest_ms = self.clocks.of(records)
            whole = with_fields(self.snapshot, records, ingest_ms)
            for rule in mine:
                self._of(rule, whole, ingest_ms)

    def _of(self, rule: Rule, records: Records, ingest_ms: I64) -> None:
        node = rule.filter.node
        parts = [Condition(part) for part in (node.parts if isinstance(node, AllOf) else (node,))]
        given = (records.fields, len(records), self.judged.lists, records.stream, ingest_ms)
        passes = np.array([part.mask(*given) for part in parts])
        for place in np.flatnonzero((~passes).sum(axis=0) == 1).tolist():
            part = parts[int(np.flatnonzero(~passes[:, place])[0])]
            miss = self._miss(part, records, place)
            if miss is not None:
                self.found[rule.rule_id].take(miss)
        lines = [leaf for part in parts if (leaf := _line(part)) is not None]
        for place in np.flatnonzero(passes.all(axis=0)).tolist() if lines else ():
            shares = (
                abs(each.value - records.fields[each.field][place].as_py()) / max(abs(each.value), 1e-9)
                for each in lines
            )
            self.beyond[records.ids[place].as_py()] = min(shares)

    def _miss(self, part: Condition, records: Records, place: int) -> NearMiss | None:
        """The comparison of a condition by order; other conditions have no distance."""
        leaf = _line(part)
        if leaf is None:
            return None
        value = records.fields[leaf.field][place].as_py()
        if value is None:
            return None
        missing = leaf.value - value
        why = f"found {leaf.field} {shown_value(value)}; expected {part.text}: {shown_value(_rounded(abs(missing)))} "
        return NearMiss(records.ids[place].as_py(), {}, value, missing, f"{why}is missing", (0, abs(missing)))


def _line(part: Condition) -> Any:
    """The leaf of a condition that orders a number; None: it is another."""
    leaf = part.node
    ordered = isinstance(leaf, Leaf) and leaf.operator in ORDERING and isinstance(leaf.value, int | float)
    return leaf if ordered else None
