"""Rules that read the hits of rules: worked scenes, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from crossline.basics.texts.problems import RefusedError
from crossline.evaluate.alerts.alert import alert_id
from crossline.evaluate.detect import detect, new_state
from crossline.ingest.decode import decode_lines, make_layout
from crossline.plan.compose import compile_all
from crossline.rules.base import Defaults
from crossline.rules.rule_reader import load_rules_text
from crossline.rules.ruleset import RuleSet

from .scenes import START_MS, STREAMS

Body = dict[str, Any]

HOT: Body = {
    "rule_id": "hot",
    "version": 1,
    "rule_type": "velocity",
    "source_topic": "payments",
    "group_by": "merchant",
    "aggregation_type": "count",
    "aggregation_threshold": 3,
    "window": "30s",
    "emit": "every",
    "emit_to_sink": False,
}


def judged(rules: list[Body], records: list[Body], batches: int = 1) -> list[dict[str, Any]]:
    """The alerts, in the order of their rules, then of their records."""
    loaded = load_rules_text(json.dumps(rules), "rules.yaml", STREAMS)
    plans = list(compile_all(RuleSet.from_rules(each.rule for each in loaded), STREAMS, Defaults()).values())
    layout, state, found = make_layout("payments", STREAMS["payments"]), new_state(2), []
    lines = [json.dumps({"id": f"n{n}", "card": "c1", "at": START_MS, **each}) + "\n" for n, each in enumerate(records)]
    at = 0
    for part in range(batches):
        data = "".join(lines[len(lines) * part // batches : len(lines) * (part + 1) // batches]).encode()
        decoded = decode_lines(layout, data, "log", at)
        assert not decoded.dead, decoded.dead
        detection, state = detect(plans, state, decoded.records)
        found += detection.alerts
        at += len(data)
    return sorted(found, key=lambda alert: (alert["rule_id"], int(alert["record_id"][1:])))


@pytest.mark.parametrize("batches", [1, 5])
def test_posts_of_a_hot_hashtag_by_users_of_low_reputation(batches: int) -> None:
    """The article's case: only what is hot and of low reputation (``level``) goes anywhere."""
    low = {"rule_id": "low", "version": 1, "rule_type": "threshold", "source_topic": "rule:hot"}
    low["conditions"] = [{"field": "level", "operator": "<", "value": 0.4}]
    posts = [
        {"merchant": "#a", "level": 0.1, "at": START_MS},
        {"merchant": "#a", "level": 0.9, "at": START_MS + 1000},
        {"merchant": "#b", "level": 0.1, "at": START_MS + 1500},
        {"merchant": "#a", "level": 0.9, "at": START_MS + 2000},  # hot from here on
        {"merchant": "#a", "level": 0.3, "at": START_MS + 3000},
        {"merchant": "#a", "at": START_MS + 4000},
    ]
    alerts = judged([HOT, low], posts, batches)
    assert [(a["rule_id"], a["record_id"], a.get("emit_to_sink", True)) for a in alerts] == [
        ("hot", "n3", False),
        ("hot", "n4", False),
        ("hot", "n5", False),
        ("low", "n4", True),
    ]
    assert alerts[-1]["evidence"]["alert_ids"] == [alerts[1]["alert_id"]]
    assert alerts[-1]["evidence"]["record_ids"] == ["n4"]
    assert alerts[-1]["stream"] == "payments"
    assert alerts[-1]["message"] == "hit of hot where level < 0.4"


def test_a_window_over_hits_of_another_key_and_what_it_reads_of_them() -> None:
    """Two cards hit at one merchant: the alert has the second hit's sum."""
    spent: Body = {**HOT, "rule_id": "spent", "group_by": "card", "aggregation_type": "sum"}
    spent |= {"aggregation_field": "amount", "aggregation_threshold": 100, "severity": "high", "score": 7}
    ring: Body = {**HOT, "rule_id": "ring", "source_topic": "rule:spent", "aggregation_type": "distinct_count"}
    ring |= {"aggregation_field": "card", "aggregation_threshold": 2, "emit_to_sink": True}
    ring["conditions"] = [
        {"field": "hit.value", "operator": ">=", "value": 150},
        {"field": "hit.severity", "operator": "==", "value": "high"},
        {"field": "hit.score", "operator": "==", "value": 7},
        {"field": "hit.version", "operator": "==", "value": 1},
        {"field": "hit.key.card", "operator": "exists"},
    ]
    top: Body = {**HOT, "rule_id": "top", "source_topic": "rule:ring", "group_by": [], "emit_to_sink": True}
    top |= {"aggregation_type": "max", "aggregation_field": "hit.value", "aggregation_threshold": 2}
    records = [
        {"card": "c1", "merchant": "m", "amount": 120, "at": START_MS},
        {"card": "c2", "merchant": "m", "amount": 150, "at": START_MS + 1000},
        {"card": "c1", "merchant": "m", "amount": 40, "at": START_MS + 2000},  # 160: c1 is the second of the ring
        {"card": "c3", "merchant": "x", "amount": 900, "at": START_MS + 3000},
    ]
    alerts = judged([spent, ring, top], records, batches=4)
    assert [(a["rule_id"], a["record_id"], a["key"], a["value"]) for a in alerts] == [
        ("ring", "n2", {"merchant": "m"}, 2),
        ("spent", "n0", {"card": "c1"}, 120),
        ("spent", "n1", {"card": "c2"}, 150),
        ("spent", "n2", {"card": "c1"}, 160),
        ("spent", "n3", {"card": "c3"}, 900),
        ("top", "n2", {}, 2.0),
    ]
    ring_alert = alerts[0]
    assert ring_alert["alert_id"] == alert_id("ring", 1, '{"merchant":"m"}', "n2")
    assert ring_alert["evidence"]["record_ids"] == ["n1", "n2"]
    assert ring_alert["evidence"]["alert_ids"] == [alerts[2]["alert_id"], alerts[3]["alert_id"]]


def test_hits_of_a_shadow_rule_are_for_shadow_rules() -> None:
    shadow = {**HOT, "status": "shadow", "aggregation_threshold": 1}
    any_hit = [{"field": "hit.value", "operator": "exists"}]
    one = {"rule_id": "one", "version": 1, "rule_type": "threshold", "source_topic": "rule:hot", "conditions": any_hit}
    two = {**one, "rule_id": "two", "status": "shadow"}
    alerts = judged([shadow, one, two], [{"merchant": "m"}])
    assert [(alert["rule_id"], alert["kind"]) for alert in alerts] == [("hot", "shadow"), ("two", "shadow")]


def problems(*rules: Body) -> list[tuple[str, str, str, str]]:
    with pytest.raises(RefusedError) as caught:
        load_rules_text(json.dumps(rules), "rules.yaml", STREAMS)
    return [(each.path, each.found, each.expected, each.hint or "") for each in caught.value.problems]


def test_rules_that_read_each_other_are_named() -> None:
    reads = (("a", "b"), ("b", "c"), ("c", "a"))
    ring = [{**HOT, "rule_id": name, "source_topic": f"rule:{read}"} for name, read in reads]
    found = problems(*ring)
    assert [each[:3] for each in found] == [
        ("[0].source_topic", "rule:b reads rule:c reads rule:a reads rule:b", "rules that do not read their own hits"),
        ("[1].source_topic", "rule:c reads rule:a reads rule:b reads rule:c", "rules that do not read their own hits"),
        ("[2].source_topic", "rule:a reads rule:b reads rule:c reads rule:a", "rules that do not read their own hits"),
    ]


def test_a_rule_that_is_not_there_and_fields_that_hits_have_not() -> None:
    over = {**HOT, "rule_id": "over", "source_topic": "rule:hut"}
    wrong = {**HOT, "rule_id": "wrong", "source_topic": "rule:hot", "group_by": "hit.valu"}
    keyed = {**HOT, "rule_id": "keyed", "source_topic": "rule:hot", "group_by": "hit.key.card"}
    assert problems(HOT, over, wrong, keyed) == [
        ("[1].source_topic", '"rule:hut"', "rule: and the id of a rule", "did you mean hot?"),
        ("[2].group_by", '"hit.valu"', "a field of stream rule:hot", "did you mean hit.value?"),
        ("[3].group_by", '"hit.key.card"', "a field of stream rule:hot", "did you mean hit.key.merchant?"),
    ]
