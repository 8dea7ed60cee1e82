"""Rule and stream files, right ones, changed in their structure: they are taken or refused with a line, never more."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crossline.basics.streams.schema import load_streams
from crossline.basics.texts.problems import RefusedError
from crossline.rules.rule_reader import load_rules_text
from crossline.rules.ruleset import RuleSet
from crossline.settings.config import load_pipeline
from drawing import one_of_these

from .rulekit import THRESHOLD, VELOCITY, streams

STREAMS = streams()
CONDITIONS = [
    {"field": "status", "operator": "in", "value": ["a", "b"]},
    {"any": [{"field": "rate", "operator": "between", "value": [1, 2.5]}, {"field": "tags", "operator": "exists"}]},
    {"not": {"field": "status", "operator": "in", "value": {"list": "x"}}},
    {"field": "merchant_id", "operator": "==", "value": {"field": "amount_cents"}},
    {"field": "status", "operator": "regex", "value": "^a+$"},
]
FULL = {
    "status": "active",
    "sink_topic": "alerts.cards",
    "severity": "high",
    "score": 10,
    "action": "block",
    "description": "{rule_id} {account_id}",
    "owner": "risk",
    "tags": ["a"],
    "effective_from": "2026-01-01T00:00:00Z",
    "time_mode": "event_time",
    "timestamp_field": "event_time",
    "watermark_delay": 3,
    "allowed_lateness": "1m",
    "late_policy": "skip",
    "conditions": CONDITIONS,
}
WINDOWED = {
    "operator": ">",
    "aggregation_type": "sum",
    "aggregation_field": "amount_cents",
    "group_by": ["account_id", "merchant_id"],
    "bounds": "[]",
    "include_current": True,
    "emit": "every",
    "emit_mode": "window",
    "cooldown": "5m",
    "emit_to_sink": False,
}
RULES = [{**THRESHOLD, **FULL}, {**VELOCITY, **FULL, **WINDOWED}, {**VELOCITY, "rule_id": "b"}]
PIPELINE = {
    "schema_version": 1,
    "name": "p",
    "streams": {
        "s": {
            "format": "json",
            "id": "id",
            "event_time": {"field": "at", "unit": "ms"},
            "fields": {"id": "string", "at": "integer", "tags": ["string?"], "place": {"lat": "number?"}},
        }
    },
    "sources": {
        "s": {"kind": "kafka", "brokers": "b:1", "topic": "t", "security": {"protocol": "ssl"}, "options": {"a": 1}}
    },
    "rules": {"kind": "directory", "path": "rules"},
    "lists": {"kind": "directory", "path": "lists"},
    "sinks": [{"kind": "kafka", "brokers": "b:1", "topic": "t", "topics": ["u"]}, {"kind": "jsonl", "path": "o"}],
    "defaults": {"time_mode": "event_time", "watermark_delay": "1s"},
    "engine": {"trigger": "0s", "shards": 3, "max_batch_bytes": 10},
}
# Written as they stand, which JSON could not say.
TOKENS = [
    *("null", "~", "true", "0", "-1", "1e400", "-0.0", ".nan", ".inf", "NaN", "9" * 39, "9" * 60, "1e-320"),
    *(
        "2026-01-01",
        "2026-13-45T00:00:00Z",
        "!!binary aGk=",
        "!!set {a}",
        "0x1F",
        "\u0661\u0660m",
        "10m",
        '""',
        "'\\0'",
    ),
    *("[]", "{}", "[[]]", "[{}]", "{a: 1}", '[">"]', '{">": ">"}', "[null]", '"{"', '"a\\0b"', '"\\ud83d\\ude00"'),
    *("[1, a, null, [1]]", "{field: [a]}", "{list: {a: b}}", "{field: a, operator: [x], value: {}}", '"\\u2028"'),
]
Place = tuple[str | int, ...]


def places(value: Any, at: Place = ()) -> list[Place]:
    below = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [at, *(place for step, each in below for place in places(each, (*at, step)))]


@st.composite
def mutated(draw: st.DrawFn, base: Any) -> str:
    """``base`` as text with some values replaced, left out, or there twice."""
    data = json.loads(json.dumps(base))
    tokens: list[str] = []
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.sampled_from(places(data)[1:]))
        inside = data
        for step in place[:-1]:
            inside = inside[step]
        match draw(one_of_these("replace", "replace", "replace", "drop", "twice", "rename")):
            case "replace":
                tokens.append(draw(st.sampled_from(TOKENS)))
                inside[place[-1]] = f"@{len(tokens) - 1}@"
            case "drop":
                del inside[place[-1]]
            case "twice":
                inside[place[-1]] = [inside[place[-1]], inside[place[-1]]]
            case _ if isinstance(inside, dict):
                inside[draw(one_of_these("x", "", "0", "\0", "a.b", "..", "операция"))] = inside.pop(place[-1])
            case _:
                pass
        if len(places(data)) < 2:
            break
    text = json.dumps(data)
    for number, token in enumerate(tokens):
        text = text.replace(f'"@{number}@"', token)
    return text


def check_refusal(refused: RefusedError) -> None:
    assert not refused.faults, refused
    assert min(problem.line for problem in refused.problems) >= 1


@settings(max_examples=200, deadline=None)
@given(mutated(RULES))
def test_a_rule_file(text: str) -> None:
    try:
        loaded = load_rules_text(text, "r.yaml", STREAMS, ["x"], ["alerts.cards"])
    except RefusedError as refused:
        check_refusal(refused)
    else:
        found = RuleSet.from_rules(item.rule for item in loaded)
        assert RuleSet.from_json(found.to_json()) == found


@settings(max_examples=120, deadline=None)
@given(mutated(PIPELINE))
def test_a_pipeline_file(text: str) -> None:
    def read(name: str) -> str:
        raise FileNotFoundError(2, "No such file", name)

    try:
        load_pipeline(text, "p.yaml", read)
    except RefusedError as refused:
        check_refusal(refused)


@settings(max_examples=200, deadline=None)
@given(mutated({"schema_version": 1, "streams": PIPELINE["streams"]}))
def test_a_stream_file(text: str) -> None:
    try:
        load_streams(text, "s.yaml")
    except RefusedError as refused:
        check_refusal(refused)


@pytest.mark.parametrize("operator", ['[">"]', "{a: b}", "[[]]", "{}"])
def test_an_operator_that_is_a_list_or_a_mapping(operator: str) -> None:
    envelope = "rule_id: a\nversion: 1\nrule_type: threshold\nsource_topic: payments\n"
    text = f"{envelope}conditions:\n  - field: status\n    operator: {operator}\n    value: 1\n"
    with pytest.raises(RefusedError) as caught:
        load_rules_text(text, "r.yaml", STREAMS)
    assert [(problem.line, problem.path) for problem in caught.value.problems] == [(7, "conditions[0].operator")]
    assert not caught.value.faults
