"""Alerts a day that are foretold: the interval of rare events, wider where days scatter more or are few."""

from __future__ import annotations

import math

import pytest

from crossline.analysis.forecast import forecast


def test_equal_days_scatter_as_rare_events_do() -> None:
    found = forecast([4, 4, 4, 4], 4.0)
    half = 1.959964 * math.sqrt(4 * (1 + 1 / 4))
    assert (found.per_day, found.low, found.high) == pytest.approx((4, 0, 4 + half))


def test_days_that_scatter_more_have_a_wider_interval() -> None:
    found = forecast([0, 20, 0, 20], 4.0)
    # The variance of these four is (4 * 100) / 3.
    assert found.high == pytest.approx(10 + 1.959964 * math.sqrt(400 / 3 * 1.25))


def test_a_part_of_a_day_is_made_a_day_of() -> None:
    found = forecast([3], 0.5)
    assert found.per_day == 6
    assert found.high == pytest.approx(6 + 1.959964 * math.sqrt(6 * 3))
    assert forecast([0], 1.0).high > 0  # none in a day does not foretell none for ever


def test_without_a_time_span_there_is_no_forecast() -> None:
    with pytest.raises(ValueError, match="0 days"):
        forecast([], 0)
