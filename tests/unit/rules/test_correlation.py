"""``correlation``: hits worked by hand over two streams, and what is refused."""

from __future__ import annotations

import os
import statistics
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crossline.rules.base import Defaults
from crossline.rules.ruleset import RuleSet

from .rulekit import without
from .stream_joins import START_MS, Row, alerts, loaded, payment, rate, row

OFF: dict[str, Any] = {
    "rule_id": "off",
    "rule_type": "correlation",
    "source_topic": "payments",
    "context_topic": "fx_rates",
    "correlation_key": "currency_pair",
    "window": "5m",
    "context_resolution": "last",
    "context_value_field": "rate",
    "event_value_field": "rate",
    "metric": "ratio_deviation",
    "condition": {"operator": ">", "value": 0.02},
}
EVERY: dict[str, Any] = {"metric": "direct", "condition": {"operator": ">=", "value": -1_000_000}}


def hits(changes: Mapping[str, Any], *rows: Row) -> list[tuple[str, Any]]:
    """Record id and value of each alert of ``OFF`` with ``changes``."""
    return [(each["record_id"], each["value"]) for each in alerts([{**OFF, **changes}], rows)]


def test_a_payment_off_the_market_by_more_than_two_percent() -> None:
    rows = [
        rate("r1", 0, 1.00),
        rate("r2", 1, 1.25),
        rate("r3", 1, 100.0, currency_pair="GBPUSD"),
        payment("p1", 2, 1.2749),
        payment("p2", 3, 1.3125),
        payment("p3", 4, 1.1875),
        payment("p4", 5, 1.25),
    ]
    (above, below) = alerts([{**OFF, "description": "{rate} for {currency_pair}, not {context}"}], rows)
    assert [(each["record_id"], round(each["value"], 12)) for each in (above, below)] == [("p2", 0.05), ("p3", 0.05)]
    assert (above["operator"], above["threshold"], above["key"]) == (">", 0.02, {"currency_pair": "EURUSD"})
    assert above["message"] == "1.3125 for EURUSD, not 1.25"
    assert (above["stream"], above["rule_type"]) == ("payments", "correlation")
    assert above["evidence"]["record_ids"] == ["p2"]
    assert above["evidence"]["fields"] == {"rate": 1.3125}
    context = {"value": 1.25, "points": 2, "age_ms": 2000, "record_ids": ["r1", "r2"]}
    assert above["evidence"]["context"] == context


def test_the_plain_sentence() -> None:
    (alert,) = alerts([OFF], [rate("r1", 0, 2), payment("p1", 1, 3)])
    assert alert["message"] == (
        "rate 3 by currency pair EURUSD, 50 % off the last rate of fx rates, 2, 1 s before (line: > 2 %)"
    )


@pytest.mark.parametrize(
    ("resolution", "metric", "operator", "line", "expected"),
    [
        ("last", "direct", "<", 5, [("p1", 4), ("p2", 4)]),  # the rates are 1, 2 and 4
        ("last", "difference", ">", 0, [("p1", 6)]),
        ("last", "difference", "<", 0, [("p2", -2)]),
        ("last", "ratio_deviation", "==", 0.5, [("p2", 0.5)]),
        ("mean", "direct", ">=", 2, [("p1", 7 / 3), ("p2", 7 / 3)]),
        ("mean", "difference", "!=", 0, [("p1", 10 - 7 / 3), ("p2", 2 - 7 / 3)]),
        ("mean", "ratio_deviation", ">", 1, [("p1", 10 / (7 / 3) - 1)]),
        ("mean_std", "z_score", ">", 3, [("p1", (10 - 7 / 3) / statistics.stdev([1, 2, 4]))]),
        ("mean_std", "z_score", "<=", 3, [("p2", (2 - 7 / 3) / statistics.stdev([1, 2, 4]))]),
    ],
)
def test_what_the_context_is_and_what_is_standing_against_it(
    resolution: str, metric: str, operator: str, line: float, expected: list[tuple[str, float]]
) -> None:
    rows = [rate("r1", 0, 1), rate("r2", 1, 2), rate("r3", 2, 4), payment("p1", 3, 10), payment("p2", 4, 2)]
    body = {"context_resolution": resolution, "metric": metric, "condition": {"operator": operator, "value": line}}
    found = hits(body, *rows)
    assert [(name, pytest.approx(value, rel=1e-14)) for name, value in expected] == found


def test_the_mean_and_the_deviation_stand_in_the_alert() -> None:
    body = {"context_resolution": "mean_std", "metric": "z_score", "condition": {"operator": ">", "value": 1}}
    (alert,) = alerts([{**OFF, **body}], [rate("r1", 0, 1), rate("r2", 1, 3), payment("p1", 2, 5)])
    context = alert["evidence"]["context"]
    assert (context["value"], context["deviation"], context["points"]) == (2, pytest.approx(2**0.5), 2)


@pytest.mark.parametrize("values", [[2], [2, 2, 2]])
def test_a_baseline_without_any_deviation_judges_nothing(values: list[float]) -> None:
    body = {"context_resolution": "mean_std", "metric": "z_score", "condition": {"operator": ">", "value": 1}}
    rows = [rate(f"r{number}", number, value) for number, value in enumerate(values)]
    assert hits(body, *rows, payment("p1", 9, 100)) == []


def test_a_ratio_to_nothing_is_no_hit() -> None:
    assert hits({}, rate("r1", 0, 0.0), payment("p1", 1, 5)) == []


def test_both_ends_belong_to_the_window() -> None:
    seen = {"p1": 2, "p2": 1, "p3": 1}
    rows = [
        rate("r0", 0, 7),
        rate("r1", 300, 8),
        payment("p1", 300, 1),  # r0 is just five minutes old, r1 of the same time
        payment("p2", 300.001, 1),
        payment("p3", 600, 1),
        payment("p4", 600.001, 1),
    ]
    found = alerts([{**OFF, **EVERY}], rows)
    assert {each["record_id"]: each["evidence"]["context"]["points"] for each in found} == seen
    assert [each["value"] for each in found] == [8, 8, 8]


def test_of_equal_times_what_came_last_is_the_last() -> None:
    assert hits(EVERY, rate("r1", 5, 1), rate("r2", 5, 2), payment("p1", 5, 9), rate("r3", 5, 3)) == [("p1", 2)]


def test_context_counts_at_its_own_time_and_only_once_it_has_come() -> None:
    rows = [
        rate("r1", 0, 1),
        rate("r2", 20, 2, came=20),
        payment("p1", 10, 9, came=21),  # r2 is known, but happened later
        payment("p2", 30, 9),
        rate("r3", 25, 3, came=31),  # comes late: no payment before it has seen it
        payment("p3", 32, 9),
        payment("p4", 22, 9, came=33),
    ]
    assert hits(EVERY, *rows) == [("p1", 1), ("p2", 2), ("p3", 3), ("p4", 2)]


def test_a_record_without_its_last_context_waits_for_it() -> None:
    rows = [
        payment("p1", 10, 9),
        payment("p2", 20, 9),
        rate("r1", 30, 1),  # happened after both
        rate("r2", 15, 2, came=31),  # is of p2's window
        rate("r3", 18, 3, came=32),  # p2 is judged already
        rate("r4", 10, 4, came=33),
    ]
    assert sorted(hits(EVERY, *rows)) == [("p1", 4), ("p2", 2)]
    for changes in ({"min_context_points": 2}, {"context_resolution": "mean"}):
        assert hits({**EVERY, **changes}, *rows) == []


def test_context_that_comes_again_is_none_for_what_waits_either() -> None:
    """By its id it is the first one, whatever else it says: r1 was too old for p1, and stays it."""
    first, again = rate("r1", 0, 1), rate("r1", 12, 2, came=14)
    assert hits({**EVERY, "window": "6s"}, first, payment("p1", 13, 9), again) == []
    assert hits({**EVERY, "window": "6s"}, first, again, payment("p1", 13, 9, came=15)) == []
    assert hits({**EVERY, "window": "6s"}, first, payment("p1", 13, 9), rate("r2", 12, 2, came=14)) == [("p1", 2)]


def test_what_is_reported_later_is_held_back_by_nothing_and_holds_nothing_back() -> None:
    rows = [payment("p1", 10, 9), payment("p2", 11, 9), rate("r1", 5, 1), payment("p3", 12, 9), payment("p4", 13, 9)]
    for changes in ({"cooldown": "1m"}, {"emit": "on_crossing"}):
        assert hits({**EVERY, **changes}, *rows) == [("p1", 1), ("p2", 1), ("p3", 1)]


@pytest.mark.parametrize(("resolution", "waits_s"), [("last", 120), ("mean", 0)])
def test_a_version_that_ended_stays_for_as_long_as_records_wait_under_it(resolution: str, waits_s: int) -> None:
    newer = {**OFF, "version": 2, "effective_from": "2026-01-01T00:01:00Z"}
    rules = loaded([{**OFF, "context_resolution": resolution}, newer])
    ended = RuleSet(tuple(replace(each, ended=each.rule.version == 1) for each in rules.versions))
    for passed_s, stays in ((59 + waits_s, [1, 2]), (60 + waits_s, [2])):
        gone_ms = {"payments": START_MS + 1_000 * passed_s}
        left = ended.without_past(gone_ms, lambda rule: rule.lingers_ms(Defaults()))
        assert [each.rule.version for each in left.versions] == stays


def test_context_that_is_too_late_for_the_rule_does_not_count() -> None:
    rows = [rate("r1", 0, 1), rate("r2", 10, 2, came=131), payment("p1", 132, 9)]
    assert hits(EVERY, *rows) == [("p1", 1)]
    assert hits({**EVERY, "allowed_lateness": "3m"}, *rows) == [("p1", 2)]


def test_context_that_is_too_old_does_not_count() -> None:
    rows = [rate("r1", 0, 1), rate("r2", 5, 3), payment("p1", 60, 9), payment("p2", 60.001, 9), payment("p3", 65.5, 9)]
    assert hits({**EVERY, "max_context_age_seconds": 60}, *rows) == [("p1", 3), ("p2", 3)]
    mean = {**EVERY, "context_resolution": "mean", "max_context_age_seconds": 60}
    assert hits(mean, *rows) == [("p1", 2), ("p2", 3)]
    assert hits({**mean, "max_context_age_seconds": 86_400}, *rows) == [("p1", 2), ("p2", 2), ("p3", 2)]


def test_with_too_few_points_it_is_not_judged() -> None:
    body = {**EVERY, "context_resolution": "mean", "min_context_points": 2}
    rows = [rate("r1", 0, 1), payment("p1", 1, 9), rate("r2", 2, 3), payment("p2", 3, 9), payment("p3", 301, 9)]
    assert hits(body, *rows) == [("p2", 2)]


def test_only_context_of_a_type_counts() -> None:
    rows = [
        rate("r1", 0, 1, type="spot", level=1, real=True),
        rate("r2", 1, 2, type="forward", level=2, real=False),
        rate("r3", 2, 3),
        payment("p1", 3, 9),
    ]
    for field, value in (("type", "spot"), ("level", 1), ("real", True)):
        assert hits({**EVERY, "context_type_field": field, "context_type_value": value}, *rows) == [("p1", 1)]
    assert hits({**EVERY, "context_type_field": "real", "context_type_value": False}, *rows) == [("p1", 2)]
    assert hits({**EVERY, "context_type_field": "type", "context_type_value": "none"}, *rows) == []
    assert hits(EVERY, *rows) == [("p1", 3)]


def test_records_without_what_is_compared() -> None:
    rows = [
        rate("r1", 0, 1),
        rate("r2", 1, None),  # says nothing of the rate
        rate("r3", 2, 5, currency_pair=None),
        payment("p1", 3),
        payment("p2", 4, 3, currency_pair=None),
        payment("p3", 5, 3),
    ]
    assert hits({}, *rows) == [("p3", 2)]
    assert hits(EVERY, *rows) == [("p1", 1), ("p3", 1)]


def test_the_rules_conditions_are_of_the_record_and_not_of_its_context() -> None:
    body = {"conditions": [{"field": "country", "operator": "==", "value": "NO"}]}
    rows = [rate("r1", 0, 1), payment("p1", 1, 3, country="NO"), payment("p2", 2, 3, country="SE")]
    assert hits(body, *rows) == [("p1", 2)]


def test_a_key_of_two_names() -> None:
    body = {**EVERY, "correlation_key": {"primary": "currency_pair", "context": "pair"}}
    rows = [
        rate("r1", 0, 1, currency_pair="GBPUSD", pair="EURUSD"),
        rate("r2", 1, 2, currency_pair="EURUSD", pair="GBPUSD"),
        payment("p1", 2, 9),
        payment("p2", 3, 9, currency_pair="GBPUSD"),
    ]
    found = alerts([{**OFF, **body}], rows)
    assert {each["key"]["currency_pair"]: each["value"] for each in found} == {"EURUSD": 1, "GBPUSD": 2}
    same = {**body, "correlation_key": {"primary": "currency_pair", "context": "currency_pair"}}
    assert sorted(hits(same, *rows)) == [("p1", 2), ("p2", 1)]


def test_emit_mode_says_what_is_shown() -> None:
    rows = [rate("r1", 0, 2), payment("p1", 1, 3)]
    shown = {mode: alerts([{**OFF, "emit_mode": mode}], rows)[0]["evidence"] for mode in ("event", "context", "both")}
    assert {mode: sorted(each) for mode, each in shown.items()} == {
        "event": ["count", "fields", "record_ids"],
        "context": ["context", "count", "figures", "record_ids"],
        "both": ["context", "count", "fields", "figures", "record_ids"],
    }


def test_it_alerts_at_every_hit_unless_it_says_otherwise() -> None:
    rows = [rate("r1", 0, 2), *(payment(f"p{n}", n, 3 if n != 4 else 2) for n in range(1, 7))]
    assert [name for name, _ in hits({}, *rows)] == ["p1", "p2", "p3", "p5", "p6"]
    assert [name for name, _ in hits({"emit": "on_crossing"}, *rows)] == ["p1", "p5"]
    assert [name for name, _ in hits({"cooldown": "2s"}, *rows)] == ["p1", "p3", "p5"]


def test_a_window_of_a_size_and_a_unit() -> None:
    sized = {**without(OFF, "window"), **EVERY, "window_size": 5, "window_unit": "minutes"}
    rows = [rate("r1", 0, 1), payment("p1", 300, 9), payment("p2", 300.001, 9)]
    assert [each["record_id"] for each in alerts([sized], rows)] == ["p1"]


def test_fields_that_are_called_as_its_own_words() -> None:
    """Only the field that is held against the context stands beside it in the formula."""
    changes = {"event_value_field": "level", "source_topic": "fx_rates", "context_topic": "payments"}
    rows = [payment("p1", 0, 2), rate("r1", 1, None, level=3)]
    assert [each["record_id"] for each in alerts([{**OFF, **changes}], rows)] == ["r1"]


def velocity(**changes: Any) -> dict[str, Any]:
    return {
        "rule_id": "busy",
        "rule_type": "velocity",
        "source_topic": "payments",
        "group_by": "account",
        "aggregation_type": "count",
        "aggregation_threshold": 3,
        "window": "30s",
        "emit_to_sink": False,
        **changes,
    }


FILTERED = [payment(f"p{n}", n, 3, account="a") for n in range(1, 6)]


@pytest.mark.parametrize(("emit", "expected"), [("on_crossing", ["p3"]), ("every", ["p3", "p4", "p5"])])
def test_only_hits_of_another_rule_are_looked_at(emit: str, expected: list[str]) -> None:
    rows = [rate("r1", 0, 2), *FILTERED]
    rules = [velocity(emit=emit), {**OFF, "velocity_filter_rule_id": "busy"}]
    found = alerts(rules, rows)
    assert [each["record_id"] for each in found if each["rule_id"] == "off"] == expected
    assert all(each["emit_to_sink"] is False for each in found if each["rule_id"] == "busy")
    same = alerts([rules[0], {**OFF, "source_topic": "rule:busy"}], rows)
    assert [each["alert_id"] for each in same] == [each["alert_id"] for each in found]


def test_hits_may_be_standing_against_the_records_of_their_own_stream() -> None:
    """Other records of the pair: those that are no hits count as context."""
    body = {**OFF, **EVERY, "context_topic": "payments", "context_resolution": "mean"}
    rows = [payment(f"p{n}", n, float(n), account="a") for n in range(1, 4)]
    for reads in ({"source_topic": "rule:busy"}, {"velocity_filter_rule_id": "busy"}):
        found = alerts([velocity(), {**body, **reads}], rows)
        assert [(e["record_id"], e["value"]) for e in found if e["rule_id"] == "off"] == [("p3", 2)]


def test_context_may_be_the_hits_of_a_rule() -> None:
    """How far a payment is from the rate of the last busy one."""
    rules = [velocity(), {**OFF, "metric": "difference", "context_topic": "rule:busy", "correlation_key": "account"}]
    found = alerts(rules, [*FILTERED, payment("p9", 9, 10, account="a")])
    assert [(e["record_id"], e["value"]) for e in found if e["rule_id"] == "off"] == [("p9", 7)]


def test_the_values_of_hits_are_context_too() -> None:
    changes = {"context_topic": "rule:busy", "correlation_key": "account", "context_value_field": "hit.value"}
    rows = [*FILTERED, row("logins", "l1", 6, account="a", ok=True)]
    rule = {**OFF, **EVERY, **changes, "source_topic": "logins", "event_value_field": None}
    found = alerts([velocity(emit="every"), rule], rows)
    assert [(e["record_id"], e["value"]) for e in found if e["rule_id"] == "off"] == [("l1", 5)]


_KINDS = st.tuples(st.sampled_from("cp"), st.integers(0, 30), st.integers(0, 8), st.integers(0, 1), st.integers(0, 4))


MANY = settings(
    max_examples=2000 if os.environ.get("CROSSLINE_DEEP") == "1" else 30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)


@MANY
@given(
    st.lists(_KINDS, max_size=14), st.sampled_from(["last", "mean", "mean_std"]), st.integers(1, 3), st.integers(1, 9)
)
def test_it_is_what_a_look_at_all_records_finds(
    made: list[tuple[str, int, int, int, int]], resolution: str, least: int, window_s: int
) -> None:
    rows: list[Row] = []
    expected: dict[str, float] = {}
    waiting: list[Row] = []  # without any last value yet
    # Each comes at its second or up to 8 s later; in the order in which they come.
    for number, (kind, second, late, pair, value) in enumerate(sorted(made, key=lambda each: each[1] + each[2])):
        build = rate if kind == "c" else payment
        new = build(f"n{number}", second, float(value), second + late, currency_pair=f"P{pair}")
        rows.append(new)
        if kind == "c":
            for each in [each for each in waiting if is_context(new, each, window_s)]:
                waiting.remove(each)
                expected |= {each["id"]: each["rate"] - value} if least == 1 else {}
            continue
        before = [each for each in rows if is_context(each, new, window_s)]
        known = [each["rate"] for each in before]
        if resolution == "last" and not known:
            waiting.append(new)
        elif len(known) < least:
            continue
        elif resolution == "last":
            latest = max(before, key=lambda each: (each["at"], rows.index(each)))
            expected[new["id"]] = value - latest["rate"]
        elif resolution == "mean":
            expected[new["id"]] = value - statistics.fmean(known)
        elif len(known) > 1 and statistics.stdev(known) > 0:
            expected[new["id"]] = (value - statistics.fmean(known)) / statistics.stdev(known)
    body = {
        "context_resolution": resolution,
        "metric": "z_score" if resolution == "mean_std" else "difference",
        "condition": {"operator": ">", "value": -1000},
        "min_context_points": least,
        "window": f"{window_s}s",
    }
    found = hits(body, *rows)
    assert dict(found) == {name: pytest.approx(value, rel=1e-12) for name, value in expected.items()}
    assert len(found) == len(expected)


def is_context(row: Row, of: Row, window_s: int) -> bool:
    """Whether ``row``, which has come, is of the window of ``of``."""
    same = row["stream"] == "fx_rates" and row["currency_pair"] == of["currency_pair"]
    return same and 0 <= of["at"] - row["at"] <= 1000 * window_s
