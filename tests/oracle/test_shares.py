"""Versions that decide about a share of keys: which keys, what goes on for the others, the same in all runs."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossline.basics.share import slot_of
from crossline.evaluate.bounds import Bounds
from crossline.rules.base import Defaults, legal_moves
from crossline.rules.rule_reader import read_rule
from crossline.rules.ruleset import RuleSet
from drawing import one_of_these

from .fastpath import FastPath, plan_of, stream_spec, twin_outcome
from .living import Feed, Life
from .naive import naive_detect
from .strategies import LISTS, Body, Record, absence_body, formula_body, records, sequence_body, velocity_body
from .test_detect_equals_naive import Shape, check, many
from .test_detect_equals_naive import run as run_whole
from .test_publications import AGGREGATES, Op, live, outcome

SHARES = ["0%", "25%", "50%", "75%", "100%"]
COUNT: Body = {
    "rule_id": "r0",
    "version": 1,
    "rule_type": "velocity",
    "source_topic": "payments",
    "aggregation_type": "count",
    "aggregation_threshold": 1,
    "group_by": "account",
    "window": "10s",
    "emit": "every",
}


def _keyed(body: Body) -> bool:
    rule, findings = read_rule({**body, "share": "50%"})
    return rule is not None and not findings


@st.composite
def _publication(draw: st.DrawFn, bodies: dict[str, list[Body]]) -> Body:
    """A new rule, a new version for a share of keys, or another share or status."""
    name = f"r{draw(st.integers(0, 2))}"
    mine = bodies.setdefault(name, [])
    happens = draw(one_of_these("version", "share", "share", "status")) if mine else "version"
    moves = legal_moves(mine[-1].get("status", "active")) if mine else ()
    if happens == "status" and moves:
        body = {**mine[-1], "status": draw(st.sampled_from(moves))}
    elif happens == "share" and _keyed(mine[-1]):
        body = {**mine[-1], "share": draw(st.sampled_from(SHARES))}
    else:
        velocity = velocity_body(AGGREGATES)
        fresh = draw(st.one_of(velocity, velocity, formula_body(), sequence_body(), absence_body()))
        body = {**fresh, "rule_id": name, "version": mine[-1]["version"] + 1 if mine else 1}
        if draw(st.booleans()) and _keyed(body):
            body["share"] = draw(st.sampled_from(SHARES))
    mine.append(body)
    return body


@st.composite
def lives(draw: st.DrawFn, size: int) -> list[Op]:
    """Batches that take all ``size`` records, publications between them, restarts."""
    ops: list[Op] = []
    bodies: dict[str, list[Body]] = {}
    left = size
    while left:
        happens = draw(one_of_these("batch", "batch", "publish", "publish", "restart", "killed"))
        if happens in {"batch", "killed"}:
            count = draw(st.integers(1, max(1, left // 2)))
            ops.append((happens, (count, draw(st.integers(1, 2)), None)))
            left -= count
        else:
            ops.append((happens, draw(_publication(bodies)) if happens == "publish" else 0))
    return ops


@many
@given(st.data(), records(30))
def test_stream_backtest_and_twin_share_out_keys_alike(data: st.DataObject, made: list[Record]) -> None:
    spec = stream_spec(ingest_column=True)
    ops = data.draw(lives(len(made)))
    with tempfile.TemporaryDirectory() as folder:
        life = Life(Path(folder), spec, Defaults(), data.draw(st.integers(1, 3)), 0, Feed())
        live(life, ops, made)
        logged, found = life.feed.logged, outcome(life)
    expected = naive_detect(logged, made, lists=LISTS)
    assert found == twin_outcome(expected, made)
    whole = FastPath.of(plan_of(logged, spec, {}), 1, Bounds(0))
    run_whole(whole, Shape(1, [(0, len(made))], []), made, ["log"] * len(made))
    check(whole, logged, expected, made)


def kinds(*bodies: dict[str, Any]) -> dict[tuple[int, str], str]:
    """By version and account how 200 accounts are judged once all is published."""
    rules = [read_rule({**COUNT, "effective_from": 1_000 * number, **body})[0] for number, body in enumerate(bodies)]
    in_force = [
        each for each in RuleSet.from_rules(rule for rule in rules if rule is not None).versions if each.endless
    ]
    return {
        (each.rule.version, f"a{number}"): each.of_key({"account": f"a{number}"}).kind
        for each in in_force
        for number in range(200)
    }


def active(found: dict[tuple[int, str], str], version: int) -> set[str]:
    return {account for (number, account), kind in found.items() if number == version and kind == "active"}


ACCOUNTS = {f"a{number}" for number in range(200)}


def test_every_key_is_decided_about_by_one_version_and_a_share_that_grows_keeps_its_keys() -> None:
    before: set[str] = set()
    for share in ("0%", "1%", "10%", "33.3%", "90%", "100%"):
        found = kinds({}, {"version": 2, "share": share})
        mine = active(found, 2)
        assert before <= mine
        assert active(found, 1) == ACCOUNTS - mine
        before = mine
    assert before == ACCOUNTS
    assert 10 < len(active(kinds({}, {"version": 2, "share": "10%"}), 2)) < 40


@pytest.mark.parametrize("status", ["shadow", "paused"])
def test_a_version_with_a_share_that_decides_no_more_leaves_all_keys_to_the_one_before(status: str) -> None:
    found = kinds({}, {"version": 2, "share": "50%"}, {"version": 2, "share": "50%", "status": status})
    assert (active(found, 1), active(found, 2)) == (ACCOUNTS, set())


def test_one_without_a_share_replaces_and_one_that_is_retired_ends_the_rule() -> None:
    assert active(kinds({}, {"version": 2, "share": "50%"}, {"version": 2}), 1) == set()
    assert kinds({}, {"version": 2, "share": "50%"}, {"version": 2, "share": "50%", "status": "retired"}) == {}
    # The version before is the last that replaced all: a second one for a share takes the place of the first.
    found = kinds({}, {"version": 2, "share": "50%"}, {"version": 3, "share": "20%"})
    assert (active(found, 1), active(found, 2)) == (ACCOUNTS - active(found, 3), set())


def test_the_hash_is_published() -> None:
    r"""Worked out by ``printf 'r0\x1f{"account":"a7"}' | sha256sum``: the first 16 digits as a share of 2**64."""
    assert slot_of("r0", {"account": "a7"}) == 472_917


def test_a_rule_without_a_key_has_none_to_share_out() -> None:
    body = {
        "rule_id": "r",
        "version": 1,
        "rule_type": "threshold",
        "source_topic": "payments",
        "conditions": [{"field": "amount", "operator": ">", "value": 1}],
        "share": "5%",
    }
    _, findings = read_rule(body)
    assert [each.path for each in findings] == [("share",)]
    assert read_rule({**body, "entity": ["account"]})[1] == []
    for wrong, hint in ((5, "did you mean 5%?"), ("101%", None), ("-1%", None), ("5", None)):
        (finding,) = read_rule({**body, "entity": ["account"], "share": wrong})[1]
        assert (finding.path, finding.hint) == (("share",), hint)
