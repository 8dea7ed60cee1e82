"""Distances of formulas that are judged together: each as if it stood alone, whatever places they share."""

from __future__ import annotations

import math
from unittest import mock

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from crossline.basics.fields import FieldKind
from crossline.basics.formula.check import check
from crossline.basics.formula.columns import FormulaProgram
from crossline.basics.formula.formula import Formula
from crossline.basics.formula.naive import evaluate

NAMES = ("lat", "lon", "a_lat", "a_lon", "b_lat", "b_lon")
KINDS: dict[str, FieldKind] = {**dict.fromkeys(NAMES, "number"), "whole": "integer"}
TEXTS = (
    "haversine_km(a_lat, a_lon, lat, lon) > 100",
    "haversine_km(b_lat, b_lon, lat, lon) > 100",
    "haversine_km(lat, lon, b_lat, b_lon) < 1",
    "haversine_km(b_lat, b_lon, whole, lon) >= 0",
    "haversine_km(10, 20, 10, 20) == 0",
    "missing(haversine_km(a_lat, a_lon, 10, 20))",
    "haversine_km(a_lat, a_lon, lat, lon) / (whole - 1) > 3 and haversine_km(b_lat, a_lon, lat, lon) > 0",
)
FAR_TEXTS = (
    "haversine_km(a_lat, a_lon, lat, lon) >= 1500 and haversine_km(a_lat, a_lon, lat, lon) * 2 > whole",
    "haversine_km(b_lat, b_lon, lat, lon) > 1111.9492664455872",
    "haversine_km(b_lat, b_lon, lat, lon) > 0 and haversine_km(b_lat, b_lon, lat, lon) >= 0.0001",
    "haversine_km(10, 20, lat, lon) > 1e9",
    "whole > 0 and haversine_km(a_lat, a_lon, b_lat, b_lon) >= 5000",
)
DEGREES = st.sampled_from([0.0, -0.0, 10.0, 10.000001, 89.9, 90.0, 90.1, -91.0, 180.0, math.inf, math.nan, None])
ROW = st.tuples(*[DEGREES] * len(NAMES), st.sampled_from([0, 1, 10, 91, 2**53 + 1, None]))


def formula(text: str) -> Formula:
    found = check(text, KINDS, (), "verdict")
    assert isinstance(found, Formula), found
    return found


@settings(deadline=None)
@given(
    st.lists(ROW, min_size=1, max_size=12),
    st.permutations(TEXTS) | st.lists(st.sampled_from(FAR_TEXTS), min_size=1, max_size=5),
)
def test_each_formula_holds_as_it_does_alone(rows: list[tuple[float | None, ...]], texts: list[str]) -> None:
    formulas = [formula(text) for text in texts]
    columns = {}
    for number, name in enumerate(KINDS):
        values = [row[number] for row in rows]
        kind = np.int64 if name == "whole" else np.float64
        valid = np.array([each is not None for each in values])
        columns[name] = (np.array([0 if each is None else each for each in values], kind), valid)
    program = FormulaProgram(formulas)
    for read, held, (shown, there) in zip(
        formulas, program.truths(columns, len(rows)), program.run(columns, len(rows)), strict=True
    ):
        expected = [bool(evaluate(read.root, _of(row))) for row in rows]
        assert np.broadcast_to(held, len(rows)).tolist() == expected, read.text
        assert np.logical_and(shown, there).tolist() == expected, read.text


def test_distances_that_no_formula_asks_for_are_not_computed() -> None:
    near = [formula(text) for text in FAR_TEXTS[:2]]
    columns = {name: (np.array([10.0, 10.01]), None) for name in NAMES} | {"whole": (np.array([1, 1]), None)}
    with mock.patch("crossline.basics.formula.calls._distances_km") as exact:
        assert [np.broadcast_to(each, 2).any() for each in FormulaProgram(near).truths(columns, 2)] == [False, False]
        assert not exact.called
    with mock.patch("crossline.basics.formula.calls._distances_km", return_value=np.zeros(2)) as exact:
        FormulaProgram([*near, formula(TEXTS[2])]).truths(columns, 2)  # which holds for the shortest
        assert exact.called


@given(st.lists(ROW, min_size=1, max_size=12))
def test_a_distance_is_the_same_to_the_last_bit(rows: list[tuple[float | None, ...]]) -> None:
    texts = ["haversine_km(a_lat, a_lon, lat, lon)", "haversine_km(b_lat, b_lon, lat, lon)"]
    found = [check(text, KINDS, (), "value") for text in texts]
    both = [each for each in found if isinstance(each, Formula)]
    assert len(both) == 2, found
    columns = {
        name: (
            np.array([0.0 if row[number] is None else row[number] for row in rows]),
            np.array([row[number] is not None for row in rows]),
        )
        for number, name in enumerate(NAMES)
    }
    for each, (values, there) in zip(both, FormulaProgram(both).run(columns, len(rows)), strict=True):
        shown = [value if valid else None for value, valid in zip(values.tolist(), there.tolist(), strict=True)]
        assert shown == [evaluate(each.root, _of(row)) for row in rows]


def _of(row: tuple[float | None, ...]) -> dict[str, float | None]:
    """The fields of a row; a number that is none is missing."""
    named = zip(KINDS, row, strict=True)
    return {name: None if isinstance(value, float) and math.isnan(value) else value for name, value in named}
