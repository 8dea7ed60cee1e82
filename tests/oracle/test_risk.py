"""Risk scores of entities: the twin's, which adds up the scores of all hits anew at each record, over any cuts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawing import one_of_these

from .composed import composed_detect
from .conditions import holds, lists_at
from .corrected import standing_in_order
from .fastpath import FastPath, plans_of, stream_spec
from .naive import naive_detect, running_max_ingest
from .rule_versions import read_snapshot
from .strategies import LISTS, START_MS, STREAM, Body, Record, records, rule_sets
from .test_corrections import BUSY, WITHIN
from .test_detect_equals_naive import DEEP, many, run, shapes, with_ingest

some = settings(many, max_examples=1500 if DEEP else 20)
HALF_MS = 3000
ALLOWED_MS = 4000
RISKY: Body = {
    "rule_id": "risky",
    "version": 1,
    "rule_type": "formula",
    "source_topic": STREAM,
    "figures": {"risk": {"risk": True, "group_by": "account", "half_life": "3s"}},
    "when": "risk >= -1000",
    "value": "risk",
    "emit": "every",
    "watermark_delay": "1s",
    "allowed_lateness": "4s",
}

Added = tuple[str, int, int]  # id of the hit, the place of its record, its score


def scored(bodies: Sequence[Body]) -> list[Body]:
    """Each rule with a score of its own, and none whose hits are known later than their records."""
    ids = sorted({body["rule_id"] for body in bodies})
    return [{**body, "score": 7 + 31 * ids.index(body["rule_id"])} for body in bodies if body["rule_type"] != "absence"]


def very_late(bodies: Sequence[Body], made: Sequence[Record]) -> list[Added]:
    """What the rules that keep nothing say of records that are too late for them."""
    found = []
    for rule in read_snapshot([body for body in bodies if body["rule_type"] in {"threshold", "list"}], {}):
        for place, record in enumerate(made):
            late = rule.event_time and record["_ingest_ms"] - record["_event_ms"] > rule.allowed_lateness_ms
            live = rule.status == "active" and rule.from_ms <= record["_ingest_ms"] < rule.until_ms
            meets = holds(rule.conditions, record, lists_at(LISTS, record["_ingest_ms"]))
            if late and live and meets and rule.late_policy != "skip":
                (score, *_) = (body["score"] for body in bodies if body["rule_id"] == rule.rule_id)
                found.append((f"{rule.rule_id} {rule.version} {record['_id']}", place, score))
    return found


def on_time(bodies: Sequence[Body], made: Sequence[Record]) -> list[tuple[str, Added]]:
    """The hits of active rules, each with its rule."""
    scores = {body["rule_id"]: body["score"] for body in bodies}
    keyless = {body["rule_id"] for body in bodies if body["rule_type"] in {"threshold", "list"}}
    found = []
    for hit in composed_detect(bodies, made, lists=LISTS).hits:
        name = f"{hit.rule_id} {hit.version} {hit.record_id}" if hit.rule_id in keyless else hit.alert_id
        if hit.kind != "shadow":
            found.append((hit.rule_id, (name, hit.position, scores[hit.rule_id])))
    return found


def risk_at(
    place: int, made: Sequence[Record], added: Sequence[Added], half_ms: int = HALF_MS, kept: int = 20
) -> float:
    """The scores of hits at records of its account that came before it and happened no later, each once."""
    worth: dict[str, float] = {}
    record = made[place]
    for name, hit_place, score in sorted(added, key=lambda each: each[1]):
        hit = made[hit_place]
        age_ms = record["_event_ms"] - hit["_event_ms"]
        if hit.get("account") == record["account"] and hit_place < place:
            worth.setdefault(name, score * 2.0 ** (-age_ms / half_ms) if 0 <= age_ms < kept * half_ms else 0.0)
    return math.fsum(worth.values())


def judged(made: Sequence[Record]) -> list[int]:
    """The places of the records that the rule judges, of copies the first."""
    first: dict[tuple[str, str], int] = {}
    for place, record in enumerate(made):
        late = record["_ingest_ms"] - record["_event_ms"] > ALLOWED_MS
        if record.get("account") is not None and not late:
            first.setdefault((record["_id"], record["account"]), place)
    return list(first.values())


def values_of_rule(path: FastPath, rule_id: str = "risky") -> dict[str, Any]:
    return {alert["record_id"]: alert["value"] for alert in path.alerts if alert["rule_id"] == rule_id}


def close(expected: dict[str, float]) -> dict[str, Any]:
    return {name: pytest.approx(value, rel=1e-9, abs=1e-9) for name, value in expected.items()}


OVER: Body = {
    "rule_id": "over",
    "version": 1,
    "rule_type": "velocity",
    "source_topic": "rule:r0",
    "group_by": "device",
    "window": "5s",
    "aggregation_type": "count",
    "aggregation_threshold": 1,
    "score": 3,
}


@some
@given(st.data(), rule_sets(3), records(), st.booleans())
def test_the_hits_of_any_rules(data: st.DataObject, rules: list[Body], made: list[Record], ingest_column: bool) -> None:
    """Of all rules, those of rules that read hits among them, and of named ones; late ones and very late ones too."""
    if not ingest_column:
        made = with_ingest(made, running_max_ingest([record["_event_ms"] for record in made]))
    rules = scored(rules)
    rules += [OVER] if any(body["rule_id"] == "r0" for body in rules) else []
    named = data.draw(st.lists(st.sampled_from(ids), min_size=1, unique=True)) if (ids := _ids(rules)) else []
    figure = {**RISKY["figures"]["risk"], "risk": named}
    readers = [RISKY, *([{**RISKY, "rule_id": "some", "figures": {"risk": figure}}] if named else [])]
    shape = data.draw(shapes(len(made)))
    path = FastPath.of(plans_of([*rules, *readers], stream_spec(ingest_column=ingest_column), {}), shape.shards)
    run(path, shape, made, ["log"] * len(made), data.draw(st.integers(1, 2)))
    hits = on_time(rules, made)
    for reader, of in zip(readers, (ids, named), strict=False):
        added = [each for rule_id, each in hits if rule_id in of]
        added += very_late([body for body in rules if body["rule_id"] in of], made)
        expected = {made[place]["_id"]: risk_at(place, made, added) for place in judged(made)}
        assert values_of_rule(path, reader["rule_id"]) == close(expected)


def _ids(bodies: Sequence[Body]) -> list[str]:
    return sorted({body["rule_id"] for body in bodies})


@st.composite
def disordered(draw: st.DrawFn) -> list[Record]:
    """Records of one account, or two, of which many come late, so that hits are taken back."""
    made: list[Record] = []
    for number in range(draw(st.integers(3, 12))):
        ingest_ms = START_MS + 700 * number - 700 * draw(st.integers(0, 1))
        times = {"_ingest_ms": max([ingest_ms, *(each["_ingest_ms"] for each in made)])}
        times["_event_ms"] = times["_ingest_ms"] - draw(one_of_these(0, 0, 500, 1500, 3500, 9000))
        account = draw(one_of_these("a", "a", "a", "b"))
        made.append({"_id": f"t{number}", "account": account, "amount": draw(st.integers(0, 4)), "device": 1, **times})
    return made


@settings(many, max_examples=500 if DEEP else 25)
@given(st.data(), st.lists(st.sampled_from(BUSY), min_size=1, max_size=2, unique_by=repr), disordered())
def test_what_is_taken_back_counts_no_longer(data: st.DataObject, of: list[Body], made: list[Record]) -> None:
    """At each record those hits count that stood when it came."""
    rules = scored([{**body, **WITHIN, "rule_id": f"r{n}", "version": 1} for n, body in enumerate(of)])
    shape = data.draw(shapes(len(made)))
    path = FastPath.of(plans_of([*rules, RISKY], stream_spec(ingest_column=True), {}), shape.shards)
    run(path, shape, made, ["log"] * len(made))
    by_id = {record["_id"]: place for place, record in enumerate(made)}
    scores = {body["rule_id"]: body["score"] for body in rules}

    def risk(place: int) -> float:
        standing = standing_in_order(lambda ordered: naive_detect(rules, ordered, lists=LISTS), made[:place])
        return risk_at(place, made, [(hit[3], by_id[hit[2]], scores[hit[0]]) for hit in standing])

    assert values_of_rule(path) == close({made[place]["_id"]: risk(place) for place in judged(made)})
