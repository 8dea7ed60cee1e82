"""Search for a threshold from history: for a number of alerts per day, or for the best F1 score on labels.

A probe of the rule gives its figure at every record. From these figures the promising thresholds are computed
(``analysis/threshold_candidates.py``). The engine judges all of them in one run, so the reported counts are always
those of a real run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import orjson

from crossline.analysis.detection_quality import DetectionQuality, FraudLabels, measure_quality, rests_on
from crossline.analysis.threshold_candidates import (
    BEYOND,
    EmissionPolicy,
    JudgedValues,
    candidate_thresholds,
    emissions,
    thinned,
)
from crossline.backtest.alert_figures import read_figures
from crossline.backtest.backtest import BacktestSpec
from crossline.backtest.workbench.interval import ANY_TIME, Interval, LabelsWithin
from crossline.backtest.workbench.sample import Batch, SampleJudge, alerts_over
from crossline.basics.errors import UsageError
from crossline.basics.formula.naive import evaluate
from crossline.basics.streams.clocks import clock_of
from crossline.basics.streams.schema import StreamSpec
from crossline.basics.times import parse_instant_ms
from crossline.plan.compose import sources_of
from crossline.programs.program import FormulaPredicate, Program
from crossline.programs.thresholds import ThresholdLine
from crossline.rules.base import Rule
from crossline.rules.ruleset import RuleSet

JUDGED_MAX = 200  # thresholds that are judged
ALERTS_MAX = 300_000  # alerts of all of them together


@dataclass(frozen=True, slots=True)
class ThresholdOutcome:
    """The result of a threshold in a real run. ``weighed``: None without labels."""

    line: float
    alerts: int
    per_day: float
    weighed: DetectionQuality | None = None


@dataclass(frozen=True, slots=True)
class Suggestion:
    """The best threshold, the present one, and all judged ones, the strictest first.

    ``same_to``: thresholds from that of ``best`` to this one (exclusive) give the same result; None: unbounded.
    ``lines``: how many distinct thresholds there are; if all were judged, none is better.
    """

    drawn: ThresholdLine
    best: ThresholdOutcome
    present: ThresholdOutcome
    judged: tuple[ThresholdOutcome, ...]
    lines: int
    same_to: float | None


@dataclass(frozen=True, slots=True)
class ThresholdTarget:
    """The target: a total number of alerts; or, if that is None, the best F1 score on labels."""

    alerts: float | None
    marks: FraudLabels | None

    def rank(self, alerts: int, f1: float) -> tuple[float, int]:
        """The sort key, smaller is better: the distance from the target, then the number of alerts."""
        return (abs(alerts - self.alerts) if self.alerts is not None else -f1), alerts


@dataclass(frozen=True, slots=True)
class ThresholdSteps:
    """Thresholds around the present one, in order and ``step`` apart, with the results of a real run."""

    drawn: ThresholdLine
    step: float
    present: ThresholdOutcome
    judged: tuple[ThresholdOutcome, ...]


def threshold_steps(
    judged: BacktestSpec,
    rule: Rule,
    sample: Sequence[Batch],
    days: float,
    marks: FraudLabels | None,
    steps: int,
    also: Sequence[float],
    interval: Interval,
) -> ThresholdSteps:
    """Judge ``steps`` thresholds on each side of the present one, and those of ``also``.

    Thresholds with too many alerts to be judged together are left out, except those of ``also``. Only alerts and frauds
    of ``interval`` count; ``days``: its length. Other arguments and errors are those of ``suggest``.
    """
    if marks is not None:
        asked = LabelsWithin(interval, marks)
        for batch in sample:
            asked.see(batch)
        marks = asked.found()
    finder = replace(_finder(judged, rule, sample, days, ThresholdTarget(None, marks)), interval=interval)
    drawn = finder.drawn
    step = step_of(drawn.threshold)
    lines = [round(drawn.threshold + step * each, 10) for each in range(-steps, steps + 1)]
    lines = [each for each in lines if each > 0 or drawn.threshold <= 0]
    chosen = finder.within_bounds(finder.judged_values().sorted(), sorted(set(lines) | {float(drawn.threshold)}))
    outcomes = finder.judge(sorted({*chosen, *map(float, also), float(drawn.threshold)}))
    return ThresholdSteps(drawn, step, next(each for each in outcomes if each.line == drawn.threshold), tuple(outcomes))


def step_of(threshold: float) -> float:
    """The step of a threshold: about a twentieth, as 1, 2 or 5 times a power of ten; for whole numbers at least 1.

    >>> step_of(5), step_of(150000), step_of(0.5), step_of(-40)
    (1.0, 5000.0, 0.02, 2.0)
    """
    if threshold == 0:
        return 1.0
    about = abs(threshold) / 20
    ten = 10.0 ** math.floor(math.log10(about))
    step = ten * max(each for each in (1, 2, 5) if each * ten <= about * (1 + 1e-9))
    return max(1.0, step) if float(threshold).is_integer() else round(step, 10)


def suggest(
    judged: BacktestSpec, rule: Rule, sample: Sequence[Batch], days: float, wanted: ThresholdTarget
) -> Suggestion:
    """Suggest a threshold of ``rule``; ``judged``: it, and the rules whose hits it reads.

    Raises UsageError if it has no ordered threshold, or judges no record of the sample.
    """
    finder = _finder(judged, rule, sample, days, wanted)
    drawn = finder.drawn
    judged_values = finder.judged_values().sorted()
    lines = candidate_thresholds(judged_values.values, drawn.operator)
    if not lines:
        raise UsageError(f"rule {rule.rule_id} looks at no record of the input: there is nothing to draw a line by")
    chosen = finder.worth_judging(judged_values, thinned(lines))
    outcomes = finder.judge([*chosen, drawn.threshold])
    best = min(outcomes[:-1], key=lambda each: wanted.rank(each.alerts, each.weighed.f1 if each.weighed else 0.0))
    judged_lines = sorted(outcomes[:-1], key=lambda each: each.line, reverse=drawn.operator in {">", ">="})
    same_to = _same_to(lines, best.line, drawn.operator)
    return Suggestion(drawn, best, outcomes[-1], tuple(judged_lines), len(lines), same_to)


def _finder(judged: BacktestSpec, rule: Rule, sample: Sequence[Batch], days: float, wanted: ThresholdTarget) -> _Finder:
    """The finder. Raises UsageError if the rule has no ordered threshold."""
    sources = sources_of(judged.rules, judged.history.streams)
    spec = sources.of_reading(rule.reading)
    if clock_of(rule.timestamp_field, spec) is not None:
        text = f"rule {rule.rule_id}: found timestamp_field {rule.timestamp_field}"
        raise UsageError(f"{text}; expected a rule on event time or ingest time: lines of other clocks are not drawn")
    drawn = rule.drawn(spec)
    if drawn is None or drawn.operator not in BEYOND:
        found = "no line" if drawn is None else f"a line drawn by {drawn.operator}"
        text = f"rule {rule.rule_id} of type {rule.rule_type}: found {found}"
        raise UsageError(f"{text}; expected one number that a figure or field is held against by >, >=, < or <=")
    read = [each.rule for each in judged.rules.versions if each.rule.rule_id != rule.rule_id]
    depth = sources.depth_of(rule.reading)
    return _Finder(judged, rule, spec, depth, read, drawn, sample, days, wanted)


def _same_to(values: Sequence[float], line: float, sign: str) -> float | None:
    """The next value on the side to which the threshold can move without effect."""
    upwards = sign in {">", "<="}
    others = [each for each in values if (each > line if upwards else each < line)]
    return (min(others) if upwards else max(others)) if others else None


@dataclass(frozen=True, slots=True)
class _Finder:
    judged: BacktestSpec
    rule: Rule
    spec: StreamSpec
    depth: int
    read: Sequence[Rule]
    drawn: ThresholdLine
    sample: Sequence[Batch]
    days: float
    wanted: ThresholdTarget
    interval: Interval = ANY_TIME

    def judged_values(self) -> JudgedValues:
        """The figure at each record that the rule judges."""
        program = self._program(self.rule)
        if program.verdict is None:
            rule, probing = self._at(self._weakest), 0
        else:
            rule, probing = self._at(self.drawn.threshold), self.depth
        found = alerts_over(replace(self.judged, rules=self._with_read([rule]), probing=probing), self.sample)
        alerts = [each for each in found if each["rule_id"] == rule.rule_id]
        keys: dict[bytes, int] = {}
        numbers: dict[str, int] = {}
        clock = "event_time" if program.feed.time_mode == "event_time" else "ingest_time"
        beyond, within = self._when(self._weakest), self._when(self._strictest)
        marks = self.wanted.marks
        return JudgedValues(
            np.array([keys.setdefault(orjson.dumps(each["key"]), len(keys)) for each in alerts], np.int64),
            np.array([parse_instant_ms(each[clock]) for each in alerts], np.int64),
            np.array([self._value(each, program.formula) for each in alerts], np.float64),
            np.array([beyond(each) for each in alerts], np.bool_),
            np.array([within(each) for each in alerts], np.bool_),
            [_numbered(each, marks, numbers) for each in alerts] if marks is not None else (),
        )

    @property
    def _weakest(self) -> float:
        return -(2**63) if self.drawn.operator in {">", ">="} else 2**63 - 1

    @property
    def _strictest(self) -> float:
        return 2**63 - 1 if self.drawn.operator in {">", ">="} else -(2**63)

    def _at(self, line: float) -> Rule:
        redrawn = self.rule.redrawn(line, self.spec)
        return redrawn.model_copy(update={"status": "active", "effective_from": None, "share": None})

    def _program(self, rule: Rule) -> Program:
        return rule.program(self.spec, self.judged.defaults)

    def _with_read(self, rules: Sequence[Rule]) -> RuleSet:
        return RuleSet.from_rules([*self.read, *rules])

    def _value(self, alert: dict[str, Any], formula: FormulaPredicate | None) -> float:
        if self.drawn.value is not None and formula is not None:
            value = evaluate(self.drawn.value.root, read_figures(formula, alert))
            return math.nan if value is None else float(value)
        value = alert["evidence"]["figures"].get(self.drawn.field) if self.drawn.field else alert["value"]
        return math.nan if value is None else float(value)

    def _when(self, line: float) -> Callable[[dict[str, Any]], bool]:
        """Whether the whole predicate holds at a probe with the threshold at ``line``."""
        formula = self._program(self._at(line)).formula
        if formula is not None:
            root = formula.when.root
            return lambda alert: evaluate(root, read_figures(formula, alert)) is True
        return lambda _: line == self._weakest

    def _emission_policy(self) -> EmissionPolicy:
        program = self._program(self.rule)
        every = program.figure is None or program.emission.every
        return EmissionPolicy(every, program.emission.cooldown_ms, _rearm(program))

    def within_bounds(self, judged_values: JudgedValues, lines: Sequence[float]) -> list[float]:
        """As many of ``lines``, the strictest first, as can be judged together."""
        emission, alerts = self._emission_policy(), 0
        chosen: list[float] = []
        for line in sorted(lines, reverse=self.drawn.operator in {">", ">="}):
            alerts += len(emissions(judged_values, self.drawn.operator, line, emission))
            if alerts > ALERTS_MAX:
                break
            chosen.append(line)
        return chosen

    def worth_judging(self, judged_values: JudgedValues, lines: Sequence[float]) -> list[float]:
        """The thresholds nearest to the target, as many as can be judged together."""
        emission = self._emission_policy()
        ranked = []
        for line in lines:
            places = emissions(judged_values, self.drawn.operator, line, emission)
            ranked.append((self.wanted.rank(len(places), self._f1(judged_values, places)), len(places), line))
        ranked.sort()
        chosen: list[float] = []
        alerts = 0
        for _, count, line in ranked[:JUDGED_MAX]:
            alerts += count
            if chosen and alerts > ALERTS_MAX:
                break
            chosen.append(line)
        return chosen

    def _f1(self, judged_values: JudgedValues, places: Any) -> float:
        marks = self.wanted.marks
        if marks is None or self.wanted.alerts is not None:
            return 0.0
        found = [judged_values.frauds[place] for place in places.tolist()]
        caught = {each for frauds in found for each in frauds if each >= 0}
        return DetectionQuality(len(found), sum(map(bool, found)), len(marks.asked), frozenset(map(str, caught))).f1

    def _final_hits(self, judged: BacktestSpec) -> Iterator[tuple[str, dict[str, Any]]]:
        """All hits after corrections: the rule id, and an alert with the records of its evidence."""
        if any(each.rule.late_policy == "reevaluate" for each in judged.rules.versions):
            alerts = alerts_over(judged, self.sample)
            yield from ((alert["rule_id"], alert) for alert in alerts if self.interval.has(alert))
            return
        jury = SampleJudge(judged)
        for batch in self.sample:
            for hit in jury.judge(batch).hits:  # not as alerts: there are too many
                if not self.interval.holds(hit.event_ms):
                    continue
                body = {"record_id": hit.record_id, "evidence": {"record_ids": hit.record_ids[-50:]}}
                yield hit.version.rule.rule_id, body

    def judge(self, lines: Sequence[float]) -> list[ThresholdOutcome]:
        """Judge each threshold in one real run, as a rule of its own each."""
        rules = [self._at(_plain(line)).model_copy(update={"rule_id": f"line.{n}"}) for n, line in enumerate(lines)]
        hits: dict[str, list[dict[str, Any]]] = {each.rule_id: [] for each in rules}
        for name, body in self._final_hits(replace(self.judged, rules=self._with_read(rules))):
            if name in hits:
                hits[name].append(body)
        marks = self.wanted.marks
        return [
            ThresholdOutcome(
                line, len(found), len(found) / self.days, measure_quality(found, marks) if marks is not None else None
            )
            for line, found in zip(lines, hits.values(), strict=True)
        ]


def _rearm(program: Program) -> int:
    return max((each.window.rearm_ms for each in program.figures), default=0)


def _plain(line: float) -> float:
    """A whole number as an integer."""
    return int(line) if float(line).is_integer() and abs(line) < 2**53 else line


def _numbered(alert: dict[str, Any], marks: FraudLabels, numbers: dict[str, int]) -> tuple[int, ...]:
    """The numbers of the frauds in an alert's evidence; -1 for those that need not be found."""
    found: Iterable[str] = set().union(*(marks.frauds.get(each, ()) for each in rests_on(alert)))
    return tuple(numbers.setdefault(each, len(numbers)) if each in marks.asked else -1 for each in found)
