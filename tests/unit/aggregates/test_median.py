"""``median``: by hand, and against its twin over panes, late records, cuts and restarts."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.state.windows.naive import Row
from tests.unit.state.windows.test_random import streams

from crossline.programs.aggregate import Scanned
from crossline.programs.registry import declared
from crossline.state.windows.store import KeySpaceState

from .kit import SLOW, by_hand, groups_of, refused, same_in_panes, window_plan

BETWEEN = st.lists(st.sampled_from(["", "evict", "restart"]), min_size=8, max_size=8)
ERROR = 1 / 129  # of a sketch whose buckets are 1/64 of a power of two wide


@pytest.mark.parametrize("kind", ["int", "float"])
def test_worked_values(kind: str) -> None:
    # Of an even number it is the lower of the two in the middle: of {40} 40, with 10 that, with 30 it is 30, and with
    # 1000 too.
    values = [40, 10, 30, 1000]
    records = [(at, value if kind == "int" else float(value)) for at, value in enumerate(values)]
    assert by_hand("median", kind, *records, panes=True) == pytest.approx([40, 10, 30, 30], rel=ERROR)


def test_it_is_reported_of_panes_alone() -> None:
    with pytest.raises(ValueError, match="median is not defined on windows of records"):
        KeySpaceState(window_plan(groups_of("median")))


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"rule_type": "burst", "any_of": [{"median": "> 5"}], "aggregation_type": None, "aggregation_threshold": None},
    ],
    ids=["velocity", "burst"],
)
def test_a_rule_without_panes_is_reported_what_it_needs(more: dict[str, Any]) -> None:
    given = {name: value for name, value in more.items() if value is not None}
    unwanted = [name for name, value in more.items() if value is None]
    ((path, expected),) = refused("median", "amount_cents", unwanted=unwanted, **given)
    assert path == "resolution"
    assert "a resolution such as 1h: over panes a median is a sketch" in expected
    assert refused("median", "amount_cents", unwanted=unwanted, **given, resolution="1m") == []


def test_the_twin_by_hand() -> None:
    of = declared("median").naive
    assert [of(Scanned(values, rank=0.5)) for values in ([7], [7, 1], [7, 1, 3], [7, 1, 3, 9])] == [7, 1, 3, 3]


@SLOW
@given(streams(), BETWEEN)
def test_panes_are_as_the_twin_has_them(batches: list[list[Row]], between: list[str]) -> None:
    same_in_panes("median", batches, between, rel=ERROR * (1 + 1e-9))
