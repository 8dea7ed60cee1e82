"""Predictions that are kept or not, by hand."""

from __future__ import annotations

import pytest

from crossline.analysis.forecast import DailyForecast, forecast, forecast_sum
from crossline.analysis.health.predictions import PredictionCheck, check_mean, check_precision, mean_interval
from crossline.analysis.health.shares import Precision

AHEAD = DailyForecast(per_day=10.0, low=2.0, high=18.0, days=4.0)


def test_the_mean_of_more_days_is_known_better() -> None:
    assert mean_interval(AHEAD, 1) == pytest.approx((2.0, 18.0))  # that of a day
    # 8 * sqrt((1/4 + 1/4) / (5/4)) = 5.0596
    assert mean_interval(AHEAD, 4) == pytest.approx((4.9404, 15.0596), abs=1e-4)
    # The past itself is of 4 days: 8 * sqrt(0.25 / 1.25) = 3.5777 stays, however many days come.
    assert mean_interval(AHEAD, 10**9) == pytest.approx((6.4223, 13.5777), abs=1e-4)


def test_a_mean_is_beyond_its_interval_or_not() -> None:
    assert check_mean("alerts", AHEAD, []) == PredictionCheck("alerts", 10.0, 2.0, 18.0, None, 0, beyond=False)
    assert not check_mean("alerts", AHEAD, [17]).beyond
    assert check_mean("alerts", AHEAD, [19]).beyond
    found = check_mean("money", AHEAD, [17, 17, 17, 17])
    assert (found.figure, found.came, found.of, found.beyond) == ("money", 17.0, 4, True)
    assert check_mean("alerts", AHEAD, [0, 1]).beyond


def test_precision_is_beyond_where_the_difference_leaves_out_nothing() -> None:
    ahead = Precision(48, 80)
    worse = check_precision(ahead, Precision(30, 100))
    assert worse is not None
    assert (worse.predicted, worse.came, worse.of, worse.beyond) == (0.6, 0.3, 100, True)
    same = check_precision(ahead, Precision(55, 100))
    assert same is not None
    assert not same.beyond
    better = check_precision(ahead, Precision(56, 70))  # Newcombe 1998: 0.0524 to 0.3339
    assert better is not None
    assert better.beyond
    few = check_precision(ahead, Precision(0, 29))
    assert few is not None
    assert (few.came, few.beyond) == (None, False)
    assert check_precision(Precision(5, 29), Precision(50, 100)) is None


def test_sums_of_a_day_scatter_as_sums_of_rare_events_at_least() -> None:
    # Four days of 4 alerts of 10: the variance of a day is 4 * 100, and 1.959964 * sqrt(400 * 1.25) = 43.8261.
    found = forecast_sum([40, 40, 40, 40], 1_600, 4.0)
    assert (found.per_day, found.low, found.high) == pytest.approx((40.0, 0.0, 83.8261), abs=1e-3)
    # Days that scatter more than that: variance (400 + 400) / 1 = 800 of 20 and 60.
    found = forecast_sum([20, 60], 400, 2.0)
    assert found.high == pytest.approx(40 + 1.959964 * (800 * 1.5) ** 0.5)
    # Amounts of 1 are counts.
    assert forecast_sum([3, 5], 8, 2.0) == forecast([3, 5], 2.0)
