"""The timeline of an alert, and what would not have fired, of a few payments worked out by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson
import pytest

from crossline.backtest.backtest import BacktestSpec, RecordedInput
from crossline.backtest.investigation.counterfactual import Counterfactual, Counterfactuals, counterfactuals
from crossline.backtest.investigation.figure_bars import share_of
from crossline.backtest.investigation.key_records import KeyRecord, document
from crossline.backtest.investigation.timeline import Timeline, timeline_of
from crossline.backtest.investigation.timeline_builder import timeline
from crossline.backtest.investigation.variant_runner import Budget, VariantRunner
from crossline.basics.streams.schema import load_streams
from crossline.rules.rule_reader import load_rules_text
from crossline.rules.ruleset import RuleSet

START_MS = 1_767_225_600_000
STREAMS = load_streams(
    """\
schema_version: 1
streams:
  payments:
    id: id
    event_time: {field: at}
    fields: {id: string, payee: string, sender: string, amount: integer, status: string?, lat: number?, lon: number?,
             at: integer}
""",
    "stream.yaml",
)
SENDERS = {
    "rule_id": "senders",
    "version": 1,
    "rule_type": "velocity",
    "source_topic": "payments",
    "group_by": "payee",
    "aggregation_type": "distinct_count",
    "aggregation_field": "sender",
    "aggregation_threshold": 3,
    "window": "10s",
    "conditions": [{"field": "amount", "operator": ">=", "value": 150}],
}


def row(name: str, second: float, sender: str, amount: int, **more: Any) -> dict[str, Any]:
    return {
        "id": name,
        "payee": "b1",
        "sender": sender,
        "amount": amount,
        "at": START_MS + round(second * 1000),
        **more,
    }


# In the window of t6, (6 s, 16 s]: a2 and a3 with 160 and 170, a2 again, one too small, and a4 that makes three.
PAYMENTS = [
    row("t1", 4.5, "a1", 300),
    row("t2", 8, "a2", 160),
    row("t3", 15, "a3", 170),
    row("t4", 15.2, "a2", 400),
    row("t5", 15.5, "a9", 40),
    row("t6", 16, "a4", 200),
    row("t7", 18, "a5", 500),
]


def bench_of(
    body: Mapping[str, Any], record_id: str, rows: Sequence[Mapping[str, Any]]
) -> tuple[VariantRunner, list[KeyRecord]]:
    rule = load_rules_text(orjson.dumps([body]).decode(), "rules.yaml", STREAMS)[0].rule
    records = [KeyRecord("payments", each["id"], each["at"], each["at"], each) for each in rows]
    return VariantRunner(rule, BacktestSpec(RuleSet(), RecordedInput(STREAMS, {})), {"payee": "b1"}, record_id), records


def shown(body: Mapping[str, Any], record_id: str, rows: Sequence[Mapping[str, Any]]) -> Timeline:
    bench, records = bench_of(body, record_id, rows)
    alert = bench.alerts(bench.batch(records))[record_id]
    return timeline(bench, alert, records, shown=["sender"], money="amount")


def turns(body: Mapping[str, Any], record_id: str, rows: Sequence[Mapping[str, Any]]) -> Counterfactuals:
    bench, records = bench_of(body, record_id, rows)
    alert = bench.holds(bench.batch(records))[record_id]
    return counterfactuals(bench, alert, records, START_MS)


def one(found: Counterfactuals, kind: str, what: str = "") -> Counterfactual:
    (row_,) = [each for each in found.rows if each.kind == kind and what in each.what and not each.sooner]
    return row_


def test_the_window_its_edges_and_the_marks() -> None:
    found = shown(SENDERS, "t6", PAYMENTS)
    assert found.shape == "window"
    assert (found.window_start_ms, found.window_end_ms) == (START_MS + 6_000, START_MS + 16_000)
    assert (found.from_ms, found.to_ms) == (START_MS + 4_000, START_MS + 18_000)
    assert {each.record_id: each.mark for each in found.records} == {
        "t1": "outside",
        "t2": "counted",
        "t3": "counted",
        "t4": "before",
        "t5": "filtered",
        "t6": "crossing",
        "t7": "after",
    }
    notes = {each.record_id: each.note for each in found.records}
    assert notes["t1"] == "1.5 s before the window"
    assert notes["t5"] == "amount 40; counted are amount >= 150"
    assert notes["t4"] == "sender a2 again, counted once"


def test_the_figure_at_every_record_that_is_judged() -> None:
    found = shown(SENDERS, "t6", PAYMENTS)
    assert [(each.record_id, each.value) for each in found.steps] == [
        ("t1", 1),
        ("t2", 2),
        ("t3", 2),
        ("t4", 2),
        ("t6", 3),
        ("t7", 4),
    ]


def test_the_figure_against_its_threshold() -> None:
    (bar,) = shown(SENDERS, "t6", PAYMENTS).figures
    assert (bar.name, bar.what, bar.value, bar.threshold, bar.operator) == (
        "distinct_count",
        "distinct_count of sender, 10 s",
        3,
        3,
        ">=",
    )
    assert (bar.share, bar.beyond, bar.met) == (0.5, False, True)
    assert share_of(50, 10) == (1.0, True)
    assert share_of(1, 0) == (None, False)


def test_it_comes_back_from_json() -> None:
    found = shown(SENDERS, "t6", PAYMENTS)
    body = orjson.loads(orjson.dumps(found.to_json()))
    assert body["window_start"] == "2026-01-01T00:00:06.000Z"
    assert timeline_of({**body, "alert_id": "x"}) == found


def test_what_would_not_have_fired() -> None:
    """t2 leaves the window at 8 s, and its sender stays by t4; t3 has to go, which it does at 1 s."""
    found = turns(SENDERS, "t6", PAYMENTS)
    assert (one(found, "amount").was, one(found, "amount").turns_at) == (200, 149)
    assert (one(found, "threshold").turns_at, one(found, "threshold").one_less) == (4, 3)
    assert (one(found, "window").turns_at, one(found, "window").one_less) == (1_000, 1_001)
    condition = one(found, "condition")  # t3 has 170, t2 160 and t4 400 of the same sender
    assert (condition.was, condition.turns_at, condition.one_less) == (150, 171, 170)
    assert one(found, "record").record_id == "t3"
    assert one(found, "record").what == "Without t3"


def test_what_happens_then() -> None:
    found = turns(SENDERS, "t6", PAYMENTS)
    assert one(found, "amount").then == "t6 no longer counts; fires 2 s later at t7"
    assert one(found, "threshold").then == "distinct_count 3; fires 2 s later at t7"


def test_the_smallest_changes_come_first_and_sooner_last() -> None:
    rows = turns({**SENDERS, "aggregation_threshold": 4}, "t7", PAYMENTS).rows
    sizes = [each.size for each in rows if not each.sooner]
    assert sizes == sorted(sizes)
    assert [each.sooner for each in rows] == sorted(each.sooner for each in rows)
    assert (rows[-1].kind, rows[-1].turns_at, rows[-1].then) == ("window", 11_501, "at t6, 2 s earlier")  # t1 comes in


def test_a_spent_budget_is_stated() -> None:
    bench, records = bench_of(SENDERS, "t6", PAYMENTS)
    alert = bench.holds(bench.batch(records))["t6"]
    bench.budget = Budget(runs=3)
    found = counterfactuals(bench, alert, records, START_MS)
    assert found.runs == 3
    assert found.not_found
    assert all("budget" in each.why or "runs" in each.why for each in found.not_found)


def test_records_that_do_not_give_the_alert_again_say_so() -> None:
    bench, records = bench_of(SENDERS, "t6", PAYMENTS)
    alert = bench.holds(bench.batch(records))["t6"]
    found = counterfactuals(bench, alert, records[4:], START_MS)
    assert found.why_none == "the records that were read back do not make the rule fire at t6"
    assert found.rows == []


def test_a_sequence_has_a_lane_for_each_step() -> None:
    body = {
        "rule_id": "guess",
        "version": 1,
        "rule_type": "sequence",
        "source_topic": "payments",
        "group_by": "payee",
        "within": "60s",
        "steps": [
            {"name": "wrong", "times": 2, "conditions": [{"field": "status", "operator": "==", "value": "wrong"}]},
            {"name": "right", "conditions": [{"field": "status", "operator": "==", "value": "right"}]},
        ],
    }
    states = ["right", "wrong", "wrong", "right"]
    rows = [row(f"t{n}", 10 * n, "a1", 100, status=status) for n, status in enumerate(states)]
    found = shown(body, "t3", rows)
    assert found.shape == "sequence"
    assert [(each.name, each.found, each.wanted) for each in found.lanes] == [("wrong", 2, 2), ("right", 1, 1)]
    assert [each.lane for each in found.records] == [1, 0, 0, 1]
    assert found.due_ms == START_MS + 70_000
    later = one(turns(body, "t3", rows), "time")  # more than 60 s after t1
    assert (later.turns_at, later.one_less) == (START_MS + 70_001, START_MS + 70_000)


def test_travel_has_two_places_and_a_speed() -> None:
    body = {
        "rule_id": "travel",
        "version": 1,
        "rule_type": "geo_velocity",
        "source_topic": "payments",
        "group_by": "payee",
        "latitude_field": "lat",
        "longitude_field": "lon",
        "window": "12h",
    }
    rows = [row("t1", 0, "a1", 100, lat=0.0, lon=0.0), row("t2", 3600, "a1", 100, lat=0.0, lon=10.0)]
    found = shown(body, "t2", rows)
    assert found.travel is not None
    assert (found.travel.start.record_id, found.travel.end.record_id) == ("t1", "t2")
    assert found.travel.distance_km == pytest.approx(1111.95, abs=0.01)  # a thirty-sixth of 40,030 km
    assert (found.travel.elapsed_ms, found.travel.limit_kmh) == (3_600_000, 500)
    (bar,) = found.figures
    assert (bar.name, bar.threshold, bar.unit, bar.beyond) == ("speed", 500, "km/h", True)
    later = one(turns(body, "t2", rows), "time")  # 500 km/h take 2.2239 h
    assert later.turns_at is not None
    assert later.turns_at - START_MS == pytest.approx(1111.949 / 500 * 3_600_000, abs=20)


def test_a_rule_that_looks_at_the_record_alone_has_the_figures_of_its_conditions() -> None:
    body = {
        "rule_id": "dear",
        "version": 1,
        "rule_type": "threshold",
        "source_topic": "payments",
        "entity": "payee",
        "conditions": [{"field": "amount", "operator": ">=", "value": 400}],
    }
    found = shown(body, "t7", PAYMENTS)
    assert (found.shape, found.steps, found.window_start_ms) == ("none", (), None)
    assert [(each.name, each.value, each.threshold, each.unit) for each in found.figures] == [
        ("amount", 500, 400, "money")
    ]
    changes = turns(body, "t7", PAYMENTS)
    assert one(changes, "amount").turns_at == 399
    assert one(changes, "condition").turns_at == 501
    assert {each.then for each in changes.rows if not each.sooner} == {"does not fire"}


def test_a_row_of_texts_becomes_a_document_of_its_types() -> None:
    texts = {"id": "t1", "payee": "b1", "sender": "7", "amount": "12", "lat": "1.5", "at": str(START_MS)}
    assert document(texts, STREAMS["payments"]) == {
        "id": "t1",
        "payee": "b1",
        "sender": "7",
        "amount": 12,
        "lat": 1.5,
        "at": START_MS,
    }
