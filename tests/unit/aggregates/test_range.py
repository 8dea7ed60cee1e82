"""``range``: by hand, and against its twin over windows, panes, late records, cuts and restarts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.state.windows.naive import Row
from tests.unit.state.windows.test_random import streams

from .kit import SLOW, by_hand, refused, same_in_panes, same_in_windows

BETWEEN = st.lists(st.sampled_from(["", "evict", "restart"]), min_size=8, max_size=8)


@pytest.mark.parametrize("panes", [False, True])
def test_worked_values(panes: bool) -> None:
    # 5 alone spans nothing, {5, 9} 4, {5, 9, 2} 7; at 31 the 5 and the 9 have left, and {2, 8} span 6, but panes of 10
    # ms still have both; at 60 there are the two 8.
    records = [(0, 5), (1, 9), (2, 2), (31, 8), (60, 8)]
    assert by_hand("range", "int", *records, panes=panes) == [0, 4, 7, 6 if not panes else 7, 0]
    assert by_hand("range", "float", (0, 0.5), (1, -0.25), (2, 4.0), panes=panes) == [0.0, 0.75, 4.25]


@pytest.mark.parametrize("panes", [False, True])
def test_integers_stay_exact_beyond_64_bits(panes: bool) -> None:
    least, greatest = -(2**63), 2**63 - 1
    assert by_hand("range", "int", (0, least), (1, greatest), (2, 0), panes=panes) == [0, 2**64 - 1, 2**64 - 1]
    assert by_hand("range", "int", (0, least), (1, -1), panes=panes)[-1] == 2**63 - 1
    assert by_hand("range", "int", (0, least), (1, 0), panes=panes)[-1] == 2**63


def test_of_floats_it_is_rounded_once_and_may_be_infinite() -> None:
    assert by_hand("range", "float", (0, 1e16), (1, -1.0)) == [0.0, 1e16]  # 1e16 + 1 is no float: the even one
    assert by_hand("range", "float", (0, 1.5e308), (1, -1.5e308)) == [0.0, float("inf")]


def test_it_is_of_numbers_and_of_times() -> None:
    assert refused("range", "amount_cents") == refused("range", "rate") == []
    ((path, expected),) = refused("range", "status")
    assert path == "aggregation_field"
    assert "type integer or number, for range" in expected


@SLOW
@given(streams(), BETWEEN)
def test_windows_are_as_the_twin_has_them(batches: list[list[Row]], between: list[str]) -> None:
    same_in_windows("range", batches, between)


@SLOW
@given(streams(), BETWEEN)
def test_panes_are_as_the_twin_has_them(batches: list[list[Row]], between: list[str]) -> None:
    same_in_panes("range", batches, between)
