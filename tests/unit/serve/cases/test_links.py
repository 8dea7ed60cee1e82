"""Who else belongs to an entity: a graph over alerts, held against one that is made without bounds."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import pytest

from crossline.serve.cases.actions.values import CaseAction
from crossline.serve.cases.links.traversal import walked
from crossline.serve.cases.links.values import Entity, Graph, LeftOut, LinkLimits

from .casekit import HOUR, START, Harness, alert

A, B, C = ("account_id", "a1"), ("account_id", "a2"), ("account_id", "a3")
CARD = ("card_hash", "c1")


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[Harness]:
    made = Harness(tmp_path)
    yield made
    made.close()


def steps_by_entity(graph: Graph) -> dict[Entity, int]:
    return {each.entity: each.steps for each in graph.entities}


def pairs(graph: Graph) -> dict[frozenset[Entity], int]:
    names = [each.entity for each in graph.entities]
    return {frozenset((names[each.source], names[each.target])): each.alerts for each in graph.links}


def paying(name: str, account: str, hour: int = 0, **record: str) -> dict[str, object]:
    return alert(name, START + hour * HOUR, account, record=record)


def test_a_shared_card_is_one_step_and_who_shares_it_two(harness: Harness) -> None:
    harness.take(paying("x1", "a1", card_hash="c1"), paying("x2", "a1", 1, card_hash="c1"))
    harness.take(paying("y1", "a2", 2, card_hash="c1", device_id="d9"), paying("z1", "a3", 3, device_id="d8"))
    assert steps_by_entity(walked(harness.cases.file, A, 1)) == {A: 0, CARD: 1}
    two = walked(harness.cases.file, A, 2)
    assert steps_by_entity(two) == {A: 0, CARD: 1, B: 2, ("device_id", "d9"): 2}
    assert pairs(two) == {
        frozenset((A, CARD)): 2,
        frozenset((CARD, B)): 1,
        frozenset((CARD, ("device_id", "d9"))): 1,
        frozenset((B, ("device_id", "d9"))): 1,
    }
    assert two.left_out == LeftOut()
    assert C not in steps_by_entity(walked(harness.cases.file, A, 3))


def test_an_unknown_entity_stands_alone(harness: Harness) -> None:
    graph = walked(harness.cases.file, ("account_id", "nobody"), 3)
    assert [(each.entity, each.cases, each.more) for each in graph.entities] == [(("account_id", "nobody"), 0, 0)]
    assert graph.links == []


def test_what_only_finds_cases_is_shown_and_not_gone_on_from(harness: Harness) -> None:
    """A merchant that is a part of keys of two fields has customers who have nothing to do with each other."""
    for name, account in (("x", "a1"), ("y", "a2")):
        harness.take({**alert(name), "key": {"account_id": account, "merchant_id": "m1"}})
    graph = walked(harness.cases.file, A, 3)
    assert steps_by_entity(graph) == {A: 0, ("merchant_id", "m1"): 1}
    assert [each.joins for each in graph.entities] == [False, False]
    assert graph.entities[1].more == 0
    assert steps_by_entity(walked(harness.cases.file, ("merchant_id", "m1"), 1)) == {
        ("merchant_id", "m1"): 0,
        A: 1,
        B: 1,
    }


def test_cases_decisions_and_fraud_are_reported_of_each(harness: Harness) -> None:
    harness.take(paying("x1", "a1", card_hash="c1"), paying("y1", "a2", 100, card_hash="c1"))
    harness.take({"kind": "decision", "stream": "payments", "record_id": "r-y1", "decision": "block", "reasons": []})
    harness.service.act("C-1", CaseAction("resolve", label="fraud"), "mary")
    by_name = {each.entity: each for each in walked(harness.cases.file, A, 2).entities}
    assert (by_name[CARD].cases, by_name[CARD].numbers, by_name[CARD].fraud) == (2, (2, 1), 1)
    assert (by_name[B].decision, by_name[A].decision, by_name[B].fraud) == (3, -1, 0)  # block is the fourth


def test_a_merged_case_counts_once(harness: Harness) -> None:
    harness.take(paying("x1", "a1", card_hash="c1"), paying("y1", "a1", 100, card_hash="c1"))
    harness.service.act("C-1", CaseAction("merge", case_ids=("C-2",)), "mary")
    graph = walked(harness.cases.file, A, 1)
    assert pairs(graph) == {frozenset((A, CARD)): 2}
    assert [each.numbers for each in graph.entities] == [(1,), (1,)]


def test_bounds_hold_and_what_is_left_out_is_counted(harness: Harness) -> None:
    for number in range(12):
        harness.take(paying(f"x{number}", "a1", number * 100, card_hash=f"c{number:02}"))
    harness.take(paying("again", "a1", 1101, card_hash="c11"))
    graph = walked(harness.cases.file, A, 2, LinkLimits(entities=6, beside=4))
    assert list(steps_by_entity(graph)) == [A, *(("card_hash", f"c{number:02}") for number in (11, 10, 9, 8))]
    assert (graph.left_out, graph.entities[0].more) == (LeftOut(entities=8), 8)
    assert walked(harness.cases.file, A, 1, LinkLimits(cases=5)).left_out == LeftOut(cases=7)
    few = walked(harness.cases.file, A, 1, LinkLimits(alerts=3))
    assert (len(few.entities), few.left_out) == (3, LeftOut(cases=10))


def naive(
    alerts: list[set[Entity]], start: Entity, depth: int
) -> tuple[dict[Entity, int], dict[frozenset[Entity], int]]:
    """All of it in memory, in the plainest way."""
    links: dict[frozenset[Entity], int] = {}
    for each in alerts:
        for pair in combinations(sorted(each), 2):
            links[frozenset(pair)] = links.get(frozenset(pair), 0) + 1
    steps, ring = {start: 0}, {start}
    for step in range(1, depth + 1):
        ring = {other for pair in links for one in pair & ring for other in pair - {one}} - steps.keys()
        steps |= dict.fromkeys(ring, step)
    return steps, {pair: n for pair, n in links.items() if pair <= steps.keys()}


@pytest.mark.parametrize("seed", range(6))
def test_without_reaching_a_bound_it_is_what_a_naive_walk_finds(harness: Harness, seed: int) -> None:
    chance = random.Random(seed)
    held: list[set[Entity]] = []
    for number in range(60):
        account, record = f"a{chance.randrange(14)}", {}
        for name in ("card_hash", "device_id"):
            if chance.random() < 0.6:
                record[name] = f"{name[0]}{chance.randrange(20)}"
        harness.take(paying(f"x{number}", account, chance.randrange(2_000), **record))
        held.append({("account_id", account), *record.items()})
    for depth in (1, 2, 3):
        graph = walked(harness.cases.file, A, depth, LinkLimits(1_000, 1_000, 1_000, 100_000))
        assert (steps_by_entity(graph), pairs(graph)) == naive(held, A, depth)
        assert graph.left_out == LeftOut()
