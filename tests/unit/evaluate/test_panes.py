"""Rules with a resolution, from YAML to alerts: in a stream with restarts and any cuts, against the naive twin."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from crossline.basics import wire
from crossline.basics.streams.schema import load_streams
from crossline.evaluate.alerts.alert import alerts_of
from crossline.evaluate.bounds import Bounds
from crossline.evaluate.shard import ShardState, judge
from crossline.evaluate.state_log import apply_delta, encode_delta
from crossline.ingest.decode import decode_lines, make_layout
from crossline.ingest.route.partitioner import Chunk, route
from crossline.plan.compile import compile_stream, layout_of
from crossline.plan.spaces import KeySpacePlan, PaneSpacePlan
from crossline.rules.base import Defaults
from crossline.rules.rule_reader import load_rules_text
from crossline.rules.ruleset import RuleSet
from oracle import naive
from oracle.naive import naive_detect

SPEC = load_streams(
    """\
schema_version: 1
streams:
  payments:
    id: id
    event_time: {field: at}
    ingest_time: {field: came}
    fields: {id: string, account: string, shop: string, amount: integer, rate: number, at: integer, came: integer}
""",
    "stream.yaml",
)["payments"]
COMMON: dict[str, Any] = {"version": 1, "source_topic": "payments"}
VELOCITY = {**COMMON, "rule_type": "velocity", "group_by": "account", "window": "30m", "resolution": "10m"}
HOUR: dict[str, Any] = {"group_by": "account", "window": "1h", "resolution": "10m"}
RULES: list[dict[str, Any]] = [
    {**VELOCITY, "rule_id": "count", "aggregation_type": "count", "aggregation_threshold": 9},
    {
        **VELOCITY,
        "rule_id": "sum",
        "aggregation_type": "sum",
        "aggregation_field": "amount",
        "aggregation_threshold": 400,
        "bounds": "[)",
        "cooldown": "5m",
        "late_policy": "skip",
    },
    {
        **VELOCITY,
        "rule_id": "shops",
        "aggregation_type": "distinct_count",
        "aggregation_field": "shop",
        "aggregation_threshold": 5,
        "conditions": [{"field": "amount", "operator": ">", "value": 20}],
    },
    {
        **COMMON,
        "rule_id": "mixed",
        "rule_type": "formula",
        "figures": {
            "usual": {"avg": "rate", **HOUR, "include_current": False},
            "now": {"count": True, "group_by": "account", "window": "5m"},
            "before": {"count": True, "group_by": "account", "window": "20m", "resolution": "10m", "delay": "15m"},
        },
        "when": "now >= 2 and rate > usual and before < 6",
        "emit": "every",
    },
    {**VELOCITY, "rule_id": "arrivals", "aggregation_type": "count", "aggregation_threshold": 8}
    | {"time_mode": "processing_time"},
]


def mixed(values: Any) -> bool:
    """``when`` of the rule of that name, as the twin has it: what is missing makes a comparison false."""
    usual = values["usual"]
    return values["now"] >= 2 and usual is not None and values["rate"] > usual and values["before"] < 6


@pytest.fixture(autouse=True)
def _twin_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    when = next(each["when"] for each in RULES if each["rule_id"] == "mixed")
    monkeypatch.setitem(naive.WHENS, when, mixed)
    monkeypatch.setitem(naive.FIRST, when, lambda values: values["now"])
    monkeypatch.setattr(naive, "FIELDS", ["rate"])
    monkeypatch.setattr(naive, "FLOATS", ["rate"])


def rule_set(bodies: list[dict[str, Any]]) -> RuleSet:
    return RuleSet.from_rules(each.rule for each in load_rules_text(json.dumps(bodies), "rules.json"))


def records(seed: int) -> list[dict[str, Any]]:
    drawn, came, made = random.Random(seed), 1_700_000_000_000, []
    for number in range(150):
        came += drawn.choice([0, 5_000, 30_000, 120_000, 400_000])
        fields = {
            "account": drawn.choice(["a", "b"]),
            "shop": f"s{drawn.randrange(8)}",
            "rate": drawn.randrange(40) / 8,
        }
        times = {"at": came - drawn.choice([0, 0, 0, 20_000, 60_000, 120_000, 200_000]), "came": came}
        made.append({"id": f"r{number}", "amount": drawn.randrange(100), **fields, **times})
        if drawn.random() < 0.1:  # again, on time or too late
            came += drawn.choice([1_000, 300_000])
            made.append({**drawn.choice(made[-5:]), "came": came})
    return made


@pytest.mark.parametrize("seed", range(6))
def test_the_same_as_the_twin_over_cuts_and_restarts(seed: int) -> None:
    plan = compile_stream(rule_set(RULES), "payments", SPEC, Defaults())
    given, drawn = records(seed), random.Random(seed)
    state, blobs, found, duplicates, at = ShardState(), [], [], [], 0
    for number in range(1000):
        part = given[at : at + drawn.randrange(1, 30)]
        if not part:
            break
        lines = b"".join(json.dumps(record).encode() + b"\n" for record in part)
        decoded = decode_lines(make_layout("payments", SPEC), lines, "log", 0)
        assert decoded.dead == []
        routed = route(plan, decoded.records, Chunk("log", number, "log"), 1, {})
        output = judge([plan], state, [(p.meta, p.arrays) for p in routed], Bounds())
        found += alerts_of([plan], output.hits, 0)
        duplicates += [each.record_id for each in output.duplicates]
        blobs.append(encode_delta(number, state, output.deltas))
        at += len(part)
        if drawn.random() < 0.3:
            state = ShardState()
            for blob in blobs:
                apply_delta([plan], state, *wire.decode(blob, "a test"), Bounds())
    twins = [{**r, "_id": r["id"], "_event_ms": r["at"], "_ingest_ms": r["came"]} for r in given]
    expected = naive_detect(RULES, twins)
    assert len(expected.hits) > 10
    reported = {(a["alert_id"], a["value"], a["evidence"]["count"], tuple(a["evidence"]["record_ids"])) for a in found}
    assert reported == {(hit.alert_id, hit.value, hit.count, hit.evidence) for hit in expected.hits}
    assert len(found) == len(expected.hits)
    assert duplicates == [twins[position]["_id"] for position in expected.duplicates]


def test_what_an_alert_says_of_panes() -> None:
    body = {**COMMON, "rule_id": "high", "rule_type": "formula", "emit": "every", "when": "high > 0 and shops > 0"}
    body["figures"] = {
        "high": {"quantile": {"field": "amount", "q": 0.5}, **HOUR},
        "shops": {"distinct_count": "shop", **HOUR},
    }
    plan = compile_stream(rule_set([body, RULES[2], RULES[0]]), "payments", SPEC, Defaults())
    lines = b"".join(
        json.dumps({**record, "id": f"n{k}", "account": "a", "amount": 100 + k, "shop": f"s{k}"}).encode() + b"\n"
        for k, record in enumerate([{**records(0)[0]} for _ in range(9)])
    )
    routed = route(
        plan, decode_lines(make_layout("payments", SPEC), lines, "log", 0).records, Chunk("log", 0, "log"), 1, {}
    )
    hits = judge([plan], ShardState(), [(p.meta, p.arrays) for p in routed], Bounds()).hits
    alerts = {(a["rule_id"], a["record_id"]): a["evidence"] for a in alerts_of([plan], hits, 0)}
    figures = alerts["high", "n8"]["figures"]
    assert (figures["high"]["resolution"], figures["high"]["error"]) == ("10 min", 0.0078)
    assert (figures["shops"]["resolution"], figures["shops"]["error"], figures["shops"]["value"]) == (
        "10 min",
        0.0163,
        9,
    )
    assert figures["high"]["value"] == pytest.approx(104, rel=0.0078)
    assert {k: alerts["shops", "n4"][k] for k in ("resolution", "error", "record_ids")} == {
        "resolution": "10 min",
        "error": 0.0163,
        "record_ids": ["n4"],
    }
    assert "error" not in alerts["count", "n8"]


def test_state_stores_are_those_of_a_resolution_and_of_what_panes_keep() -> None:
    """A rule that comes later shares the panes of others where they keep what it needs, and has its own where not."""
    first = rule_set(RULES[:2])
    before = compile_stream(first, "payments", SPEC, Defaults())
    (state_store,) = (each.state_store for each in before.state_stores if each.state_store.resolution_ms)
    assert (state_store.resolution_ms, state_store.retention_ms, state_store.known_ms) == (600_000, 2_400_000, 120_000)
    more = [
        {**RULES[1], "rule_id": "average", "aggregation_type": "avg"},
        {**RULES[1], "rule_id": "most", "aggregation_type": "max"},
        {**RULES[0], "rule_id": "finer", "resolution": "5m"},
        {**RULES[0], "rule_id": "exact", "resolution": None},
    ]
    both = rule_set([*RULES[:2], *more])
    after = compile_stream(both, "payments", SPEC, Defaults(), layout_of([before]))
    by_rule = {line.rule_id: each for each in after.state_stores for line in each.plan.judging}
    assert by_rule["count"].state_store == by_rule["sum"].state_store == by_rule["average"].state_store == state_store
    others = [by_rule[name].state_store.name for name in ("count", "most", "finer", "exact")]
    assert len(set(others)) == 4, "each has a state store of its own"
    assert isinstance(by_rule["count"].plan, PaneSpacePlan)
    assert isinstance(by_rule["exact"].plan, KeySpacePlan)
