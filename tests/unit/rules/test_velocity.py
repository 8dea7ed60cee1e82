import json
import sys
from types import FrameType
from typing import Any

import pytest

from crossline.programs.program import Comparison, Emission, Evidence, Feed, Figure, Program, Window
from crossline.rules.base import Defaults
from crossline.rules.rule_reader import load_rules_text
from crossline.rules.types.velocity import VelocityRule

from .rulekit import VELOCITY, findings_of, rule, streams, without


def velocity(**more: Any) -> VelocityRule:
    found = rule(VELOCITY, **more)
    assert isinstance(found, VelocityRule)
    return found


# The three examples that the article describes, in the fields of its schema.
ARTICLE = [
    {
        "rule_id": "rapid_clicks",
        "version": 1,
        "rule_type": "velocity",
        "source_topic": "events.raw",
        "sink_topic": "events.processed",
        "window_size": 10,
        "window_unit": "seconds",
        "group_by": "user_id",
        "aggregation_type": "count",
        "aggregation_threshold": 10,
        "conditions": [{"field": "type", "operator": "==", "value": "click"}],
        "emit_mode": "last_event",
        "time_mode": "processing_time",
    },
    {
        "rule_id": "global_rate",
        "version": 1,
        "rule_type": "velocity",
        "source_topic": "events.raw",
        "window_size": 10,
        "window_unit": "s",
        "aggregation_type": "count",
        "aggregation_threshold": 100,
        "conditions": [],
    },
    {
        "rule_id": "purchase_sum",
        "version": 1,
        "rule_type": "velocity",
        "source_topic": "events.raw",
        "window_size": 60,
        "window_unit": "second",
        "group_by": "user_id",
        "aggregation_type": "sum",
        "aggregation_field": "value",
        "aggregation_threshold": 1000,
        "conditions": [{"field": "type", "operator": "==", "value": "purchase"}],
        "time_mode": "event_time",
        "timestamp_field": "event_ts",
        "watermark_delay": 3,
        "emit_to_sink": False,
    },
]


def test_rules_of_the_article_load_unchanged() -> None:
    loaded = [item.rule for item in load_rules_text(json.dumps(ARTICLE, indent=2), "rules.json", streams())]
    clicks, everywhere, purchases = loaded
    assert isinstance(clicks, VelocityRule)
    assert isinstance(everywhere, VelocityRule)
    assert isinstance(purchases, VelocityRule)
    assert (clicks.window_ms, clicks.group_by, clicks.operator, clicks.emit) == (
        10_000,
        ("user_id",),
        ">=",
        "on_crossing",
    )
    assert everywhere.group_by == ()
    assert everywhere.filter.canonical == ""
    assert (purchases.window_ms, purchases.watermark_delay, purchases.emit_to_sink) == (60_000, 3000, False)


def test_the_plan_gets_all_it_needs() -> None:
    spec = streams()["payments"]
    found = velocity(
        aggregation_type="sum",
        aggregation_field="amount_cents",
        aggregation_threshold=200_000,
        operator=">",
        group_by=["account_id", "merchant_id"],
        window="10m",
        bounds="[)",
        emit="every",
        cooldown="1h",
        late_policy="skip",
        watermark_delay="10s",
    ).program(spec, Defaults())
    feed = Feed("payments", ("account_id", "merchant_id"), "event_time", velocity().filter, 120_000)
    assert found == Program(
        feed=feed,
        figures=(Figure(feed, "sum", Window(600_000, "[)", include_current=False), "amount_cents", "int"),),
        verdict=Comparison(">", 200_000),
        emission=Emission(every=True, cooldown_ms=3_600_000, delivered=True),
        evidence=Evidence(fields=(), lists=False),
        judge_lateness_ms=10_000,
    )
    assert found.reach_ms == 3_600_000


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({}, None),
        ({"aggregation_field": "rate"}, None),
        ({"aggregation_type": "avg", "aggregation_field": "rate"}, "float"),
        ({"aggregation_type": "max", "aggregation_field": "amount_cents"}, "int"),
        ({"aggregation_type": "distinct_count", "aggregation_field": "merchant_id"}, "code"),
        ({"aggregation_type": "distinct_count", "aggregation_field": "location.country"}, "code"),
    ],
)
def test_how_the_column_is_kept(fields: dict[str, Any], kind: str | None) -> None:
    figure = velocity(**fields).program(streams()["payments"], Defaults()).figure
    assert figure is not None
    assert (figure.column, figure.column_kind) == (fields.get("aggregation_field"), kind)


@pytest.mark.parametrize(
    ("fields", "current"),
    [({}, True), ({"bounds": "[]"}, True), ({"bounds": "[)"}, False), ({"bounds": "[)", "include_current": True}, True),
     ({"include_current": False}, False)],
)  # fmt: skip
def test_whether_the_record_is_in_its_window(fields: dict[str, Any], current: bool) -> None:
    assert velocity(**fields).include_current_resolved is current


@pytest.mark.parametrize(
    ("size", "unit", "ms"), [(10, "s", 10_000), (1.5, "Minutes", 90_000), (250, "ms", 250), (7, "day", 604_800_000)]
)
def test_a_window_in_two_fields(size: float, unit: str, ms: int) -> None:
    found = rule(without(VELOCITY, "window", window_size=size, window_unit=unit))
    assert isinstance(found, VelocityRule)
    assert found.window_ms == ms


@pytest.mark.parametrize(
    ("fields", "path", "words"),
    [
        ({"window": None}, "window", "a window such as 10m"),
        ({"window": 60}, "window", "write the unit: 60s for seconds"),
        ({"window": "0s"}, "window", "longer than 0"),
        ({"window_size": 5}, "window_size", "window alone"),
        ({"window": None, "window_size": 5}, "window_unit", "window_unit with window_size"),
        ({"window": None, "window_unit": "s"}, "window_size", "window_size with window_unit"),
        ({"window": None, "window_size": 0, "window_unit": "s"}, "window_size", "longer than 0"),
        ({"window": None, "window_size": -1, "window_unit": "s"}, "window_size", "longer than 0"),
        ({"window": None, "window_size": 0.1, "window_unit": "ms"}, "window_size", "a whole number of milliseconds"),
        ({"window": None, "window_size": 5, "window_unit": "fortnight"}, "window_unit", "a unit: ms, s"),
        ({"window": None, "window_size": 5, "window_unit": "minuts"}, "window_unit", "did you mean minutes?"),
        ({"aggregation_type": "mean"}, "aggregation_type", "one of count, sum, avg"),
        ({"aggregation_type": "sum"}, "aggregation_field", "the field to take the sum of"),
        ({"aggregation_type": "sum", "aggregation_field": "status"}, "aggregation_field", "use distinct_count"),
        (
            {"aggregation_type": "avg", "aggregation_field": "approved"},
            "aggregation_field",
            "integer or number, for avg",
        ),
        ({"aggregation_type": "max", "aggregation_field": "tags"}, "aggregation_field", "integer or number, for max"),
        ({"aggregation_type": "distinct_count", "aggregation_field": "tags"}, "aggregation_field", "one value"),
        ({"aggregation_field": "amount"}, "aggregation_field", "did you mean amount_cents?"),
        ({"aggregation_threshold": "10"}, "aggregation_threshold", "a number"),
        ({"aggregation_threshold": float("inf")}, "aggregation_threshold", "finite"),
        ({"group_by": ["account_id", "merchant"]}, "group_by[1]", "did you mean merchant_id?"),
        ({"group_by": ["account_id", "account_id"]}, "group_by", "each name once"),
        ({"group_by": ""}, "group_by", "the name of a field"),
        ({"group_by": "tags"}, "group_by", "a field with one value"),
        ({"group_by": "location"}, "group_by", "it holds location.country"),
        ({"operator": "gt"}, "operator", "one of ==, !=, >, >=, <, <="),
        ({"emit": "always"}, "emit", "one of on_crossing, every"),
        ({"bounds": "()"}, "bounds", "one of (], [], [)"),
        ({"cooldown": "soon"}, "cooldown", "a duration such as"),
        ({"description": "{accont_id} pays"}, "description", "did you mean account_id?"),
        ({"description": "{value:>5}"}, "description", "without a format"),
        ({"description": "{value.real}"}, "description", "{value.real}; in braces"),
        ({"description": "{value"}, "description", "write { as {{"),
        ({"description": "{}"}, "description", "in braces one of account_id"),
    ],
)
def test_says_what_is_wrong(fields: dict[str, Any], path: str, words: str) -> None:
    problems = findings_of({**VELOCITY, **fields})
    assert [where for where, _ in problems] == [path]
    assert words in problems[0][1]


KEY = {"account_id": "a1", "merchant_id": 7, "location.country": "NO"}


@pytest.mark.parametrize(
    ("fields", "value", "threshold", "text"),
    [
        ({}, 10, 10, "10 payments by account a1 in 60 s (line: 10)"),
        ({}, 1, 1, "1 payment by account a1 in 60 s (line: 1)"),
        ({"operator": "<="}, 0, 3, "0 payments by account a1 in 60 s (line: <= 3)"),
        (
            {"aggregation_type": "sum", "aggregation_field": "amount_cents", "window": "10m", "operator": ">"},
            205_000,
            200_000,
            "sum of amount_cents 205,000 by account a1 in 10 min (line: > 200,000)",
        ),
        (
            {"aggregation_type": "distinct_count", "aggregation_field": "merchant_id", "group_by": []},
            12,
            10.5,
            "12 different merchant_id in 60 s (line: 10.5)",
        ),
        (
            {"aggregation_type": "avg", "aggregation_field": "rate", "group_by": ["account_id", "location.country"]},
            1234.567,
            0.25,
            "average of rate 1,234.57 by account a1, location.country NO in 60 s (line: 0.25)",
        ),
        ({"description": "{rule_id}: {value} {operator} {threshold}, {count} of {account_id} in {window}"}, 10, 9,
         "burst: 10 >= 9, 10,000 of a1 in 60 s"),
        ({"description": "{{x}} of {merchant_id}", "group_by": "merchant_id"}, 1, 1, "{x} of 7"),
    ],
)  # fmt: skip
def test_the_sentence(fields: dict[str, Any], value: float, threshold: float, text: str) -> None:
    found = velocity(**fields)
    assert found.sentence(value, threshold, found.operator, found.window_ms, KEY, 10_000, {}) == text


def test_a_stream_with_a_plain_name_is_named_in_full() -> None:
    found = rule(ARTICLE[0])
    sentence = found.sentence(10, 10, ">=", 10_000, {"user_id": "u1"}, 10, {})
    assert sentence == "10 records of events.raw by user u1 in 10 s (line: 10)"


def test_a_sentence_takes_few_calls() -> None:
    """Each alert has one. A call takes a tenth of a microsecond or so; how many there are no machine changes."""
    found = velocity()
    calls: list[str] = []

    def called(frame: FrameType, event: str, what: Any) -> None:
        if event in {"call", "c_call"}:
            calls.append(frame.f_code.co_name if event == "call" else what.__name__)

    before = sys.getprofile()
    sys.setprofile(called)
    try:
        found.sentence(10, 10, ">=", 60_000, KEY, 10, {})
    finally:
        sys.setprofile(before)
    assert len(calls) < 150, calls
