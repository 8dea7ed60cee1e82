"""``entropy``: by hand, and against its twin over windows, panes, late records, cuts and restarts."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.rules.rulekit import findings_of
from tests.unit.state.windows.naive import Row
from tests.unit.state.windows.test_random import streams

from .kit import SLOW, by_hand, refused, same_in_panes, same_in_windows

BETWEEN = st.lists(st.sampled_from(["", "evict", "restart"]), min_size=8, max_size=8)


@pytest.mark.parametrize("panes", [False, True])
def test_worked_values(panes: bool) -> None:
    # {7}: 0 bits; {7, 7}: 0; {7, 7, 8}: 2/3 log2(3/2) + 1/3 log2(3) = log2(3) - 2/3; {7, 7, 8, 8}: 1;
    # {7, 7, 8, 8} and four of 9: a quarter, a quarter and a half are 1/4 * 2 + 1/4 * 2 + 1/2 * 1 = 1.5.
    values = [7, 7, 8, 8, 9, 9, 9, 9]
    found = by_hand("entropy", "code", *enumerate(values), panes=panes)
    assert (found[0], found[1], found[3], found[7]) == (0.0, 0.0, 1.0, 1.5)
    assert found[2] == pytest.approx(math.log2(3) - 2 / 3, rel=1e-15)


@pytest.mark.parametrize("panes", [False, True])
def test_as_many_different_values_as_records(panes: bool) -> None:
    found = by_hand("entropy", "code", *((0, at) for at in range(64)), panes=panes)
    assert found[-1] == 6.0
    assert found[15] == 4.0


def test_what_leaves_the_window_counts_no_longer() -> None:
    # The window of 30 ms: at 31 the first has left, and one value of two remains; at 70 there is one record.
    assert by_hand("entropy", "code", (0, 1), (31, 2), (32, 2), (70, 3)) == [0.0, 0.0, 0.0, 0.0]
    assert by_hand("entropy", "code", (0, 1), (10, 2), (30, 2)) == [0.0, 1.0, 0.0]


def test_a_late_record_counts_at_its_own_time() -> None:
    # 2 at 20 comes when 40 is there: its own window, up to 20, has {1, 2}, and that of 41 has {2, 3, 3}.
    found = by_hand("entropy", "code", (10, 1), (40, 3), (20, 2), (41, 3))
    assert found[2] == 1.0
    assert found[3] == pytest.approx(math.log2(3) - 2 / 3, rel=1e-15)


def test_it_is_of_any_field_that_has_one_value() -> None:
    assert refused("entropy", "status") == refused("entropy", "rate") == refused("entropy", "approved") == []
    ((path, expected),) = refused("entropy", "tags")
    assert path == "aggregation_field"
    assert "a field of one value, for entropy" in expected


@SLOW
@given(streams(), BETWEEN)
def test_windows_are_as_the_twin_has_them(batches: list[list[Row]], between: list[str]) -> None:
    same_in_windows("entropy", batches, between)


@SLOW
@given(streams(), BETWEEN)
def test_panes_are_as_the_twin_has_them(batches: list[list[Row]], between: list[str]) -> None:
    same_in_panes("entropy", batches, between)


def test_beside_figures_of_panes_it_is_of_panes_too() -> None:
    common = {"group_by": "account_id", "window": "1h"}
    figures = {"paid": {"sum": "amount_cents", **common, "resolution": "1m"}, "mixed": {"entropy": "status", **common}}
    body = {"rule_id": "r", "version": 1, "rule_type": "formula", "source_topic": "payments", "figures": figures}
    ((path, expected),) = findings_of({**body, "when": "paid > 1 and mixed < 1"})
    assert path == "figures.mixed.resolution"
    assert "different values are in sketches" in expected
