"""The health of each rule from what was counted, predicted and measured. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from crossline.analysis.forecast import DailyForecast
from crossline.analysis.health.delays import Cell, arrival_shares, correct_precision
from crossline.analysis.health.predictions import PredictionCheck, check_mean, check_precision
from crossline.analysis.health.rhythm import Rhythm, rhythm, usual
from crossline.analysis.health.shares import Precision
from crossline.analysis.health.stability import drift
from crossline.serve.cases.statistics.queries import DAYS, WEEK, RuleCounts, Verdicts
from crossline.serve.cases.statistics.schema import DAY_MS
from crossline.serve.health.values import Parity, Prediction, RuleCost, RuleFacts, RuleHealth, RuleOverlap

MET_MAX = 5
JUDGING = frozenset({"active", "shadow"})


@dataclass(frozen=True, slots=True)
class Measured:
    """What is known besides counts, by rule id."""

    foretold: Mapping[str, Prediction] = field(default_factory=dict)
    costs: Mapping[str, RuleCost] = field(default_factory=dict)
    parity: Mapping[str, Parity] = field(default_factory=dict)


def assessed(facts: Iterable[RuleFacts], counts: RuleCounts, measured: Measured) -> tuple[RuleHealth, ...]:
    """Each rule, by name."""
    shares = {
        verdict: arrival_shares(each for each in counts.delays if each.fraud is verdict) for verdict in (True, False)
    }
    return tuple(_rule(each, counts, measured, shares) for each in sorted(facts, key=lambda each: each.rule_id))


def _rule(facts: RuleFacts, counts: RuleCounts, measured: Measured, shares: Mapping[bool, list[float]]) -> RuleHealth:
    mine, name = _Mine(facts, counts), facts.rule_id
    foretold = measured.foretold.get(name)
    first_day, days, lately = mine.first_day, mine.days(mine.first_day), mine.lately()
    whole, last_24h = days[:-1], sum(lately)
    due, due_by = (foretold.alerts, "backtest") if foretold is not None else (usual(whole), "past")
    held = tuple(mine.held(foretold))
    found = rhythm(whole, days[-1], last_24h, due) if facts.status in JUDGING else Rhythm()
    parity = measured.parity.get(name)
    week_before, week = counts.figures.get((name, facts.version), ({}, {}))
    moved = drift(week_before, week)
    beyond = [each.figure for each in held if each.beyond]
    wrong = [found.state, *beyond, "parity" if parity is not None and not parity.same else ""]
    wrong.append("drift" if moved is not None and moved.shifted else "")
    verdicts = mine.verdicts()
    return RuleHealth(
        facts=facts,
        last_24h=last_24h,
        last_7d=sum(days[-WEEK:]),
        hours=tuple(lately),
        days=tuple(days),
        first_day=first_day,
        due=due,
        due_by="" if due is None else due_by,
        rhythm=found,
        precision=Precision(verdicts.true, verdicts.labels),
        corrected=correct_precision(verdicts.whole, shares),
        fraud=mine.fraud(),
        cost=measured.costs.get(name),
        met=tuple(_overlaps(name, counts.pairs.get(name, {}), counts.cooled.get(name, {}))),
        hidden=mine.hidden(),
        held_back=_held_back(name, counts),
        drift=moved,
        parity=parity,
        held=held,
        wrong=tuple(each for each in wrong if each),
    )


@dataclass(frozen=True, slots=True)
class _Mine:
    """What was counted of a rule. Days are those since it judges and was counted, at most 28 and today."""

    facts: RuleFacts
    counts: RuleCounts

    @property
    def first_day(self) -> int:
        """The first one that is whole; today, where there is none."""
        known = [each + 1 for each in (self.facts.since_day, self.counts.since_day) if each is not None]
        return max(self.counts.today - DAYS, min(self.counts.today, max(known, default=self.counts.today)))

    def days(self, first: int, version: int | None = None) -> list[int]:
        """Alerts of each day from ``first`` on that were not retracted, today last; of one version or of all."""
        found = [0] * (self.counts.today - first + 1)
        for (rule, of, kind), days in self.counts.days.items():
            if rule == self.facts.rule_id and kind in self.facts.kinds and version in {None, of}:
                for day, (alerts, retracted, _) in days.items():
                    if first <= day <= self.counts.today:
                        found[day - first] += alerts - retracted
        return found

    def lately(self) -> list[int]:
        """The past 24 hours."""
        hours = [self.counts.lately.get((self.facts.rule_id, kind), [0] * 24) for kind in self.facts.kinds]
        return [sum(each) for each in zip(*hours, strict=True)]

    def held(self, foretold: Prediction | None) -> Iterable[PredictionCheck]:
        """What was predicted of the version in force, against the past seven whole days, or as many as there are."""
        if foretold is None:
            return
        first = max(foretold.published_ms // DAY_MS + 1, self.counts.today - WEEK)
        came = self.days(first, foretold.version)[:-1] if first <= self.counts.today else []
        yield check_mean("alerts", foretold.alerts, came)
        if foretold.money is not None:
            yield check_mean("money", foretold.money, self._money(first, foretold.version))
        if foretold.precision is not None:
            verdicts = self.verdicts(foretold.version)
            found = check_precision(foretold.precision, Precision(verdicts.true, verdicts.labels))
            if found is not None:
                yield found

    def _money(self, first: int, version: int) -> list[float]:
        found = [0.0] * max(0, self.counts.today - first)
        for kind in self.facts.kinds:
            for day, amount in self.counts.money.get((self.facts.rule_id, version, kind), {}).items():
                if first <= day < self.counts.today:
                    found[day - first] += amount
        return found

    def verdicts(self, version: int | None = None) -> Verdicts:
        """Labels of its alerts, of one version or of all."""
        found = [
            each
            for (rule, of, kind), each in self.counts.verdicts.items()
            if rule == self.facts.rule_id and kind in self.facts.kinds and version in {None, of}
        ]
        cells: tuple[Cell, ...] = tuple(cell for each in found for cell in each.whole)
        return Verdicts(sum(each.true for each in found), sum(each.labels for each in found), cells)

    def fraud(self) -> dict[str, float]:
        """Money of labelled frauds, by currency."""
        found: dict[str, float] = {}
        for kind in self.facts.kinds:
            for currency, amount in self.counts.fraud.get((self.facts.rule_id, kind), {}).items():
                found[currency] = found.get(currency, 0.0) + amount
        return found

    def hidden(self) -> float:
        """The share of its alerts of the past seven days that suppressions hid."""
        alerts = hidden = 0
        for (rule, _, kind), days in self.counts.days.items():
            if rule == self.facts.rule_id and kind == "alert":
                for day, (count, _, hid) in days.items():
                    if day > self.counts.today - WEEK:
                        alerts, hidden = alerts + count, hidden + hid
        return hidden / alerts if alerts else 0.0


def _overlaps(name: str, pairs: Mapping[str, tuple[int, int, int]], cooled: Mapping[str, int]) -> list[RuleOverlap]:
    """The rules that it meets most."""
    records, entities, _ = pairs.get(name, (0, 0, 0))
    if not records:
        return []
    found = [
        RuleOverlap(
            *(other, min(1.0, both / records), min(1.0, same / entities) if entities else 0.0),
            *(min(1.0, led / records), min(1.0, cooled.get(other, 0) / records)),
        )
        for other in sorted({*pairs, *cooled} - {name})
        for both, same, led in [pairs.get(other, (0, 0, 0))]
    ]
    return sorted(found, key=lambda each: (-max(each.records, each.led, each.cooled), -each.entities, each.rule_id))[
        :MET_MAX
    ]


def _held_back(name: str, counts: RuleCounts) -> float:
    """Of the records at which it alerted, or would have but for its cooldown."""
    records, _, _ = counts.pairs.get(name, {}).get(name, (0, 0, 0))
    cooled = counts.cooled.get(name, {}).get(name, 0)
    return cooled / (records + cooled) if cooled else 0.0


def predicted_of(body: Mapping[str, float]) -> DailyForecast:
    """As a proof has it."""
    return DailyForecast(body["per_day"], body["low"], body["high"], body["days"])
