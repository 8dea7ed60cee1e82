"""Intervals of shares against published ones."""

from __future__ import annotations

import pytest

from crossline.analysis.health.shares import Precision, difference, wilson


@pytest.mark.parametrize(
    ("true", "all_", "low", "high"),
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_wilson_is_that_of_newcombe_s_table(true: int, all_: int, low: float, high: float) -> None:
    """R. G. Newcombe, Statistics in Medicine 17 (1998) 857-872, table I, method 3."""
    assert wilson(true, all_) == pytest.approx((low, high), abs=5e-5)


@pytest.mark.parametrize(
    ("one", "other", "low", "high"),
    [
        ((56, 70), (48, 80), 0.0524, 0.3339),
        ((9, 10), (3, 10), 0.1705, 0.8090),
        ((5, 56), (0, 29), -0.0381, 0.1926),
        ((10, 10), (0, 10), 0.6075, 1.0),
    ],
)
def test_the_difference_is_that_of_newcombe_s_table(
    one: tuple[int, int], other: tuple[int, int], low: float, high: float
) -> None:
    """R. G. Newcombe, Statistics in Medicine 17 (1998) 873-890, table II, method 10."""
    assert difference(Precision(*one), Precision(*other)) == pytest.approx((low, high), abs=5e-5)


def test_below_thirty_labels_there_is_no_share() -> None:
    assert (Precision(29, 29).value, Precision(29, 29).interval) == (None, None)
    assert Precision(29, 29).text() == "too few labels"
    assert Precision(15, 30).text() == "0.50, 0.33 to 0.67"
