"""What rules cost, and which of them how much of what they share: worked out by hand."""

from __future__ import annotations

import itertools
import json
from typing import Any

import numpy as np
import orjson
import pytest

from crossline.basics.streams.schema import load_streams
from crossline.evaluate.bounds import Bounds
from crossline.evaluate.shard import ShardState, judge
from crossline.ingest.decode import decode_lines, make_layout
from crossline.ingest.route.partitioner import Chunk, route
from crossline.plan.compile import StreamPlan
from crossline.plan.compose import compile_all
from crossline.plan.costs import LOOKED_AT, NO_RULE, Meter, Sharing
from crossline.rules.base import Defaults
from crossline.rules.rule_reader import load_rules_text
from crossline.rules.ruleset import RuleSet

STREAMS = load_streams(
    """
schema_version: 1
streams:
  s: {id: id, event_time: {field: at}, fields: {id: string, card: string, shop: string, amount: integer, at: integer}}
""",
    "stream.yaml",
)
LARGE = [{"field": "amount", "operator": ">", "value": 50}]


def rule(rule_id: str, rule_type: str = "velocity", **more: Any) -> dict[str, Any]:
    shape: dict[str, Any] = {"source_topic": "s"}
    if rule_type == "velocity":
        shape |= {"group_by": "card", "aggregation_type": "count", "window": "1m", "aggregation_threshold": 3}
    return {"rule_id": rule_id, "version": 1, "rule_type": rule_type, **shape, **more}


def plans_of(*bodies: dict[str, Any]) -> list[StreamPlan]:
    rules = RuleSet.from_rules(each.rule for each in load_rules_text(json.dumps(bodies), "r.yaml", STREAMS))
    return list(compile_all(rules, STREAMS, Defaults()).values())


class Clock:
    """Each look at it takes a microsecond."""

    def __init__(self) -> None:
        self._looks = itertools.count(0, 1_000)
        self.last_ns = 0

    def __call__(self) -> int:
        self.last_ns = next(self._looks)
        return self.last_ns


def measured(plans: list[StreamPlan], amounts: list[int]) -> Meter:
    """Records of one card with these amounts, a second apart, routed and judged."""
    (plan,) = plans
    lines = [
        {"id": f"r{n}", "card": "a", "shop": "x", "amount": amount, "at": n * 1_000} for n, amount in enumerate(amounts)
    ]
    decoded = decode_lines(make_layout("s", STREAMS["s"]), b"".join(orjson.dumps(x) + b"\n" for x in lines), "log", 0)
    assert not decoded.dead
    meter = Meter(Clock())
    parts = route(plan, decoded.records, Chunk("log", 0, "log"), 1, {}, meter=meter)
    judge(plans, ShardState(), [(p.meta, p.arrays) for p in parts], Bounds(), meter)
    return meter


def test_a_figure_is_paid_for_in_equal_parts_and_by_the_records_that_enter_its_window() -> None:
    plans = plans_of(
        rule("few"),
        rule("many", aggregation_threshold=9),
        rule("large", aggregation_type="sum", aggregation_field="amount", conditions=LARGE),
    )
    (state_store,) = (each.state_store.name for each in plans[0].state_stores)
    meter = measured(plans, [10, 60, 10, 10])
    entries = {
        entry.condition: count
        for entry, count in zip(plans[0].state_stores[0].state_store.filters, meter.entered[state_store], strict=True)
    }
    assert sorted(entries.values()) == [1, 4]
    body, whole = Sharing(plans).ms(meter), meter.state_stores[state_store] / 1e6
    # Of the five rows in windows, four are in that of the count, which two rules read, and one in that of the sum.
    assert body["few@1"] == body["many@1"] == pytest.approx(whole * 4 / 5 / 2)
    assert body["large@1"] == pytest.approx(whole * 1 / 5 + meter.conditions["s"] / 1e6)
    assert meter.conditions["s"] == 1_000


def test_all_that_is_measured_is_divided() -> None:
    plans = plans_of(
        rule("few"),
        rule("shops", group_by="shop"),
        rule("large", "threshold", conditions=LARGE),
        rule("twice", "sequence", group_by="card", within="1m", steps=[{"name": n, "conditions": LARGE} for n in "ab"]),
        rule("odd", "formula", figures={"n": {"count": True, "group_by": "card", "window": "5m"}}, when="n > 2"),
    )
    meter = measured(plans, [10, 60, 70, 10])
    meter.count_hits(["large@1", "large@1", "twice@1"])
    body = Sharing(plans).ms(meter)
    spent = meter.state_stores.total() + meter.conditions.total() + meter.hits_ns
    assert sum(body.values()) == pytest.approx(spent / 1e6)
    assert set(body) - {NO_RULE} == {"few@1", "shops@1", "large@1", "twice@1", "odd@1"}
    assert {each.state_store.name for each in plans[0].state_stores} == set(meter.state_stores)


def test_hits_are_paid_for_one_by_one() -> None:
    meter = Meter()
    meter.add({"hits": {"few@1": 3, "large@1": 1}, "hits_ns": 4_000_000})
    assert Sharing(plans_of(rule("few"))).ms(meter) == {"few@1": 3.0, "large@1": 1.0}


def test_what_serves_no_rule_is_of_none() -> None:
    (plan,) = plans_of(rule("large", "threshold", conditions=LARGE))
    meter = Meter()
    meter.add(
        {
            "state_stores": {plan.state_stores[0].state_store.name: 2_000_000, "s|event_time|gone#9": 500_000},
            "hits_ns": 250_000,
        }
    )
    assert Sharing([plan]).ms(meter) == {NO_RULE: 2.75}


def test_a_window_that_nothing_entered_is_paid_for_by_all_of_its_state_store() -> None:
    plans = plans_of(rule("few", conditions=LARGE), rule("sum", aggregation_type="sum", aggregation_field="amount"))
    (state_store,) = (each.state_store.name for each in plans[0].state_stores)
    meter = Meter()
    meter.add({"state_stores": {state_store: 1_000_000}, "entered": {state_store: [0, 0]}})
    assert Sharing(plans).ms(meter) == {"few@1": 0.5, "sum@1": 0.5}


def test_many_rows_are_looked_at_in_part() -> None:
    plans = plans_of(rule("few"), rule("large", conditions=LARGE))
    meter = measured(plans, [10, 60] * 2 * LOOKED_AT)  # every fourth is looked at
    ((state_store, entered),) = meter.entered.items()
    assert max(entered) == 4 * LOOKED_AT
    assert state_store == plans[0].state_stores[0].state_store.name


def test_what_tasks_measured_comes_together() -> None:
    plans = plans_of(rule("few"), rule("large", conditions=LARGE))
    one, other, both = measured(plans, [10, 60]), measured(plans, [60] * 3), Meter()
    for each in (one, other):
        both.add(orjson.loads(orjson.dumps(each.to_json())))
    (state_store,) = one.state_stores
    assert both.state_stores[state_store] == one.state_stores[state_store] + other.state_stores[state_store]
    assert both.entered[state_store] == [
        a + b for a, b in zip(one.entered[state_store], other.entered[state_store], strict=True)
    ]
    assert both.hits_ns == one.hits_ns + other.hits_ns


def test_without_a_clock_nothing_is_measured() -> None:
    plans, meter = plans_of(rule("few"), rule("large", conditions=LARGE)), Meter()
    meter.start()
    meter.state_store("x")
    meter.condition("s")
    meter.count_hits(["few@1"])
    meter.rows(plans[0].state_stores[0], np.ones((1, 1), np.uint8))
    assert meter.to_json() == {}
