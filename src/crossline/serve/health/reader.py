"""Gathers what the health of rules rests on: the rule log, counts, proofs, costs, and answers of the API."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

from crossline.analysis.forecast import DailyForecast
from crossline.analysis.health.shares import Precision
from crossline.basics.errors import UsageError
from crossline.evaluate.alerts.alert_json import read_quickly
from crossline.io.stores.protocol import AlertFilter, Store
from crossline.lake.parity.report import ParityReport, read_report
from crossline.rule_registry.events import RuleEvent
from crossline.serve.approvals.file import ApprovalFile
from crossline.serve.cases.statistics.queries import RuleCounts, Slow, read_counts, read_slow
from crossline.serve.cases.statistics.schema import DAY_MS
from crossline.serve.decisions.store import DecisionStore
from crossline.serve.health.assess import Measured, assessed, predicted_of
from crossline.serve.health.values import HealthReport, LakeParity, Parity, Prediction, RuleCost, RuleFacts
from crossline.serve.http.deps import Dependencies
from crossline.serve.http.problems import ProblemError
from crossline.serve.http.reads.rules import read_rules

BATCHES, SAMPLED, DIFFERING_MAX = 200, 5, 1_000
KEPT_MS = 60_000  # for how long costs, parity, overlap and drift are cached
_CHANGES = ("published", "status_changed", "tripped")


class RuleHealthReader:
    """The health of the rules of a pipeline. From any thread; each call waits for disks and databases.

    Args:
        deps: What the routes stand on.
        approvals: Drafts, proofs and requests.
    """

    def __init__(self, deps: Dependencies, approvals: ApprovalFile) -> None:
        self._deps = deps
        self._approvals = approvals
        self._lock = threading.Lock()
        self._asked_ms: int | None = None
        self._costs: Mapping[str, RuleCost] = {}
        self._parity: Mapping[str, Parity] = {}
        self._slow: Slow | None = None

    def report(self) -> HealthReport:
        """As of now. Raises RetryableError if a file or a database cannot be read now."""
        deps, now_ms = self._deps, self._deps.now_ms()
        rows, events, refused = read_rules(deps.config)
        facts = facts_of(rows, events)
        foretold = self._foretold(facts)
        costs, parity, slow = self._measured([each.rule_id for each in facts], now_ms)
        lake = read_report(deps.path, deps.config.name)
        parity = parity if lake is None else with_lake(parity, lake)
        counts = RuleCounts(now_ms // DAY_MS) if deps.desk is None else read_counts(deps.desk.file, now_ms, slow)
        return HealthReport(
            pipeline=deps.config.name,
            at_ms=now_ms,
            rules=assessed(facts, counts, Measured(foretold, costs, parity)),
            counted=deps.desk is not None,
            since_day=counts.since_day,
            answered=deps.decisions is not None,
            lake_parity=None if lake is None else parity_head(lake),
            refused=refused,
        )

    def _foretold(self, facts: Sequence[RuleFacts]) -> dict[str, Prediction]:
        """What the proofs say with which versions in force were published; nothing of those that came another way."""
        serve, known = self._deps.config.serve, self._approvals.foretold()
        money = None if serve is None else serve.cases.money
        # Sums of a proof are over all currencies: they are not separated by currency.
        unit = None if money is None or money.decimals == "currency" else (money.field, money.decimals)
        found = {}
        for each in facts:
            request, proof = known.get((each.rule_id, each.version), (None, None))
            if request is not None and proof is not None and request.decided_ms is not None:
                ahead = proof.content["predicted"]
                found[each.rule_id] = prediction_of(each.version, request.decided_ms, ahead, unit)
        return found

    def _measured(
        self, rule_ids: Sequence[str], now_ms: int
    ) -> tuple[Mapping[str, RuleCost], Mapping[str, Parity], Slow | None]:
        """What is asked anew once a minute."""
        with self._lock:
            if self._asked_ms is None or not 0 <= now_ms - self._asked_ms < KEPT_MS:
                self._slow = None if self._deps.desk is None else read_slow(self._deps.desk.file, now_ms)
                try:
                    with closing(self._deps.store()) as store:
                        self._costs = costs_of(store.batch_figures(self._deps.config.name, BATCHES))
                        self._parity = parity_of(self._deps.decisions, store, rule_ids, now_ms)
                except (UsageError, ProblemError):  # nothing was delivered yet, or there is no store
                    self._costs, self._parity = {}, {}
                self._asked_ms = now_ms
            return self._costs, self._parity, self._slow


def facts_of(rows: Sequence[Mapping[str, Any]], events: Sequence[RuleEvent]) -> list[RuleFacts]:
    """Of each rule the version in force; a rule that has only drafts is none yet."""
    found: dict[str, RuleFacts] = {}
    for row in rows:
        name = row["rule_id"]
        if row["status"] == "draft":
            continue
        changed = [each.at_ms for each in events if each.rule_id == name and each.event in _CHANGES]
        found[name] = RuleFacts(
            rule_id=name,
            version=row["version"],
            rule_type=row["rule_type"],
            severity=row["severity"],
            status=row["status"],
            owner=row["body"].get("owner") or "",
            since_day=min(changed) // DAY_MS if changed else None,
            changed_ms=max(changed) if changed else None,
            sentence=row["body"].get("description") or "",
        )
    return list(found.values())


def prediction_of(
    version: int, published_ms: int, body: Mapping[str, Any], money: tuple[str, int] | None
) -> Prediction:
    """The predictions of a proof.

    Args:
        version: Of the rule.
        published_ms: When it was approved, epoch milliseconds.
        body: As ``crossline rules prove`` prints it; older proofs have only alerts.
        money: The field of amounts in this pipeline, and its decimals; an amount of another field is not compared.
    """
    amount, labels = body.get("money"), body.get("precision")
    scaled: DailyForecast | None = None
    if amount is not None and money is not None and amount["field"] == money[0]:
        unit = 10.0 ** -money[1]
        scaled = DailyForecast(amount["per_day"] * unit, amount["low"] * unit, amount["high"] * unit, amount["days"])
    precision = None if labels is None else Precision(labels["true"], labels["labels"])
    return Prediction(version, published_ms, predicted_of(body), scaled, precision)


def costs_of(batches: Sequence[tuple[str, Mapping[str, Any]]]) -> dict[str, RuleCost]:
    """By rule, from the figures of the last batches, the latest first. The costliest rules of a batch are in it.

    A batch is of all streams, and so is a record here.
    """
    spent: dict[str, float] = {}
    records, whole_ms = 0, 0.0
    for _, figures in batches:
        cost = figures.get("cost_ms", {})
        records += int(figures.get("records", 0))
        rules = cost.get("rules", {})
        whole_ms += sum(rules.values()) + cost.get("others", 0.0)
        for name, ms in rules.items():
            rule_id = name.rpartition("@")[0] or name
            spent[rule_id] = spent.get(rule_id, 0.0) + ms
    if not records or not whole_ms:
        return {}
    since, until = batches[-1][0], batches[0][0]
    return {name: RuleCost(ms * 1_000 / records, ms / whole_ms, since, until) for name, ms in spent.items()}


def parity_of(kept: DecisionStore | None, store: Store, rule_ids: Sequence[str], now_ms: int) -> dict[str, Parity]:
    """By rule: figures of its latest alerts in the stream and in the API's answers, and decisions that differ."""
    if kept is None:
        return {}
    alerts = {name: list(store.alerts(AlertFilter(name, kind="alert"), SAMPLED)) for name in rule_ids}
    asked = {(str(each["stream"]), str(each["record_id"])) for several in alerts.values() for each in several}
    answers = kept.figures(asked)
    decisions: dict[str, int] = {}
    for answer, revision in kept.differing(now_ms - 7 * DAY_MS, DIFFERING_MAX):
        mine, theirs = ({each["rule_id"] for each in body.get("reasons") or ()} for body in (answer, revision))
        for name in mine ^ theirs or mine | theirs:
            decisions[name] = decisions.get(name, 0) + 1
    found = {}
    for name, several in alerts.items():
        pairs = [(each, answers.get((str(each["stream"]), str(each["record_id"])))) for each in several]
        known = [(each, figures) for each, figures in pairs if figures is not None]
        differ = sum(not _same(each, figures.get(name)) for each, figures in known)
        found[name] = Parity(len(known), differ, decisions.get(name, 0))
    return found


def with_lake(parity: Mapping[str, Parity], report: ParityReport) -> dict[str, Parity]:
    """``parity`` with what the report says of each rule."""
    found = dict(parity)
    for each in report.rules:
        ids = tuple(dict.fromkeys(one.alert_id for one in each.differences))
        answered = each.answered - each.answered_equal
        lake = LakeParity(report.at, each.sampled, each.sampled - each.equal, each.answered, answered, ids)
        found[each.rule_id] = replace(found.get(each.rule_id, Parity()), lake=lake)
    return found


def parity_head(report: ParityReport) -> dict[str, Any]:
    """What a report is about."""
    names = ("at", "since", "until", "records", "same")
    decisions = [
        {
            "decision": each.decision,
            "compared": each.sampled,
            "differ": each.sampled - each.equal,
            "answered": each.answered,
            "answered_differ": each.answered - each.answered_equal,
        }
        for each in report.decisions
    ]
    return {**{name: getattr(report, name) for name in names}, "decisions": decisions}


def _same(alert: Mapping[str, Any], figure: Mapping[str, Any] | None) -> bool:
    return figure is not None and figure["value"] == read_quickly(alert["value"])
