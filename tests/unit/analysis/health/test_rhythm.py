"""Silent and flooding rules, by hand."""

from __future__ import annotations

from crossline.analysis.forecast import DailyForecast
from crossline.analysis.health.rhythm import Rhythm, rhythm, usual

# 1.8 alerts a day are due: three days without one happen in exp(-5.4) = 0.5 % of cases, two in 2.7 %.
DUE = DailyForecast(1.8, 0.0, 5.0, 28.0)


def test_silence_is_reported_once_it_is_unlikely() -> None:
    assert rhythm([2, 2, 2, 0, 0], 0, 0, DUE) == Rhythm()
    assert rhythm([2, 2, 2, 0, 0, 0], 0, 0, DUE) == Rhythm("silent", 3)
    assert rhythm([2, 2, 2, 0, 0, 0], 1, 1, DUE) == Rhythm()  # it fired today
    assert rhythm([2, 2, 2, 0, 0, 0], 0, 0, None) == Rhythm()  # nothing is due


def test_a_rule_that_paused_as_long_before_is_not_silent() -> None:
    assert rhythm([9, 0, 0, 0, 9, 0, 0, 0], 0, 0, DUE) == Rhythm()
    assert rhythm([9, 0, 0, 0, 9, 0, 0, 0, 0], 0, 0, DUE) == Rhythm("silent", 4)
    assert rhythm([], 0, 0, DUE) == Rhythm()
    assert rhythm([0, 0, 0], 0, 0, DUE) == Rhythm("silent", 3)  # it has not fired since it was published


def test_floods_are_above_the_band_and_since_when() -> None:
    assert rhythm([2] * 10, 5, 5, DUE) == Rhythm()  # 5 is in the band
    assert rhythm([2] * 10, 6, 6, DUE) == Rhythm("floods", 0, 6 / 1.8)
    assert rhythm([2, 9, 2, 7, 8], 9, 9, DUE) == Rhythm("floods", 2, 5.0)
    rare = DailyForecast(0.1, 0.0, 0.7, 28.0)
    assert rhythm([0] * 10, 4, 4, rare) == Rhythm()  # four alerts flood nobody
    assert rhythm([0] * 10, 5, 5, DailyForecast(0.0, 0.0, 0.0, 28.0)) == Rhythm("floods", 0, 0.0)


def test_the_rules_own_past_predicts_from_before_the_last_week() -> None:
    assert usual([1] * 13) is None
    found = usual([4] * 7 + [900] * 7)
    assert found is not None
    assert (found.per_day, found.days) == (4.0, 7.0)
