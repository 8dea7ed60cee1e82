"""What a hold has no past of, and what it has one of that is not read."""

from __future__ import annotations

from crossline.basics.streams.schema import load_streams
from crossline.evaluate.bounds import Bounds
from crossline.rules.base import Defaults
from crossline.rules.policy.policy import Deciding, load_policy
from crossline.rules.rule_reader import load_rules_text
from crossline.rules.ruleset import RuleSet
from crossline.runtime.changes.backfill import new_state_stores, starts_empty
from crossline.runtime.snapshot.snapshot import PlanSnapshot

STREAM = """\
schema_version: 1
streams:
  payments: {id: id, event_time: {field: at}, fields: {id: string, at: integer, account: string}}
"""
BURST = """\
- {rule_id: burst, version: 1, rule_type: velocity, source_topic: payments, group_by: account, window: 1m,
   aggregation_type: count, aggregation_threshold: 3, hold: 30m}
"""
STREAMS = load_streams(STREAM, "stream.yaml")
DECIDING = Deciding(load_policy("{schema_version: 1, version: 1}", "policy.yaml"))


def snapshot(text: str, deciding: Deciding | None = DECIDING) -> PlanSnapshot:
    loaded = load_rules_text(text, "rules.yaml", STREAMS) if text else []
    rules = RuleSet.from_rules(each.rule for each in loaded)
    return PlanSnapshot(rules, dict(STREAMS), Defaults(), 1, Bounds(), deciding=deciding)


def without_past(before: PlanSnapshot, after: PlanSnapshot) -> list[str]:
    """The plans whose new state stores should have a past that is not read."""
    fresh = new_state_stores(before, after)
    plans = [plan for plan in after.plans() if plan.stream in fresh and plan.met is not None]
    return [plan.stream for plan in plans if not starts_empty(before, plan, fresh[plan.stream])]


def test_a_version_that_is_new_had_no_alert() -> None:
    assert without_past(snapshot(""), snapshot(BURST)) == []
    second = BURST.replace("version: 1", "version: 2").replace("30m", "1h")
    assert without_past(snapshot(BURST), snapshot(BURST + second)) == []
    shadow = snapshot(BURST.replace(", hold", ", status: shadow, hold"))
    assert without_past(shadow, snapshot(BURST)) == []


def test_a_policy_that_is_new_finds_alerts_of_before_that_are_not_read() -> None:
    assert without_past(snapshot(BURST, None), snapshot(BURST)) == ["payments+rule:burst!hold"]
    assert snapshot(BURST, None).depth == 1, "without decisions nothing is held"
    assert snapshot(BURST).depth == 2
