"""Rules on another clock than event time: windows and lateness follow it, times of alerts do not."""

import json
from typing import Any

import pytest
import yaml

from crossline.analysis.retention import retained_among
from crossline.basics.streams.schema import load_streams
from crossline.basics.texts.problems import RefusedError
from crossline.evaluate.detect import Detection, State, detect, new_state
from crossline.ingest.decode import decode_lines, make_layout
from crossline.plan.compose import compile_all
from crossline.rules.base import Defaults
from crossline.rules.composition import Sources, heads_of
from crossline.rules.rule_reader import load_rules_text, read_rule
from crossline.rules.ruleset import RuleSet

STREAM = """
schema_version: 1
streams:
  payments:
    id: id
    event_time: {{field: at, unit: ms}}
    ingest_time: {{field: came, unit: ms}}
    clocks: {{booked: {{field: booked_at, unit: {unit}}}}}
    fields: {{id: string, account: string, amount: integer, at: integer, came: integer, booked_at: {kind}}}
"""
STREAMS = load_streams(STREAM.format(unit="ms", kind="integer"), "stream.yaml")
COUNTED: dict[str, Any] = {
    "rule_id": "counted",
    "version": 1,
    "rule_type": "velocity",
    "source_topic": "payments",
    "group_by": "account",
    "aggregation_type": "count",
    "aggregation_threshold": 2,
    "emit": "every",
    "window": "10s",
    "timestamp_field": "booked",
}
LARGE: dict[str, Any] = {"rule_id": "large", "version": 1, "rule_type": "threshold", "source_topic": "payments"} | {
    "conditions": [{"field": "amount", "operator": ">=", "value": 5}]
}


def payment(name: str, at_s: float, booked_s: float, came_s: float, amount: int = 1) -> dict[str, Any]:
    times = {"at": at_s, "booked_at": booked_s, "came": came_s}
    return {"id": name, "account": "a1", "amount": amount, **{n: round(1000 * s) for n, s in times.items()}}


def judged(
    bodies: list[dict[str, Any]], *batches: list[dict[str, Any]], state: State | None = None, **defaults: Any
) -> list[Detection]:
    loaded = load_rules_text(yaml.safe_dump(bodies), "rules.yaml", STREAMS)
    plans = list(compile_all(RuleSet.from_rules(x.rule for x in loaded), STREAMS, Defaults(**defaults)).values())
    state, found, start = state or new_state(2), [], 0
    for batch in batches:
        lines = b"".join(json.dumps(each).encode() + b"\n" for each in batch)
        decoded = decode_lines(make_layout("payments", STREAMS["payments"]), lines, "log", start)
        start += len(lines)
        found.append(detect(plans, state, decoded.records)[0])
    return found


def alert_values(found: list[Detection]) -> list[tuple[Any, ...]]:
    return [(x["rule_id"], x["kind"], x["record_id"], x["value"]) for each in found for x in each.alerts]


@pytest.mark.parametrize("named", ["booked", "booked_at"])
def test_a_window_reaches_back_by_the_clock_that_is_named(named: str) -> None:
    """Paid a minute apart, and booked within ten seconds; then paid at once, and booked a minute apart."""
    made = [payment("p1", 0, 200, 200), payment("p2", 60, 205, 205), payment("p3", 60.5, 260, 260)]
    body = {**COUNTED, "timestamp_field": named}
    assert alert_values(judged([body], made)) == [("counted", "alert", "p2", 2)]
    assert alert_values(judged([{**body, "timestamp_field": None, "allowed_lateness": "10m"}], made)) == [
        ("counted", "alert", "p3", 2)
    ]


def test_times_of_the_alert_are_those_of_the_record_and_its_window_is_on_the_clock() -> None:
    ((found,),) = [each.alerts for each in judged([COUNTED], [payment("p1", 0, 200, 200), payment("p2", 60, 205, 206)])]
    assert found["event_time"] == "1970-01-01T00:01:00.000Z"
    assert found["ingest_time"] == "1970-01-01T00:03:26.000Z"
    assert (found["window_start"], found["window_end"]) == ("1970-01-01T00:03:15.000Z", "1970-01-01T00:03:25.000Z")


def test_lateness_is_measured_on_it() -> None:
    """p2 is an hour late by event time and on time by its booking; p3 is the other way round, and reported as late."""
    made = [payment("p1", 0, 200, 200), payment("p2", 0, 201, 202), payment("p3", 203, 3, 203.5)]
    found = judged([{**COUNTED, "aggregation_threshold": 1, "allowed_lateness": "2m"}, LARGE], made)
    assert [record for _, _, record, _ in alert_values(found)] == ["p1", "p2"]
    # By event time too late for large: p1 and p2; by booking for counted: p3.
    assert [each.record_id for each in found[0].late] == ["p1", "p2", "p3"]


def test_what_keeps_nothing_and_copies_of_it() -> None:
    body = {**LARGE, "timestamp_field": "booked"}
    made = [payment("p1", 150, 200, 200, 5), payment("p1", 150, 200, 201, 5), payment("p2", 201, 50, 202, 9)]
    found = judged([body, COUNTED], made[:1], made[1:])
    assert alert_values(found) == [("large", "alert", "p1", None)]  # p2 was booked more than two minutes ago
    assert [len(each.duplicates) for each in found] == [0, 1]


def test_a_late_booking_takes_back_what_it_changes() -> None:
    summed = {"aggregation_type": "sum", "aggregation_field": "amount", "aggregation_threshold": 5}
    body = {**COUNTED, **summed, "late_policy": "reevaluate", "allowed_lateness": "1h"}
    made = [payment("p1", 10, 1000, 1000, 5), payment("p2", 20, 999, 1003, -1)]
    found = judged([body], made[:1], made[1:])
    assert alert_values(found) == [("counted", "alert", "p1", 5), ("counted", "correction", "p1", None)]
    assert {each["event_time"] for x in found for each in x.alerts} == {"1970-01-01T00:00:10.000Z"}


def test_an_absence_waits_by_the_clock() -> None:
    body = {"rule_id": "absent", "version": 1, "rule_type": "absence", "source_topic": "payments", "within": "10s"}
    body |= {"group_by": "account", "timestamp_field": "booked", "allowed_lateness": "5s", "watermark_delay": "5s"}
    body |= {"after": LARGE["conditions"], "expect": [{"field": "amount", "operator": "==", "value": 1}]}
    answered = [payment("p1", 0, 100, 100, 5), payment("p2", 90, 109, 112)]
    in_vain = [payment("p3", 0, 200, 200, 5), payment("p4", 205, 215, 215), payment("p5", 300, 300, 300, 2)]
    found = judged([body], [*answered, *in_vain])
    assert alert_values(found) == [("absent", "alert", "p3", None)]
    assert found[0].alerts[0]["event_time"] == "1970-01-01T00:00:00.000Z"


def test_hits_have_the_times_of_their_records() -> None:
    """Two payments booked together were paid a minute apart: their hits are a minute apart."""
    reader = {**COUNTED, "rule_id": "reader", "source_topic": "rule:counted", "timestamp_field": None}
    reader |= {"allowed_lateness": "10m", "aggregation_threshold": 1}
    made = [payment("p1", 0, 200, 200), payment("p2", 60, 201, 201)]
    found = alert_values(judged([{**COUNTED, "aggregation_threshold": 1}, reader], made))
    assert [each for each in found if each[0] == "reader"] == [
        ("reader", "alert", "p1", 1),
        ("reader", "alert", "p2", 1),
    ]


def test_where_rules_run_on_ingest_time_the_clock_that_is_named_counts() -> None:
    made = [payment("p1", 0, 200, 200), payment("p2", 60, 205, 230)]
    assert alert_values(judged([COUNTED], made, time_mode="processing_time")) == [("counted", "alert", "p2", 2)]


def test_a_rule_that_comes_later_sees_ingest_times_as_the_stream_does() -> None:
    """The running maximum of event time goes on from before: where records have no ingest time of their own."""
    state = new_state(1)
    judged([LARGE], [payment("p0", 500, 500, 500)], state=state)
    (found,) = judged([LARGE, COUNTED], [payment("p1", 500, 499, 501), payment("p2", 501, 500, 502)], state=state)
    assert alert_values([found]) == [("counted", "alert", "p2", 2)]


@pytest.mark.parametrize(
    ("kind", "unit", "value"),
    [
        ("integer", "s", 200),
        ("integer", "us", 200_000_000),
        ("number", "s", 200.0),
        ("string", "iso8601", "1970-01-01T00:03:20.000Z"),
        ("timestamp", "s", 200),
        ("timestamp", "iso8601", "1970-01-01T00:03:20.000Z"),
    ],
)
def test_it_may_be_written_in_any_way(kind: str, unit: str, value: Any) -> None:
    streams = load_streams(STREAM.format(unit=unit, kind=kind), "stream.yaml")
    body = {**COUNTED, "aggregation_threshold": 1}
    loaded = load_rules_text(yaml.safe_dump(body), "rules.yaml", streams)
    plans = list(compile_all(RuleSet.from_rules(x.rule for x in loaded), streams, Defaults()).values())
    lines = json.dumps({**payment("p1", 0, 0, 201), "booked_at": value}).encode() + b"\n"
    decoded = decode_lines(make_layout("payments", streams["payments"]), lines, "log", 0)
    (found,) = detect(plans, new_state(), decoded.records)[0].alerts
    assert found["window_end"] == "1970-01-01T00:03:20.000Z"


def test_a_record_whose_clock_shows_no_time_is_late() -> None:
    broken = {**payment("p1", 200, 0, 200), "booked_at": 2**62}
    (found,) = judged([{**COUNTED, "aggregation_threshold": 1}], [broken])
    assert (found.alerts, [each.record_id for each in found.late]) == ([], ["p1"])


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"timestamp_field": "bocked"}, "did you mean booked?"),
        ({"timestamp_field": "amount"}, "clocks: {amount: {field: amount, unit: …}}"),
        ({"time_mode": "processing_time"}, "one clock: leave out one of the two"),
        ({"source_topic": "rule:large"}, "hits have the event time and the ingest time alone"),
    ],
)
def test_what_cannot_be_is_reported(more: dict[str, Any], expected: str) -> None:
    _, findings = read_rule({**COUNTED, **more}, Sources.of(STREAMS, heads_of([LARGE])), [])
    assert [each.path for each in findings] == [("timestamp_field",)]
    assert expected in f"{findings[0].expected}; {findings[0].hint}"


@pytest.mark.parametrize(
    ("clocks", "message"),
    [
        ("{booked: {field: nowhere}}", "a field of this stream"),
        ("{booked: {field: account}}", "a field of type integer or number or timestamp"),
        ("{amount: {field: came}}", "a name that no other field has"),
        ("{paid: {field: at}}", "another time than the event time"),
        ("{a b: {field: came}}", "a name of letters"),
        ("{one: {field: came}, two: {field: came}}", "another field than that of clock one"),
    ],
)
def test_clocks_that_cannot_be(clocks: str, message: str) -> None:
    text = STREAM.format(unit="ms", kind="integer").replace("{booked: {field: booked_at, unit: ms}}", clocks)
    with pytest.raises(RefusedError, match=message):
        load_streams(text, "stream.yaml")


def test_what_is_kept_is_reported_of_rules_on_any_clock() -> None:
    loaded = load_rules_text(
        yaml.safe_dump([COUNTED, {**COUNTED, "rule_id": "plain"} | {"timestamp_field": "at"}]), "r", STREAMS
    )
    plans = compile_all(RuleSet.from_rules(x.rule for x in loaded), STREAMS, Defaults())
    kept = [each for name in ("counted", "plain") for each in retained_among(plans, "payments", name)]
    assert [(each.stream, each.time_mode) for each in kept] == [("payments", "booked"), ("payments", "event_time")]
