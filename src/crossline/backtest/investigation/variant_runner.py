"""Runs variants of one rule over a few records with the engine, in this process.

A variant is judged at *every* record, without crossing and cooldown: the question is whether its verdict holds at a
record. ``alerts`` gives what the rule would have emitted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from crossline.backtest.backtest import BacktestSpec, RecordedInput
from crossline.backtest.investigation.key_records import KeyRecord, batch_of
from crossline.backtest.workbench.sample import Batch, alerts_over
from crossline.basics.errors import CrosslineError
from crossline.basics.streams.schema import StreamSpec
from crossline.plan.compose import sources_of
from crossline.programs.program import Program
from crossline.rules.base import Rule
from crossline.rules.rule_reader import read_rule
from crossline.rules.ruleset import RuleSet

Alert = Mapping[str, Any]
RUNS_MAX = 400
SECONDS_MAX = 20.0


class BudgetSpentError(CrosslineError):
    """The budget of runs or of time is spent."""


@dataclass(slots=True)
class Budget:
    """The budget of a search in runs and in time.

    Attributes:
        runs: Remaining runs.
        until_s: The deadline on the clock ``now_s``, in seconds.
        now_s: The clock, in seconds.
    """

    runs: int = RUNS_MAX
    until_s: float = float("inf")
    now_s: Callable[[], float] = time.monotonic

    @classmethod
    def of(cls, runs: int = RUNS_MAX, seconds: float = SECONDS_MAX) -> Budget:
        """A budget of so many runs, and so many seconds from now."""
        return cls(runs, time.monotonic() + seconds)

    def spend(self) -> None:
        """Use one run. Raises BudgetSpentError if none is left."""
        if self.runs <= 0 or self.now_s() >= self.until_s:
            raise BudgetSpentError("the budget of runs is spent")
        self.runs -= 1


@dataclass(slots=True)
class VariantRunner:
    """One rule version over the records of one key.

    Attributes:
        rule: The version in the rule log.
        setting: Streams, lists, tables, defaults and bounds of the pipeline; its rules and files are ignored.
        key: The alert's key.
        record_id: The record at which the alert fired.
        budget: The budget of the search.
    """

    rule: Rule
    setting: BacktestSpec
    key: Mapping[str, Any]
    record_id: str
    budget: Budget = field(default_factory=Budget)

    @property
    def spec(self) -> StreamSpec:
        """The stream that the rule judges."""
        sources = sources_of(RuleSet.from_rules([active(self.rule)]), self.setting.history.streams)
        return sources.of_reading(self.rule.reading)

    def program(self, rule: Rule | None = None) -> Program:
        """The program of the rule, or of a variant of it."""
        return (rule or self.rule).program(self.spec, self.setting.defaults)

    def batch(self, records: Sequence[KeyRecord]) -> Batch:
        """The records as a batch of the engine."""
        return batch_of(records, self.setting.history.streams)

    def probe(self, batch: Batch, rule: Rule | None = None) -> dict[str, Alert]:
        """By record id: the figures at each judged record of the key, as the alert of a probe."""
        return self._by_record(self._judge([active(rule or self.rule)], batch, probing=1))

    def alerts(self, batch: Batch, rule: Rule | None = None) -> dict[str, Alert]:
        """By record id: the alerts that the rule would have emitted, with its crossing and cooldown."""
        return self._by_record(self._judge([active(rule or self.rule)], batch))

    def holds(self, batch: Batch, rule: Rule | None = None) -> dict[str, Alert]:
        """By record id: the records at which the verdict holds."""
        return self.replays([rule or self.rule], batch)[0]

    def replays(self, rules: Sequence[Rule], batch: Batch) -> list[dict[str, Alert]]:
        """The same of several variants, all in one run."""
        named = [at_every_record(each).model_copy(update={"rule_id": f"variant.{n}"}) for n, each in enumerate(rules)]
        found: list[dict[str, Alert]] = [{} for _ in rules]
        for alert in self._judge(named, batch):
            if alert["key"] == self.key:
                found[int(alert["rule_id"].partition(".")[2])].setdefault(alert["record_id"], alert)
        return found

    def _judge(self, rules: Sequence[Rule], batch: Batch, probing: int = 0) -> list[dict[str, Any]]:
        self.budget.spend()
        streams = self.setting.history.streams
        history = RecordedInput(streams, {records.stream: () for records, _ in batch.inputs})
        judged = replace(self.setting, rules=RuleSet.from_rules(rules), history=history, probing=probing)
        return alerts_over(judged, [batch])

    def _by_record(self, alerts: Sequence[Alert]) -> dict[str, Alert]:
        found: dict[str, Alert] = {}
        for alert in alerts:
            if alert["key"] == self.key:
                found.setdefault(alert["record_id"], alert)
        return found


def active(rule: Rule) -> Rule:
    """The version as if it were active from the beginning."""
    return rule.model_copy(update={"status": "active", "effective_from": None, "share": None})


def at_every_record(rule: Rule) -> Rule:
    """The version with a hit at every record at which its verdict holds."""
    fields = type(rule).model_fields
    body = {"emit": "every", "cooldown": 0}
    return active(rule).model_copy(update={name: value for name, value in body.items() if name in fields})


def rule_from_body(body: Mapping[str, Any]) -> Rule | None:
    """The rule with this body; None if it is invalid, for example with an empty window."""
    return read_rule(dict(body))[0]
