"""What people hold: as the naive twin says, however records and batches are spread, and in a replica."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crossline.rules.holds.placed_hold import PlacedHold
from crossline.rules.holds.release import release_key
from crossline.rules.ruleset import RuleSet
from crossline.runtime.state_log import cache as caching
from crossline.runtime.state_log.followed_state import FollowedState
from drawing import one_of_these

from .decisions import Placed, naive_decisions
from .naive import naive_detect, running_max_ingest
from .replicated import Pipeline
from .replicated import comparable as comparable_in_replica
from .strategies import FIELDS, LISTS, START_MS, STREAM, Body, Record, records, rule_sets, wire_record
from .test_decisions import POLICIES, WATERMARK, WEIGHTS, comparable, deciding, weighted
from .test_detect_equals_naive import DEEP, with_ingest
from .test_holds import BURST, PLAIN, at, decisions_of, judged_by
from .test_replica import line, replica_answers, snapshot_of
from .test_runners import judged_of, outcomes, split

KEYS: list[str] = ["account", "device", "flag"]


def hold_of(placed: Placed) -> PlacedHold:
    """As the rule set has it."""
    begins = ((STREAM, placed.from_ms),)
    return PlacedHold(placed.hold_id, release_key(placed.key), placed.action, "mary", placed.until_ms, begins)


@st.composite
def placings(draw: st.DrawFn) -> list[Placed]:
    """Some holds, of one field or two, that begin and end in the midst of the records; some are over at once."""
    found = []
    for number in range(draw(st.integers(1, 4))):
        fields = draw(st.lists(st.sampled_from(KEYS), min_size=1, max_size=2, unique=True))
        key: Body = {
            name: draw(st.sampled_from([each for each in FIELDS[name] if each is not None])) for name in fields
        }
        start_ms = START_MS + 500 * draw(st.integers(-2, 20))
        action = draw(one_of_these("review", "step_up", "block"))
        found.append(Placed(f"{number:032x}", key, action, start_ms, start_ms + 500 * draw(st.integers(0, 30))))
    return found


def with_placed(rules: RuleSet, placed: Sequence[Placed]) -> RuleSet:
    return RuleSet.from_json(replace(rules, placed=tuple(map(hold_of, placed))).to_json())


@settings(
    max_examples=400 if DEEP else 20,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(
    rule_sets(),
    st.lists(WEIGHTS, min_size=1, max_size=5),
    POLICIES,
    records(),
    placings(),
    st.booleans(),
    st.booleans(),
    st.sampled_from([(1, 1), (2, 300), (3, 2_000), (5, 1_000_000)]),
)
def test_what_people_hold_is_what_the_twin_says_and_cuts_do_not_matter(
    rules: list[Body],
    weights: list[Body],
    policy: Body,
    made: list[Record],
    placed: list[Placed],
    ingest_column: bool,
    every: bool,
    spread: tuple[int, int],
) -> None:
    if not ingest_column:
        made = with_ingest(made, running_max_ingest([record["_event_ms"] for record in made]))
    rules = weighted(rules, weights, 0)
    result = naive_detect(rules, made, defaults=WATERMARK, lists=LISTS)
    wanted = naive_decisions(policy, rules, result, made, WATERMARK, every=every, placed=placed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = split([orjson.dumps(wire_record(record)) + b"\n" for record in made], folder, 1)
        judged = deciding(judged_of(rules, paths, ingest_column=ingest_column), policy, every=every)
        judged = replace(judged, rules=with_placed(judged.rules, placed))
        declared_figures = outcomes(judged, folder, 1, 1_000_000)
        whole = [each for outcome in declared_figures for each in outcome.decisions]
        cut = decisions_of(judged, folder, *spread, kept=True)
    assert [comparable(each) for each in whole] == wanted
    alerted = sorted(each["rule_id"] for outcome in declared_figures for each in outcome.alerts)
    assert alerted == sorted(hit.rule_id for hit in result.hits), "a hold is no alert, and changes none"
    for each in whole:
        del each["decided_at"]
    assert cut == whole


@settings(
    max_examples=200 if DEEP else 10,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(rule_sets(), POLICIES, records(repeats="exact"), placings(), st.booleans(), st.integers(1, 3))
def test_a_replica_knows_what_people_hold(
    rules: list[Body], policy: Body, made: list[Record], placed: list[Placed], ingest_column: bool, shards: int
) -> None:
    caching._CACHE.clear()
    snapshot = snapshot_of(rules, policy, shards, ingest_column=ingest_column)
    with tempfile.TemporaryDirectory() as name:
        pipeline = Pipeline(Path(name), replace(snapshot, rules=with_placed(snapshot.rules, placed)))
        following = FollowedState(f"{name}/state")
        for batch in (made[: len(made) // 2], made[len(made) // 2 :]):
            found = replica_answers(pipeline.file.current(), following, pipeline.batches - 1, [batch])
            decided = pipeline.batch([(STREAM, [line(record) for record in batch])])
            assert found == [comparable_in_replica(each) for each in decided if each["kind"] == "decision"]


def held_by_mary(digit: str, action: str, from_ms: int, until_ms: int) -> PlacedHold:
    """Of account a1, from and until so long after the first record."""
    begins = ((STREAM, START_MS + from_ms),)
    return PlacedHold(digit * 32, release_key({"account": "a1"}), action, "mary", START_MS + until_ms, begins)


def test_a_hold_is_a_reason_with_its_id_and_nothing_is_decided_less_gravely(tmp_path: Path) -> None:
    """Worked by hand: a1 is held from 2 s until 6 s, by a policy that goes by scores, of which a hold has none."""
    policy = {**PLAIN, "bands": [{"from": 30, "decision": "review"}]}
    made = [at(second) for second in (1, 2, 5.999, 6)] + [at(7, "a2")]
    rule = {**BURST, "aggregation_threshold": 3, "hold": "1s"}
    judged = judged_by([rule], made, tmp_path, policy)
    held = PlacedHold(
        "f" * 32, release_key({"account": "a1"}), "block", "mary", START_MS + 6_000, ((STREAM, START_MS + 2_000),)
    )
    judged = replace(judged, rules=replace(judged.rules, placed=(held,)))
    found = decisions_of(judged, tmp_path)
    assert [(each["record_id"], each["decision"], each["score"]) for each in found] == [
        ("a1@2", "block", 0),
        ("a1@5.999", "block", 40),
        ("a1@6", "review", 40),
    ]
    assert found[0]["reasons"] == [
        {
            "rule_id": f"hold:{'f' * 32}",
            "rule_version": 1,
            "action": "block",
            "score": 0,
            "alert_id": None,
            "message": f"held by mary until {found[2]['ingest_time']}",
            "held_by": "f" * 32,
            "standing": True,
        }
    ]
    released = replace(held, ended=((STREAM, START_MS + 5_000),))
    judged = replace(judged, rules=replace(judged.rules, placed=(released,)))
    assert [(each["record_id"], each["decision"]) for each in decisions_of(judged, tmp_path)][0:2] == [
        ("a1@2", "block"),
        ("a1@5.999", "review"),
    ]


def test_a_hold_of_a_rule_counts_as_the_rule_does(tmp_path: Path) -> None:
    """Worked by hand: by the rule's score and action, once where the rule hits the record or its alert holds it."""
    made = [at(second) for second in (0, 1, 2, 3, 8)]
    of_rule: dict[str, Any] = {"rule_id": "burst", "rule_version": 1, "score": 40}
    held = PlacedHold(
        "e" * 32, release_key({"account": "a1"}), "step_up", "mary", START_MS + 9_000, ((STREAM, START_MS),)
    )
    judged = judged_by([{**BURST, "hold": "2s"}], made, tmp_path)
    judged = replace(judged, rules=replace(judged.rules, placed=(replace(held, **of_rule),)))
    found = decisions_of(judged, tmp_path)
    assert [(each["record_id"], each["decision"], each["score"], len(each["reasons"])) for each in found] == [
        *((f"a1@{second}", "step_up", 40, 1) for second in (0, 1, 2, 3, 8))
    ]
    assert [each["reasons"][0].get("held_by") == "e" * 32 for each in found] == [True, True, False, False, True]
    assert decisions_of(judged, tmp_path, 3, 1, kept=True) == found
