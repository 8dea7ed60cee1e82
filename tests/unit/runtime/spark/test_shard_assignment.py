"""Homes are shared out fairly, and as few move as can be: held against all ways there are to share them out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import product
from math import ceil, floor

from hypothesis import given
from hypothesis import strategies as st

from crossline.runtime.spark_internals.shard_assignment import assign_parts, assign_standbys, round_robin

NAMES = ("0", "1", "2", "9", "10")


def moved(now: Sequence[str], before: Sequence[str]) -> int:
    return sum(one != other for one, other in zip(now, before, strict=True))


def fair(placement: Sequence[str], cores: Mapping[str, int]) -> bool:
    """Nobody is as much as one part away from a share by cores."""
    shares = {name: Fraction(len(placement) * count, sum(cores.values())) for name, count in cores.items()}
    return set(placement) <= set(cores) and all(
        floor(share) <= placement.count(name) <= ceil(share) for name, share in shares.items()
    )


@st.composite
def changes(draw: st.DrawFn) -> tuple[Mapping[str, int], Sequence[str]]:
    """Executors that are there, up to three, and homes of before, with any that are gone."""
    there = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True))
    cores = {name: draw(st.integers(1, 4)) for name in there}
    return cores, draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=6))


@given(changes())
def test_no_fair_way_moves_less(change: tuple[Mapping[str, int], Sequence[str]]) -> None:
    cores, before = change
    placement = assign_parts(len(before), cores, before)
    assert fair(placement, cores)
    ways = (way for way in product(cores, repeat=len(before)) if fair(way, cores))
    assert moved(placement, before) == min(moved(way, before) for way in ways)


@given(changes(), st.randoms(use_true_random=False))
def test_the_order_in_which_executors_are_reported_says_nothing(
    change: tuple[Mapping[str, int], Sequence[str]], draw: object
) -> None:
    cores, before = change
    reported = list(cores.items())
    draw.shuffle(reported)  # type: ignore[attr-defined]
    placement = assign_parts(len(before), cores, before)
    assert assign_parts(len(before), dict(reported), before) == placement
    assert assign_parts(len(before), cores, placement) == placement


def test_executors_that_come_and_go() -> None:
    alone = assign_parts(4, {"0": 1})
    assert alone == ("0", "0", "0", "0")
    two = assign_parts(4, {"0": 1, "1": 1}, alone)
    assert two == ("0", "0", "1", "1")
    assert assign_parts(4, {"0": 1, "2": 1}, two) == ("0", "0", "2", "2")
    assert assign_parts(4, {"1": 1}, two) == ("1", "1", "1", "1")
    assert assign_parts(4, {}, two) == ()


def test_cores_are_shares_and_no_executor_gets_more_than_it_has() -> None:
    assert assign_parts(4, {"0": 3, "1": 1}) == ("0", "0", "0", "1")
    assert assign_parts(3, {"0": 1, "1": 4}) == ("0", "1", "1")


def test_executors_in_turns() -> None:
    assert round_robin(("0", "0", "0", "10", "2", "2")) == ["0", "2", "10", "0", "2", "0"]
    assert round_robin(()) == []


def test_the_first_shards_go_to_executors_in_the_order_in_which_they_came() -> None:
    assert assign_parts(3, {"10": 1, "9": 1, "2": 1}) == ("2", "9", "10")


@given(changes(), st.integers(1, 3))
def test_each_part_is_followed_by_another_executor_on_another_machine_where_there_is_one(
    change: tuple[Mapping[str, int], Sequence[str]], machines: int
) -> None:
    cores, before = change
    placement = assign_parts(len(before), cores, before)
    host_of = {name: str(number % machines) for number, name in enumerate(sorted(cores))}
    followed = assign_standbys(placement, host_of)
    if len(set(placement)) < 2:
        assert followed == ()
        return
    for name, by in zip(placement, (placement[part] for part in followed), strict=True):
        assert by != name
        elsewhere = any(host_of[other] != host_of[name] for other in placement)
        assert not elsewhere or host_of[by] != host_of[name]


@given(changes())
def test_the_parts_of_a_lost_executor_go_to_those_that_follow_them(
    change: tuple[Mapping[str, int], Sequence[str]],
) -> None:
    """As far as shares allow; and no more parts move than without."""
    cores, before = change
    placement = assign_parts(len(before), cores, before)
    followers = [placement[part] for part in assign_standbys(placement, dict.fromkeys(cores, "one"))]
    for lost in set(placement) if followers else ():
        rest = {name: count for name, count in cores.items() if name != lost}
        now = assign_parts(len(placement), rest, placement, followers)
        assert fair(now, rest)
        assert moved(now, placement) == moved(assign_parts(len(placement), rest, placement), placement)
        for part in (part for part, name in enumerate(placement) if name == lost and now[part] != followers[part]):
            got = [each for each, name in enumerate(now) if name == followers[part] and placement[each] == lost]
            assert all(followers[each] == followers[part] for each in got), "another one took its room"


def test_standbys_are_shared_out() -> None:
    placement = ("0", "0", "1", "1", "2", "2")
    hosts = dict.fromkeys(("0", "1", "2"), "one")
    followers = [placement[part] for part in assign_standbys(placement, hosts)]
    assert followers == ["1", "2", "0", "2", "0", "1"]
    assert assign_parts(6, {"1": 1, "2": 1}, placement, followers) == ("1", "2", "1", "1", "2", "2")
    assert assign_standbys(("0", "1"), {"0": "a", "1": "a"}) == (1, 0)
    assert assign_standbys(("0", "0"), {"0": "a"}) == ()
