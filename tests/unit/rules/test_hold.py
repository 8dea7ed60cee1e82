"""What may hold, and what holds become."""

from __future__ import annotations

import json
from typing import Any

import pytest

from crossline.basics.streams.schema import load_streams
from crossline.basics.texts.problems import RefusedError
from crossline.basics.texts.yamltext import load_yaml
from crossline.basics.times import FOREVER_MS
from crossline.rules.base import Defaults
from crossline.rules.composition import Sources
from crossline.rules.holds.hold import holds_of
from crossline.rules.registry import rule_types
from crossline.rules.rule_reader import load_rules_text
from crossline.rules.ruleset import RuleSet

STREAM = """\
schema_version: 1
streams:
  payments:
    id: id
    event_time: {field: at, unit: ms}
    fields: {id: string, account_id: string, amount: integer, at: integer}
"""
BURST: dict[str, Any] = {
    "rule_id": "burst",
    "version": 1,
    "rule_type": "velocity",
    "source_topic": "payments",
    "window": "1m",
    "group_by": "account_id",
    "aggregation_type": "count",
    "aggregation_threshold": 3,
    "hold": "30m",
}
STREAMS = load_streams(STREAM, "stream.yaml")


def refused(body: dict[str, Any]) -> str:
    return refused_with(body)


def refused_with(*bodies: dict[str, Any]) -> str:
    with pytest.raises(RefusedError) as raised:
        load_rules_text(json.dumps(list(bodies)), "rules.yaml", STREAMS)
    return str(raised.value)


def test_a_hold_needs_a_key_alerts_and_a_time() -> None:
    body = {name: value for name, value in BURST.items() if name != "group_by"}
    assert "found 30 min; expected a key that it holds: group_by, or entity" in refused(body)
    assert "found 30 min; expected no hold beside emit_to_sink: false" in refused({**BURST, "emit_to_sink": False})
    assert "found no time; expected a time longer than 0" in refused({**BURST, "hold": "0s"})
    of_hits = {**BURST, "rule_id": "again", "source_topic": "rule:burst", "group_by": "hit.key.account_id"}
    plain = {name: value for name, value in BURST.items() if name != "hold"}
    assert "hit.key.account_id is one of hits" in refused_with(plain, of_hits)
    threshold = {name: BURST[name] for name in ("rule_id", "version", "source_topic", "hold")}
    conditions = [{"field": "amount", "operator": ">", "value": 9}]
    assert "expected a key that it holds" in refused({**threshold, "rule_type": "threshold", "conditions": conditions})


@pytest.mark.parametrize("name", [name for name, kind in rule_types().items() if kind.example])
def test_every_type_that_has_a_key_may_hold(name: str) -> None:
    """By the key that its alerts have."""
    kind = rule_types()[name]
    body = load_yaml(kind.example, "rule.yaml").data
    assert isinstance(body, dict)
    keys = kind.keys_written(body)
    if name == "correlation":
        keys = body["correlation_key"]
    if keys is None:
        assert "expected a key that it holds" in refused_alone({**body, "hold": "30m"})
        return
    rule = kind.model_validate({**body, "hold": "30m"}, strict=False) if name != "model" else None
    if rule is not None:
        assert list(rule.key_of_alerts) == ([keys] if isinstance(keys, str) else list(keys))


def refused_alone(body: dict[str, Any]) -> str:
    with pytest.raises(RefusedError) as raised:
        load_rules_text(json.dumps(body), "rules.yaml")
    return str(raised.value)


def spans_of(*bodies: dict[str, Any]) -> list[tuple[str, int, int, int]]:
    rules = RuleSet.from_rules(each.rule for each in load_rules_text(json.dumps(list(bodies)), "rules.yaml", STREAMS))
    found = holds_of(rules, Sources(STREAMS, rules.heads), Defaults(watermark_delay_ms=5_000))
    return [(v.rule.rule_id, v.rule.version, v.effective_from_ms, v.effective_until_ms) for v in found]


def test_a_version_that_was_replaced_holds_until_its_last_alert_is_over() -> None:
    """30 min and the lateness of decisions after it was replaced at 1,000; not while no version is active."""
    first = {**BURST, "effective_from": 0}
    second = {**BURST, "version": 2, "hold": "1m", "effective_from": 1_000}
    over_ms = 1_000 + 30 * 60_000 + 5_000
    name = "hold:burst:payments"
    assert spans_of(first) == [(name, 1, 0, FOREVER_MS)]
    assert spans_of(first, second) == [(name, 1, 0, over_ms), (name, 2, 1_000, FOREVER_MS)]
    shadow = {**second, "status": "shadow", "effective_from": 5_000}
    again = {**second, "effective_from": 9_000}
    assert spans_of(first, second, shadow, again) == [
        (name, 1, 0, 5_000),
        (name, 1, 9_000, over_ms),
        (name, 2, 1_000, 5_000),
        (name, 2, 9_000, FOREVER_MS),
    ]
    assert spans_of(first, {**second, "status": "paused"}) == [(name, 1, 0, 1_000)]
    assert spans_of({**first, "status": "shadow"}) == []
