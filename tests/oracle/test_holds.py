"""Holds: what the naive twin says of them, worked by hand, and the same however records and batches are spread."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import orjson
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crossline.backtest import in_process
from crossline.backtest.backtest import BacktestSpec
from crossline.rules.holds.release import Release, release_key
from crossline.runtime.local.memory import MemoryJudge

from .corrected import in_event_order
from .decisions import naive_decisions
from .holds import Release as NaiveRelease
from .holds import naive_holds
from .naive import naive_detect, running_max_ingest
from .strategies import LISTS, START_MS, STREAM, Body, Record, records, rule_sets, wire_record
from .test_corrections import BUSY, disordered, reevaluated
from .test_decisions import POLICIES, WATERMARK, WEIGHTS, comparable, deciding, weighted
from .test_detect_equals_naive import DEEP, many, with_ingest
from .test_revisions import LoggedJudge, decided
from .test_runners import judged_of, outcomes, split

PLAIN = {"schema_version": 1, "version": 1}
BURST: Body = {
    "rule_id": "burst",
    "version": 1,
    "rule_type": "velocity",
    "source_topic": STREAM,
    "window": "5s",
    "group_by": "account",
    "aggregation_type": "count",
    "aggregation_threshold": 3,
    "action": "step_up",
    "score": 40,
    "hold": "10s",
}


def at(seconds: float, account: str = "a1", *, late: float = 0, name: str = "") -> Record:
    """A record that happened then, and came so much later."""
    event_ms = START_MS + round(1000 * seconds)
    return {
        "_id": name or f"{account}@{seconds:g}",
        "_event_ms": event_ms,
        "_ingest_ms": event_ms + round(1000 * late),
        "account": account,
    }


def decisions_of(
    judged: BacktestSpec, folder: Path, shards: int = 1, batch_bytes: int = 1_000_000, *, kept: bool = False
) -> list[dict[str, Any]]:
    """All that was decided; ``kept``: by states that are read from their logs for each batch."""
    judge = (lambda source: LoggedJudge(source, folder / f"state{shards}-{batch_bytes}")) if kept else MemoryJudge
    found: list[dict[str, Any]] = decided(judged, folder, shards, batch_bytes, judge)
    return found


def judged_by(rules: list[Body], made: Sequence[Record], folder: Path, policy: Body = PLAIN) -> BacktestSpec:
    paths = split([orjson.dumps(wire_record(record)) + b"\n" for record in made], folder, 1)
    return deciding(judged_of(rules, paths, ingest_column=True), policy)


def shown(found: Sequence[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Record, decision, and of each reason the rule and the record of the alert that holds; "" where none does."""
    alerts = {why["alert_id"]: each["record_id"] for each in found for why in each["reasons"] if "held_by" not in why}
    return [
        (
            each["record_id"],
            each["decision"],
            *((why["rule_id"], alerts[why["held_by"]] if "held_by" in why else "") for why in each["reasons"]),
        )
        for each in found
    ]


def test_an_alert_holds_its_key_until_it_is_over(tmp_path: Path) -> None:
    """Worked by hand: the third payment crosses the line at 2 s, and holds a1 up to, and without, 12 s."""
    made = [at(0), at(1), at(2), at(4, "a2"), at(7), at(11.999), at(12), at(13)]
    judged = judged_by([BURST], made, tmp_path)
    whole = decisions_of(judged, tmp_path)
    assert shown(whole) == [
        ("a1@2", "step_up", ("burst", "")),
        *((f"a1@{each}", "step_up", ("burst", "a1@2")) for each in ("7", "11.999")),
        ("a1@13", "step_up", ("burst", "")),
    ]
    (why,) = whole[1]["reasons"]
    assert why == {
        "rule_id": "burst",
        "rule_version": 1,
        "action": "step_up",
        "score": 40,
        "alert_id": why["alert_id"],
        "message": "held for 10 s by the alert on record a1@2",
        "held_by": why["alert_id"],
    }
    for shards, batch_bytes in ((1, 1), (3, 300)):
        assert decisions_of(judged, tmp_path, shards, batch_bytes, kept=True) == whole
    (alerts, *_) = [outcome.alerts for outcome in outcomes(judged, tmp_path, 1, 1_000_000)]
    assert [each["record_id"] for each in alerts] == ["a1@2", "a1@13"], "a hold is no alert"


def test_a_record_that_came_before_the_alert_is_not_held(tmp_path: Path) -> None:
    """Worked by hand: 3 s came before the line was crossed, by a record of 2 s that came late."""
    made = [at(0.5), at(1), at(3), at(2, late=1.5), at(2.9, late=1.5), at(4.9)]
    rule = {**BURST, "window": "1600ms", "watermark_delay": "2s", "allowed_lateness": "5s"}
    assert shown(decisions_of(judged_by([rule], made, tmp_path), tmp_path)) == [
        ("a1@2", "step_up", ("burst", "")),
        ("a1@2.9", "step_up", ("burst", "a1@2")),
        ("a1@4.9", "step_up", ("burst", "a1@2")),
    ]


def test_what_holds_says_the_policy_and_no_shadow_rule_holds(tmp_path: Path) -> None:
    """Worked by hand: scores of what holds count, a rule is one reason, and one in shadow is none."""
    made = [at(0), at(1), at(2), at(6.5)]
    twice = {**BURST, "rule_id": "twice", "aggregation_threshold": 2, "action": "review", "score": 30, "emit": "every"}
    shadow = {**BURST, "rule_id": "shadow", "aggregation_threshold": 1, "action": "block", "status": "shadow"}
    policy = {**PLAIN, "bands": [{"from": 30, "decision": "review"}, {"from": 70, "decision": "block"}]}
    found = decisions_of(judged_by([BURST, twice, shadow], made, tmp_path, policy), tmp_path)
    assert shown(found) == [
        ("a1@1", "review", ("twice", "")),
        ("a1@2", "block", ("burst", ""), ("twice", "")),
        ("a1@6.5", "block", ("burst", "a1@2"), ("twice", "")),
    ]
    assert [each["score"] for each in found] == [30, 70, 70]


def test_a_version_that_is_replaced_holds_on_and_one_that_is_paused_does_not(tmp_path: Path) -> None:
    """Worked by hand: version 1 alerts at 2 s and is replaced at 4 s, which is paused from 6 s to 8 s."""
    from_ms = [START_MS + 1000 * second for second in (4, 6, 8)]
    other = {**BURST, "version": 2, "aggregation_threshold": 9, "effective_from": from_ms[0]}
    del other["hold"]
    bodies = [BURST, other, {**other, "status": "paused", "effective_from": from_ms[1]}]
    bodies.append({**other, "effective_from": from_ms[2]})
    made = [at(second) for second in (0, 1, 2, 3, 5, 7, 9, 12)]
    found = decisions_of(judged_by(bodies, made, tmp_path), tmp_path, 2, 1)
    assert [(each["record_id"], each["reasons"][0]["rule_version"]) for each in found] == [
        *((f"a1@{second}", 1) for second in (2, 3, 5, 9))
    ]


def test_a_release_ends_what_came_before_it_and_an_alert_after_it_holds_anew(tmp_path: Path) -> None:
    """Worked by hand: a1 is released at 6 s; it crosses again at 15 s. a2 is not a1."""
    times = (0, 1, 2, 5.5, 6.5, 9, 13, 14, 15, 18.5)
    made = sorted([each for second in times for each in (at(second), at(second, "a2"))], key=lambda r: r["_ingest_ms"])
    rule = {**BURST, "window": "3s", "hold": "1m"}
    judged = judged_by([rule], made, tmp_path)
    release = Release("burst", release_key({"account": "a1"}), START_MS + 6_000)
    wanted = [("a1@2", ""), ("a1@5.5", "a1@2"), ("a1@15", ""), ("a1@18.5", "a1@15")]
    for shards, batch_bytes in ((1, 1_000_000), (3, 1)):
        released = replace(judged, rules=replace(judged.rules, releases=(release,)))
        found = shown(decisions_of(released, tmp_path, shards, batch_bytes))
        assert sorted((each[0], each[2][1]) for each in found if each[0].startswith("a1")) == sorted(wanted)
        assert len([each for each in found if each[0].startswith("a2")]) == 8


def test_an_alert_that_is_retracted_holds_no_more(tmp_path: Path) -> None:
    """Worked by hand: a late refund takes the sum below the line, and what it held is let go, for that reason."""
    rule: Body = {
        **BURST,
        "window": "2s",
        "aggregation_type": "sum",
        "aggregation_field": "amount",
        "aggregation_threshold": 9,
        "late_policy": "reevaluate",
        "watermark_delay": "2s",
        "allowed_lateness": "5s",
    }
    refund = {**at(-0.5, late=4.9), "amount": -5}
    made = [{**at(0), "amount": 9}, {**at(2.5), "amount": 0}, {**at(4), "amount": 0}, refund, {**at(6), "amount": 0}]
    judged = judged_by([rule], made, tmp_path)
    for spread in ((1, 1_000_000), (3, 1)):
        found = decisions_of(judged, tmp_path, *spread, kept=spread[0] == 3)
        assert sorted((each["kind"], each["record_id"], each["decision"]) for each in found) == [
            *(("decision", f"a1@{second}", "step_up") for second in (0, 2.5, 4)),
            *(("revision", f"a1@{second}", "allow") for second in (0, 2.5, 4)),
        ]
        (correction,) = [a for out in outcomes(judged, tmp_path, 1, 1) for a in out.alerts if a["kind"] == "correction"]
        assert {each.get("because", correction["alert_id"]) for each in found} == {correction["alert_id"]}


def test_an_absence_holds_from_when_it_is_known(tmp_path: Path) -> None:
    """Worked by hand: what waits at 0 s is due at 5 s and known 1 s later; it holds from there for 10 s."""
    rule: Body = {
        "rule_id": "unsettled",
        "version": 1,
        "rule_type": "absence",
        "source_topic": STREAM,
        "group_by": "account",
        "after": [{"field": "kind", "operator": "==", "value": "POS"}],
        "expect": [{"field": "kind", "operator": "==", "value": "CSH"}],
        "within": "5s",
        "watermark_delay": "1s",
        "allowed_lateness": "1s",
        "action": "review",
        "hold": "10s",
    }
    made = [{**at(0), "kind": "POS"}, at(5), at(5.999), at(7), at(8, "a2"), at(15), at(16.5)]
    judged = judged_by([rule], made, tmp_path)
    for shards, batch_bytes in ((1, 1_000_000), (1, 1), (3, 300)):
        found = decisions_of(judged, tmp_path, shards, batch_bytes, kept=shards == 3)
        assert [(each["record_id"], each["decision"]) for each in found] == [("a1@7", "review"), ("a1@15", "review")]


def test_a_rule_of_hits_holds_the_records_of_their_stream(tmp_path: Path) -> None:
    """Worked by hand: two rules of another key meet at an account, which is held on other devices too."""
    often = {**BURST, "rule_id": "often", "group_by": "device", "aggregation_threshold": 2, "action": "allow"}
    large = {**often, "rule_id": "large", "aggregation_type": "sum", "aggregation_field": "amount"}
    for each in (often, large):
        del each["hold"]
    both: Body = {
        "rule_id": "both",
        "version": 1,
        "rule_type": "composite",
        "all_of": ["often", "large"],
        "join_key": "account",
        "window": "10s",
        "action": "block",
        "hold": "5s",
    }
    times = ((0, 1), (1, 1), (3, 2), (5.5, 3), (5.9, 4))
    made = [{**at(second), "device": device, "amount": 1} for second, device in times]
    judged = judged_by([often, {**large, "aggregation_threshold": 2}, both], made, tmp_path)
    whole = decisions_of(judged, tmp_path)
    assert [(each["record_id"], each["decision"]) for each in whole] == [
        *((f"a1@{second}", "block") for second in ("1", "3", "5.5", "5.9"))
    ]
    assert decisions_of(judged, tmp_path, 3, 1, kept=True) == whole


def test_a_backtest_in_processes_says_the_same(tmp_path: Path) -> None:
    """Of many keys with ties, and of rules of which some judge again."""
    made = [
        {**at(n // 3 + (n % 7) / 10, f"a{n % 5}", late=(n % 4) / 2, name=f"r{n}"), "amount": n % 4, "device": n % 2}
        for n in range(150)
    ]
    made.sort(key=lambda record: record["_ingest_ms"])
    summed = {"aggregation_type": "sum", "aggregation_field": "amount", "aggregation_threshold": 4, "window": "3s"}
    again = {**BURST, **summed, "rule_id": "again", "late_policy": "reevaluate", "cooldown": "2s", "hold": "3s"}
    judged = judged_by([BURST, again], made, tmp_path)
    with mock.patch.object(in_process, "BATCH_BYTES", 1_500):
        in_process.backtest(judged, tmp_path / "a", decisions=tmp_path / "d", processes=2)
        found = [orjson.loads(line) for line in (tmp_path / "d").read_bytes().splitlines()]
    wanted = decisions_of(judged, tmp_path, 1, 1_500)
    for each in found:
        del each["decided_at"]
    assert {bool(why.get("held_by")) for each in found for why in each["reasons"]} == {True, False}
    assert {each["kind"] for each in found} == {"decision", "revision"}
    by_id = {each["decision_id"]: each for each in wanted}
    assert {each["decision_id"]: each for each in found} == by_id


def with_holds(rules: list[Body], holds: list[str | None]) -> list[Body]:
    """Some versions of ``rules`` with a hold: those that have a key, and alerts."""
    named: dict[tuple[str, int], str | None] = {}
    for body in rules:
        named.setdefault((body["rule_id"], body["version"]), holds[len(named) % len(holds)])
    may = [bool(keys_of(body)) and body.get("emit_to_sink", True) for body in rules]
    return [
        {**body, "hold": hold} if hold is not None and fits else body
        for body, fits in zip(rules, may, strict=True)
        for hold in [named[body["rule_id"], body["version"]]]
    ]


def keys_of(body: Body) -> Any:
    figures = [each.get("group_by") for each in body.get("figures", {}).values()]
    steps = [each.get("group_by") for each in body.get("steps", ())]
    return next((each for each in (body.get("group_by"), *figures, *steps) if each), None)


HOLDS = st.lists(st.sampled_from([None, "1s", "3s", "12s", "1m"]), min_size=1, max_size=4)
RELEASES = st.lists(
    st.tuples(st.sampled_from(["r0", "r1"]), st.sampled_from(["a1", "a2"]), st.integers(0, 20)), max_size=3
)


def held_of(found: Sequence[dict[str, Any]], alert_of: dict[str, str]) -> bool:
    """Whether ``held_by`` is present exactly where the alert is on another record and the rule does not stand here."""
    return all(
        why.get("held_by", "")
        == ("" if "standing" in why or alert_of[why["alert_id"]] == each["record_id"] else why["alert_id"])
        for each in found
        for why in each["reasons"]
    )


@settings(
    max_examples=400 if DEEP else 15,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(
    rule_sets(),
    st.lists(WEIGHTS, min_size=1, max_size=5),
    HOLDS,
    st.integers(0, 3),
    POLICIES,
    records(),
    RELEASES,
    st.booleans(),
    st.booleans(),
    st.sampled_from([(1, 1), (2, 300), (3, 2_000), (5, 1_000_000)]),
)
def test_holds_are_what_the_twin_says_and_cuts_do_not_matter(
    rules: list[Body],
    weights: list[Body],
    holds: list[str | None],
    silent: int,
    policy: Body,
    made: list[Record],
    released: list[tuple[str, str, int]],
    ingest_column: bool,
    every: bool,
    spread: tuple[int, int],
) -> None:
    if not ingest_column:
        made = with_ingest(made, running_max_ingest([record["_event_ms"] for record in made]))
    rules = with_holds(weighted(rules, weights, silent), holds)
    releases: list[NaiveRelease] = [
        (rule_id, {"account": account}, START_MS + 500 * step) for rule_id, account, step in released
    ]
    result = naive_detect(rules, made, defaults=WATERMARK, lists=LISTS)
    held = naive_holds(rules, result, made, WATERMARK, releases)
    wanted = naive_decisions(policy, rules, result, made, WATERMARK, every=every, held=held)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = split([orjson.dumps(wire_record(record)) + b"\n" for record in made], folder, 1)
        judged = deciding(judged_of(rules, paths, ingest_column=ingest_column), policy, every=every)
        more = tuple(Release(rule_id, release_key(key), at_ms) for rule_id, key, at_ms in releases)
        judged = replace(judged, rules=replace(judged.rules, releases=more))
        whole = [each for outcome in outcomes(judged, folder, 1, 1_000_000) for each in outcome.decisions]
        cut = decisions_of(judged, folder, *spread, kept=True)
    assert [comparable(each) for each in whole] == wanted
    assert held_of(whole, {hit.alert_id: hit.record_id for hit in result.hits})
    for each in whole:
        del each["decided_at"]
    assert cut == whole


@settings(many, max_examples=300 if DEEP else 10)
@given(
    st.lists(st.sampled_from(BUSY), min_size=1, max_size=2),
    st.lists(WEIGHTS, min_size=1, max_size=3),
    HOLDS,
    POLICIES,
    disordered(20),
    st.sampled_from([(1, 1), (2, 300), (3, 2_000)]),
)
def test_the_last_decisions_of_retracting_rules_equal_those_of_the_log_in_order(
    bodies: list[Body],
    weights: list[Body],
    holds: list[str | None],
    policy: Body,
    made: list[Record],
    spread: tuple[int, int],
) -> None:
    rules = with_holds(weighted([reevaluated(body, n) for n, body in enumerate(bodies)], weights, 0), holds)
    made = list({record["_id"]: record for record in reversed(made)}.values())[::-1]
    made.sort(key=lambda record: record["_ingest_ms"])
    # In order each record comes when it happened, but for its lateness, which says whether it is judged.
    ordered = in_event_order(made)
    plainly = [{**body, "late_policy": "evaluate"} for body in rules]
    result = naive_detect(plainly, ordered, defaults=WATERMARK, lists=LISTS)
    # A rule that judges again keeps no crossing for longer than its windows and its cooldown reach.
    result.standing = [replace(each, alert_id=None) if each.beyond else each for each in result.standing]
    in_turn = [{**record, "_ingest_ms": START_MS + number} for number, record in enumerate(ordered)]
    held = [
        [hit for hit in hits if ordered[number]["_ingest_ms"] - ordered[number]["_event_ms"] <= 5_000]
        for number, hits in enumerate(naive_holds(plainly, result, in_turn, WATERMARK))
    ]
    wanted = {each.record_id: each for each in naive_decisions(policy, plainly, result, ordered, WATERMARK, held=held)}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        judged = judged_by(rules, made, folder, policy)
        whole = decisions_of(judged, folder)
        cut = decisions_of(judged, folder, *spread, kept=True)
    assert cut == whole
    assert len({each["decision_id"] for each in whole}) == len(whole)
    last = {each["record_id"]: each for each in whole}
    found = {record_id: each for record_id, each in last.items() if each["reasons"]}
    assert sorted(found) == sorted(wanted)
    for record_id, each in found.items():
        assert comparable({**each, "decision_id": wanted[record_id].decision_id}) == wanted[record_id]
