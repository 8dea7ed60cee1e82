"""Blast radius: the frauds that a rule narrowly misses, and the good customers that it narrowly alerts on."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from crossline.analysis.detection_quality import Alert, rests_on
from crossline.backtest.alert_figures import read_figures
from crossline.backtest.backtest import BacktestSpec
from crossline.backtest.workbench.interval import LabelsWithin
from crossline.backtest.workbench.near_misses import NearMiss, RecordConditionMisses, gap_of, miss_at
from crossline.backtest.workbench.sample import Batch, SampleJudge
from crossline.basics.formula.naive import evaluate
from crossline.basics.formula.tree import Join, Node
from crossline.evaluate.alerts.alert import alerts_of
from crossline.plan.compose import sources_of
from crossline.programs.program import Program
from crossline.rules.base import Rule

SHOWN = 10  # of each kind


@dataclass(slots=True)
class _Frauds:
    """The nearest miss of each fraud within the interval."""

    within: LabelsWithin
    nearest: dict[str, NearMiss] = field(default_factory=dict)

    def take(self, miss: NearMiss) -> None:
        """Keep ``miss`` for the frauds of its record, if it is nearer; of equal ones the first."""
        marks = self.within.marks
        for fraud in marks.frauds.get(miss.record_id, frozenset()) & marks.asked:
            if not self.within.has(miss.record_id):
                continue
            known = self.nearest.get(fraud)
            if known is None or miss.distance < known.distance:
                self.nearest[fraud] = miss


class BlastRadius:
    """Collects the blast radius of a rule from batches.

    Args:
        judged: The rule, and those whose hits it reads.
        rule: The rule.
        within: The labels of the interval.
    """

    def __init__(self, judged: BacktestSpec, rule: Rule, within: LabelsWithin) -> None:
        sources = sources_of(judged.rules, judged.history.streams)
        self._rule, self._within, self._marks = rule, within, within.marks
        self._program: Program = rule.program(sources.of_reading(rule.reading), judged.defaults)
        self._frauds = _Frauds(within)
        self._alone: RecordConditionMisses | None = None
        self._jury: SampleJudge | None = None
        if self._program.verdict is None:
            self._alone = RecordConditionMisses(
                judged, judged.snapshot(judged.rules, 1), [rule], {rule.rule_id: self._frauds}
            )
        else:
            self._jury = SampleJudge(replace(judged, probing=sources.depth_of(rule.reading)))

    def see(self, batch: Batch) -> None:
        """The next batch."""
        self._within.see(batch)
        if self._alone is not None:
            for records, _ in batch.inputs:
                self._alone(records)
        if self._jury is None:
            return
        mine = [
            hit
            for hit in self._jury.judge(batch).hits
            if hit.version.rule.rule_id == self._rule.rule_id and hit.record_id in self._marks.frauds
        ]
        for alert in alerts_of(self._jury.plans.values(), mine, 0):
            miss = miss_at(self._rule, self._program, alert)
            if miss is not None:
                self._frauds.take(miss)

    def to_json(self, draft: Collection[Alert], live: Collection[Alert]) -> dict[str, Any]:
        """The blast radius as JSON. ``draft``, ``live``: the alerts of the rule, and of the live version.

        ``missed``: the nearest frauds without an alert of the draft, of ``missed_count``. ``met``: the nearest keys
        with new alerts of the draft and no label of fraud, of ``met_count``. ``good``: the count of such keys of each.
        """
        caught = set().union(*(self._marks.frauds.get(each, ()) for alert in draft for each in rests_on(alert)))
        left = [miss for fraud, miss in self._frauds.nearest.items() if fraud not in caught]
        left.sort(key=lambda each: each.distance)
        known = {_cause(each) for each in live}
        newly = self._by_key([each for each in self._good(draft) if _cause(each) not in known])
        return {
            "missed": [{"record_id": each.record_id, "key": dict(each.key), "why": each.why} for each in left[:SHOWN]],
            "missed_count": len(self._within.found().asked - caught),
            "met": newly[:SHOWN],
            "met_count": len(newly),
            "good": {name: len(self._by_key(self._good(each))) for name, each in (("draft", draft), ("live", live))},
        }

    def _good(self, alerts: Collection[Alert]) -> list[Alert]:
        """The alerts without a record of a fraud."""
        return [alert for alert in alerts if not any(each in self._marks.frauds for each in rests_on(alert))]

    def _by_key(self, alerts: Sequence[Alert]) -> list[dict[str, Any]]:
        """By key, or by record without a key: the count, and the alert nearest to the threshold; the nearest first."""
        found: dict[bytes, list[tuple[float, Alert]]] = {}
        for alert in alerts:
            found.setdefault(orjson.dumps(alert["key"] or alert["record_id"]), []).append((self._slack(alert), alert))
        nearest = [(*min(each, key=lambda item: item[0]), len(each)) for each in found.values()]
        nearest.sort(key=lambda each: each[0])
        names = ("key", "record_id", "event_time", "message")
        return [{**{name: alert[name] for name in names}, "times": times} for _, alert, times in nearest]

    def _slack(self, alert: Alert) -> float:
        """By which share of the threshold the alert exceeds it; 0 for rules without a threshold."""
        if self._alone is not None:
            return self._alone.beyond.get(alert["record_id"], 0.0)
        line, formula = self._program.comparison, self._program.formula
        if line is not None:
            return abs(float(alert["value"]) - line.threshold) / max(abs(line.threshold), 1e-9)
        if formula is not None:
            return _slack_of(formula.when.root, read_figures(formula, alert))
        return 0.0


def _slack_of(part: Node, read: Mapping[str, Any]) -> float:
    """The least slack of the parts of a conjunction, the greatest of the alternatives that hold."""
    match part:
        case Join("and", parts):
            return min(_slack_of(each, read) for each in parts)
        case Join("or", parts):
            return max((_slack_of(each, read) for each in parts if evaluate(each, read) is True), default=0.0)
    return gap_of(part, read)[1]


def _cause(alert: Alert) -> tuple[str, bytes, str]:
    return alert["stream"], orjson.dumps(alert["key"]), alert["record_id"]
