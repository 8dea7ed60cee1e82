"""Decisions, however records, keys and batches are spread: what the naive twin says, and the same in every runner."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any
from unittest import mock

import orjson
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crossline.backtest import in_process
from crossline.backtest.backtest import BacktestSpec
from crossline.basics.times import format_instant
from crossline.io.sinks.decisions import Decisions
from crossline.rules.base import Defaults
from crossline.rules.policy.policy import Deciding, load_policy

from .decisions import ACTIONS, SEVERITIES, WHENS, ExpectedDecision, naive_decisions
from .logged import LoggedJudge, decided
from .naive import naive_detect, running_max_ingest
from .strategies import LISTS, Body, Record, records, rule_sets, wire_record
from .test_detect_equals_naive import DEEP, with_ingest
from .test_runners import judged_of, outcomes, split

WATERMARK = {"watermark_delay": "2s", "allowed_lateness": "5s"}
DEFAULTS = Defaults("event_time", 2_000, 5_000)
WEIGHTS = st.fixed_dictionaries(
    {},
    optional={
        "action": st.sampled_from(ACTIONS),
        "score": st.sampled_from([0, 10, 40, 50, 100]),
        "severity": st.sampled_from(SEVERITIES),
        "tags": st.sampled_from([[], ["cash"], ["web", "cash"]]),
    },
)
BRANCH = st.fixed_dictionaries({"when": st.sampled_from(list(WHENS)), "decision": st.sampled_from(ACTIONS)})
BAND = st.fixed_dictionaries({"from": st.sampled_from([0, 10, 50, 90, 150]), "decision": st.sampled_from(ACTIONS)})
POLICIES = st.fixed_dictionaries(
    {"schema_version": st.just(1), "version": st.integers(1, 3)},
    optional={
        "decide": st.lists(BRANCH, max_size=3),
        "bands": st.lists(BAND, max_size=3, unique_by=lambda band: band["from"]),
        "score": st.sampled_from(["sum", "max"]),
    },
)


def weighted(rules: list[Body], weights: list[Body], silent: int) -> list[Body]:
    """``rules`` with what hits of them ask for; a version keeps its body, and some versions only feed others."""
    named: dict[tuple[str, int], Body] = {}
    for body in rules:
        more = named.setdefault((body["rule_id"], body["version"]), dict(weights[len(named) % len(weights)]))
        if body["rule_type"] not in {"threshold", "list"} and len(named) == silent:
            more["emit_to_sink"] = False
    return [{**body, **named[body["rule_id"], body["version"]]} for body in rules]


def comparable(decision: dict[str, Any]) -> ExpectedDecision:
    return ExpectedDecision(
        decision["decision_id"],
        decision["record_id"],
        decision["decision"],
        decision["score"],
        tuple(_reason(each) for each in decision["reasons"]),
        round(datetime.fromisoformat(decision["ingest_time"]).timestamp() * 1000),
    )


def _reason(body: Body) -> tuple[str, int, str | None, bool]:
    assert body.get("standing", True) is True, "a rule that does not stand has no reason"
    return body["rule_id"], body["rule_version"], body["alert_id"], "standing" in body


def with_right_columns(decisions: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The decisions, after a look at their columns: they are what the JSON says."""
    if isinstance(decisions, Decisions):
        found, bodies = decisions.columns, [json.loads(line) for line in decisions.columns.lines]
        assert [each.decode() for each in found.ids] == [body["decision_id"] for body in bodies]
        assert [each.decode() for each in found.record_ids] == [body["record_id"] for body in bodies]
        assert found.counts() == Counter(body["decision"] for body in bodies)
        for number, body in enumerate(bodies):
            head = found.heads[found.head[number]]._asdict()
            assert head == {"revises": None, "because": None, "sink_topic": None} | {
                name: body[name] for name in head if name in body
            }
            if number in found.values:
                assert found.values[number] == body
            else:
                assert all(each.get("standing") and not each.get("held_by") for each in body["reasons"])
                assert body["revision"] == 0
                assert format_instant(int(found.event_ms[number])) == body["event_time"]
    return list(decisions)


def deciding(judged: BacktestSpec, policy: Body, **more: Any) -> BacktestSpec:
    read = load_policy(yaml.safe_dump(policy), "policy.yaml")
    return replace(judged, defaults=DEFAULTS, deciding=Deciding(read, **more))


@settings(
    max_examples=400 if DEEP else 12,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(
    rule_sets(),
    st.lists(WEIGHTS, min_size=1, max_size=5),
    st.integers(0, 3),
    POLICIES,
    records(),
    st.booleans(),
    st.booleans(),
    st.sampled_from([(1, 1), (2, 300), (3, 2_000), (5, 1_000_000)]),
)
def test_decisions_are_what_the_twin_says_and_cuts_do_not_matter(
    rules: list[Body],
    weights: list[Body],
    silent: int,
    policy: Body,
    made: list[Record],
    ingest_column: bool,
    every: bool,
    spread: tuple[int, int],
) -> None:
    if not ingest_column:
        made = with_ingest(made, running_max_ingest([record["_event_ms"] for record in made]))
    rules = weighted(rules, weights, silent)
    result = naive_detect(rules, made, defaults=WATERMARK, lists=LISTS)
    wanted = naive_decisions(policy, rules, result, made, WATERMARK, every=every)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = split([orjson.dumps(wire_record(record)) + b"\n" for record in made], folder, 1)
        judged = deciding(judged_of(rules, paths, ingest_column=ingest_column), policy, every=every)
        whole, cut = (
            [each for outcome in outcomes(judged, folder, *each) for each in with_right_columns(outcome.decisions)]
            for each in ((1, 1_000_000), spread)
        )
        logged = decided(judged, folder, *spread, lambda source: LoggedJudge(source, folder / "state"))
    assert [comparable(each) for each in whole] == wanted
    for each in (*whole, *cut):
        del each["decided_at"]
    assert cut == whole
    assert logged == whole, "from the log alone, after each batch"


RULES: list[Body] = [
    {
        "rule_id": "often",
        "version": 1,
        "rule_type": "velocity",
        "source_topic": "payments",
        "window": "10s",
        "group_by": "account",
        "aggregation_type": "count",
        "aggregation_threshold": 2,
        "emit": "every",
        "action": "review",
        "score": 30,
    },
    {
        "rule_id": "large",
        "version": 1,
        "rule_type": "threshold",
        "source_topic": "payments",
        "conditions": [{"field": "amount", "operator": ">=", "value": 2}],
        "action": "step_up",
        "score": 40,
    },
    {
        "rule_id": "trial",
        "version": 1,
        "rule_type": "threshold",
        "source_topic": "payments",
        "conditions": [{"field": "account", "operator": "exists"}],
        "action": "block",
        "score": 100,
        "status": "shadow",
    },
]


def test_a_backtest_in_processes_says_the_same(tmp_path: Path) -> None:
    made, paths = traffic(tmp_path)
    policy = {"schema_version": 1, "version": 4, "bands": [{"from": 60, "decision": "block"}]}
    for every in (False, True):
        result = naive_detect(RULES, made, defaults=WATERMARK)
        wanted = naive_decisions(policy, RULES, result, made, WATERMARK, every=every)
        judged = deciding(judged_of(RULES, paths, ingest_column=False), policy, every=every)
        with mock.patch.object(in_process, "BATCH_BYTES", 1_500):
            run = in_process.backtest(judged, tmp_path / "a", decisions=tmp_path / "d", processes=2)
        found = [comparable(json.loads(line)) for line in (tmp_path / "d").read_text().splitlines()]
        assert found == wanted
        assert {each.decision for each in found} == {"allow", "block"}
        assert sum(run.totals.decisions.values()) == len(found)
        assert run.totals.alerts["trial"] == 57, "shadow rules are judged, and decide nothing"


def test_tasks_write_the_decisions_on_all_and_a_batch_that_comes_again_adds_nothing(tmp_path: Path) -> None:
    made, paths = traffic(tmp_path)
    policy = {"schema_version": 1, "version": 4, "bands": [{"from": 60, "decision": "block"}]}
    wanted = naive_decisions(policy, RULES, naive_detect(RULES, made, defaults=WATERMARK), made, WATERMARK, every=True)
    more = {"every": True, "folder": str(tmp_path / "decided"), "pipeline": "p"}
    judged = deciding(judged_of(RULES, paths, ingest_column=False), policy, **more)
    for batch_bytes in (1_500, 1_000_000):  # the second time by another checkpoint, cut elsewhere
        found = [each for outcome in outcomes(judged, tmp_path, 3, batch_bytes) for each in outcome.decisions]
        assert [comparable(each) for each in found] == [each for each in wanted if each.reasons], (
            "few go the way of alerts"
        )
        files = sorted((tmp_path / "decided").glob("*.jsonl"))
        assert [path.name for path in files] == [f"decisions-{shard:04d}.jsonl" for shard in range(3)]
        written = [[comparable(json.loads(line)) for line in path.read_text().splitlines()] for path in files]
        assert sorted((each for mine in written for each in mine), key=lambda each: each.ingest_ms) == wanted
        assert all(mine == [each for each in wanted if each in mine] for mine in written), (
            "each in the order of records"
        )


def traffic(folder: Path) -> tuple[list[Record], list[Path]]:
    """Records with two copies at the end, and the files that they stand in."""
    made = [
        {"_id": f"r{n}", "_event_ms": 1_700_000_000_000 + 700 * n, "account": f"a{n % 5}", "amount": n % 4}
        for n in range(57)
    ]
    made += made[-2:]
    made = with_ingest(made, [record["_event_ms"] for record in made])
    return made, split([orjson.dumps(wire_record(record)) + b"\n" for record in made], folder, 2)


def seen_by(key: str) -> Body:
    """At every record: on the ingest clock none is late to a rule."""
    return {
        "rule_id": f"seen_by_{key}",
        "version": 1,
        "rule_type": "velocity",
        "source_topic": "payments",
        "window": "1m",
        "group_by": key,
        "aggregation_type": "count",
        "aggregation_threshold": 1,
        "emit": "every",
        "time_mode": "processing_time",
    }


def test_copies_and_late_records_decide_nothing(tmp_path: Path) -> None:
    """Worked by hand. The key of a rule may be a field in which a duplicate differs: then it is a new record."""
    strict: Body = {
        "rule_id": "strict",
        "version": 1,
        "rule_type": "threshold",
        "source_topic": "payments",
        "conditions": [{"field": "amount", "operator": ">", "value": 99}],
        "watermark_delay": "1s",
        "allowed_lateness": "1s",
    }
    base_ms = 1_700_000_000_000
    made = [
        {"_id": name, "_event_ms": base_ms + at, "_ingest_ms": base_ms + at + late, "account": "a1", "device": device}
        for name, at, late, device in (
            ("first", 0, 0, 1),
            ("first", 0, 500, 2),
            ("in time", 1_000, 1_000, 1),
            ("past what strict takes", 1_500, 1_001, 1),
            ("late", 2_000, 2_001, 1),
            ("last", 5_000, 0, 2),
        )
    ]
    rules = [seen_by("device"), strict]
    paths = split([orjson.dumps(wire_record(record)) + b"\n" for record in made], tmp_path, 1)
    for batch_bytes in (1, 1_000_000):
        judged = deciding(judged_of(rules, paths, ingest_column=True), {"schema_version": 1, "version": 1})
        found = outcomes(judged, tmp_path, 2, batch_bytes)
        alerts = [alert for outcome in found for alert in outcome.alerts]
        hit = [alert["record_id"] for alert in alerts if alert["rule_id"] == "seen_by_device"]
        assert hit == [record["_id"] for record in made]
        assert [letter.record_id for outcome in found for letter in outcome.dead] == ["first"]
        decided = [each["record_id"] for outcome in found for each in outcome.decisions]
        assert decided == ["first", "in time", "last"]


def test_a_hit_on_hits_is_one_on_their_record(tmp_path: Path) -> None:
    """Worked by hand: a rule that only feeds another decides nothing; what that finds is on the same record."""
    rules = [
        {**seen_by("account"), "rule_id": "feeds", "emit_to_sink": False, "action": "review", "score": 5},
        {**seen_by("account"), "rule_id": "again", "source_topic": "rule:feeds", "action": "block", "score": 7}
        | {"aggregation_threshold": 3},
        {**seen_by("device"), "rule_id": "plain", "action": "step_up", "aggregation_threshold": 2},
    ]
    base_ms = 1_700_000_000_000
    made = [
        {"_id": f"r{n}", "_event_ms": base_ms + n, "_ingest_ms": base_ms + n, "account": f"a{n % 2}", "device": n // 5}
        for n in range(7)
    ]
    paths = split([orjson.dumps(wire_record(record)) + b"\n" for record in made], tmp_path, 2)
    for shards, batch_bytes in ((1, 1_000_000), (3, 1)):
        judged = deciding(judged_of(rules, paths, ingest_column=True), {"schema_version": 1, "version": 1})
        found = [each for outcome in outcomes(judged, tmp_path, shards, batch_bytes) for each in outcome.decisions]
        declared_figures = [
            (each["record_id"], each["decision"], [why["rule_id"] for why in each["reasons"]]) for each in found
        ]
        assert declared_figures == [
            *((f"r{n}", "step_up", ["plain"]) for n in (1, 2, 3)),
            ("r4", "block", ["again", "plain"]),
            ("r5", "block", ["again"]),
            ("r6", "block", ["again", "plain"]),
        ]
        assert {each["stream"] for each in found} == {"payments"}
        assert len({each["rules_digest"] for each in found}) == 1


def test_decisions_follow_what_holds_and_not_what_was_reported(tmp_path: Path) -> None:
    """Worked by hand: the third of five payments crosses the line of three, and the last two are beyond it."""
    rule: Body = {**RULES[0], "rule_id": "three", "aggregation_threshold": 3, "emit": "on_crossing"}
    rule |= {"action": "step_up", "score": 40}
    base_ms = 1_700_000_000_000
    made = [
        {"_id": f"p{n}", "_event_ms": base_ms + 1_000 * n, "_ingest_ms": base_ms + 1_000 * n, "account": "a1"}
        for n in range(5)
    ]
    paths = split([orjson.dumps(wire_record(record)) + b"\n" for record in made], tmp_path, 1)
    for shards, batch_bytes in ((1, 1_000_000), (3, 1)):
        judged = deciding(judged_of([rule], paths, ingest_column=True), {"schema_version": 1, "version": 1}, every=True)
        found = [each for outcome in outcomes(judged, tmp_path, shards, batch_bytes) for each in outcome.decisions]
        lines = [(each["record_id"], each["decision"], each["score"]) for each in found]
        assert lines == [
            *(("p0", "allow", 0), ("p1", "allow", 0)),
            *(("p2", "step_up", 40), ("p3", "step_up", 40), ("p4", "step_up", 40)),
        ]
        (crossing,), (third,), (fourth,) = (each["reasons"] for each in found[2:])
        assert "standing" not in crossing
        assert [third["standing"], fourth["standing"]] == [True, True]
        assert {each["alert_id"] for each in (crossing, third, fourth)} == {crossing["alert_id"]}
