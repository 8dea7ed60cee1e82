"""What each rule of a plan snapshot cost, from what the steps of a batch measured to the figures of the batch."""

from __future__ import annotations

import json
from pathlib import Path

from crossline.backtest.backtest import BacktestSpec, RecordedInput
from crossline.backtest.in_process import outcomes
from crossline.backtest.trial import as_if_active
from crossline.basics.streams.schema import load_streams
from crossline.plan.costs import NO_RULE, Meter
from crossline.rules.rule_reader import load_rules_text
from crossline.runtime.snapshot.rule_costs import SHOWN, Costs, shown
from crossline.runtime.work.totals import Totals

STREAMS = load_streams(
    """
schema_version: 1
streams:
  s: {id: id, event_time: {field: at}, fields: {id: string, card: string, amount: integer, at: integer}}
""",
    "stream.yaml",
)
COUNT = {
    "rule_id": "many",
    "version": 1,
    "rule_type": "velocity",
    "source_topic": "s",
    "group_by": "card",
    "aggregation_type": "count",
    "window": "1m",
    "aggregation_threshold": 2,
}
LARGE = {**COUNT, "rule_id": "large", "rule_type": "threshold"}
LARGE = {key: LARGE[key] for key in ("rule_id", "version", "rule_type", "source_topic")}
LARGE["conditions"] = [{"field": "amount", "operator": ">", "value": 5}]
OFTEN = {**COUNT, "rule_id": "often", "source_topic": "rule:many", "aggregation_threshold": 1}


def test_every_rule_of_a_batch_has_its_cost_those_that_read_hits_too(tmp_path: Path) -> None:
    lines = [json.dumps({"id": f"r{n}", "card": f"c{n % 3}", "amount": n % 10, "at": 1_000 * n}) for n in range(200)]
    (tmp_path / "in.jsonl").write_text("\n".join(lines) + "\n")
    rules = load_rules_text(json.dumps([COUNT, LARGE, OFTEN]), "rules.yaml", STREAMS)
    judged = BacktestSpec(
        as_if_active(each.rule for each in rules), RecordedInput(STREAMS, {"s": [str(tmp_path / "in.jsonl")]})
    )
    (outcome,) = outcomes(judged, tmp_path)
    assert {each["rule_id"] for each in outcome.alerts} == {"many", "large", "often"}
    cost_ms = Costs().of(judged.snapshot(judged.rules, 1), outcome.costs)
    assert {rule for rule, ms in cost_ms.items() if ms > 0} >= {"many@1", "large@1", "often@1"}
    assert outcome.costs.hits == {
        f"{name}@1": sum(a["rule_id"] == name for a in outcome.alerts) for name in ("many", "large", "often")
    }


def test_the_rules_of_another_snapshot_have_other_shares() -> None:
    two = [each.rule for each in load_rules_text(json.dumps([COUNT, {**COUNT, "rule_id": "other"}]), "r", STREAMS)]
    snapshots = [BacktestSpec(as_if_active(rules), RecordedInput(STREAMS, {"s": ["x"]})) for rules in (two, two[:1])]
    both, one = (each.snapshot(each.rules, 1) for each in snapshots)
    costs, meter = Costs(), Meter()
    meter.add({"state_stores": {both.plan("s").state_stores[0].state_store.name: 3_000_000}})
    assert costs.of(both, meter) == {"many@1": 1.5, "other@1": 1.5}
    assert costs.of(one, meter) == {"many@1": 3.0}
    assert costs.of(both, meter) == {"many@1": 1.5, "other@1": 1.5}


def test_the_figures_of_a_batch_name_the_costliest() -> None:
    cost_ms = {NO_RULE: 7.0, "cheap@1": 0.25, "dear@2": 9.12345}
    assert shown(cost_ms) == {"rules": {"dear@2": 9.123, "cheap@1": 0.25}, "no_rule": 7.0}
    many = shown({f"r{n}@1": float(n) for n in range(1, SHOWN + 3)})
    assert next(iter(many["rules"])) == f"r{SHOWN + 2}@1"
    assert (len(many["rules"]), many["others"], many["no_rule"]) == (SHOWN, 3.0, 0.0)


def test_a_run_adds_up_what_its_batches_cost() -> None:
    totals = Totals()
    totals.cost({NO_RULE: 7.0, "a@1": 1.0, "b@1": 2.0})
    totals.cost({"a@1": 4.0})
    assert totals.costliest == [("a@1", 5.0), ("b@1", 2.0)]
