"""The health of a rule, from given counts."""

from __future__ import annotations

from typing import Any

import pytest

from crossline.analysis.forecast import DailyForecast
from crossline.analysis.health.delays import Cell
from crossline.analysis.health.rhythm import Rhythm
from crossline.analysis.health.shares import Precision
from crossline.serve.cases.statistics.queries import RuleCounts, Verdicts
from crossline.serve.health.assess import Measured, assessed
from crossline.serve.health.sentences import HealthNote, notes_of, parity_text
from crossline.serve.health.values import Parity, Prediction, RuleFacts, RuleHealth, RuleOverlap

TODAY, DAY_MS = 20_000, 86_400_000
FACTS = RuleFacts("burst", 2, "velocity", "high", "active", "risk", since_day=TODAY - 20)
AHEAD = DailyForecast(10.0, 2.0, 18.0, 4.0)


def counts(**more: Any) -> RuleCounts:
    """Ten alerts a day for twenty days, and today none yet."""
    days = {TODAY - ago: (10, 0, 0) for ago in range(1, 20)}
    return RuleCounts(TODAY, since_day=TODAY - 40, days={("burst", 2, "alert"): days}, **more)


def one(found: RuleCounts, **measured: Any) -> RuleHealth:
    (health,) = assessed([FACTS], found, Measured(**measured))
    return health


def test_days_are_whole_ones_since_the_rule_judges() -> None:
    health = one(counts())
    assert (health.first_day, health.days) == (TODAY - 19, (10,) * 19 + (0,))
    assert (health.last_7d, health.due_by) == (60, "past")
    assert health.due is not None
    assert (health.due.per_day, health.due.days) == (10.0, 12.0)  # 19 days, the last seven left out
    young = RuleFacts("burst", 2, "velocity", "high", "active", "", since_day=TODAY)
    (health,) = assessed([young], counts(), Measured())
    assert (health.days, health.due, health.wrong) == ((0,), None, ())


def test_retracted_alerts_are_no_hits_and_other_kinds_and_versions_stand_apart() -> None:
    found = counts()
    found.days["burst", 1, "alert"] = {TODAY - 1: (4, 1, 0)}
    found.days["burst", 2, "shadow"] = {TODAY - 1: (100, 0, 0)}
    found.days["other", 2, "alert"] = {TODAY - 1: (100, 0, 0)}
    assert one(found).days[-2] == 10 + 4 - 1


def test_a_prediction_is_compared_with_its_own_version_since_publication() -> None:
    found = counts()
    found.days["burst", 1, "alert"] = {TODAY - 1: (500, 0, 0)}  # of the version before
    found.money["burst", 2, "alert"] = {TODAY - ago: 70.0 for ago in (1, 2, 3, 9)}
    published = (TODAY - 4) * DAY_MS + DAY_MS // 2
    foretold = Prediction(2, published, AHEAD, DailyForecast(10.0, 2.0, 18.0, 4.0), Precision(48, 80))
    health = one(found, foretold={"burst": foretold})
    alerts, money, precision = health.held
    assert (alerts.came, alerts.of, alerts.beyond) == (10.0, 3, False)  # days -3, -2 and -1
    assert (money.came, money.of, money.beyond) == (70.0, 3, True)
    assert (precision.came, precision.beyond) == (None, False)
    assert health.wrong == ("money",)
    assert health.calls
    # 8 * sqrt((1/3 + 1/4) / (5/4)) = 5.465 on each side of 10.
    assert notes_of(health) == (HealthNote("money", "Money a day: 70.00, predicted 4.53 to 15.47"),)


def test_labels_of_90_days_and_those_to_come() -> None:
    found = counts()
    found.verdicts["burst", 2, "alert"] = Verdicts(30, 40, (Cell(True, 5, 0, 30), Cell(False, 5, 0, 10)))
    found.verdicts["burst", 1, "feed"] = Verdicts(0, 10, (Cell(False, 1, 0, 10),))
    # Of all rules' frauds half come within a day, and all good ones.
    found.delays = [Cell(True, 9, 0, 50), Cell(True, 9, 1, 50), Cell(False, 9, 0, 50)]
    found.delays += [Cell(True, 1, 0, 0)]
    health = one(found)
    assert health.precision == Precision(30, 50)
    assert health.corrected.precision.value == pytest.approx(0.6)  # alerts of 5 days ago have all their labels
    found.verdicts["burst", 2, "alert"] = Verdicts(30, 40, (Cell(True, 1, 0, 30), Cell(False, 5, 0, 10)))
    health = one(found)
    assert health.corrected.precision.value == pytest.approx(60 / 80)  # 30 frauds of yesterday will be 60
    assert health.corrected.expected == pytest.approx(30)


def test_overlap_suppressions_drift_and_parity() -> None:
    found = counts(
        pairs={"burst": {"burst": (50, 40, 0), "mule": (10, 30, 19), "geo": (20, 20, 0), "few": (1, 0, 0)}},
        figures={("burst", 2): ({9_000: 100}, {9_016: 100})},
    )
    found.days["burst", 2, "alert"][TODAY] = (10, 0, 35)  # of 70 in seven days
    health = one(found, parity={"burst": Parity(5, 1, 2)})
    assert health.met == (
        RuleOverlap("geo", 0.4, 0.5, 0.0),
        RuleOverlap("mule", 0.2, 0.75, 0.38),
        RuleOverlap("few", 0.02, 0.0, 0.0),
    )
    assert health.hidden == 0.5
    assert health.wrong == ("parity", "drift")
    assert [each.text for each in notes_of(health)] == [
        "API and stream: 3 differ",
        "Drift: figure 4.0 \N{MULTIPLICATION SIGN} last week",
        "40 % also geo",
        "Starved by mule, 38 %",
        "50 % hidden by suppressions",
    ]


def test_words_of_parity() -> None:
    lines = [parity_text(one(counts(), parity={"burst": each})) for each in (Parity(3), Parity(), Parity(3, 1))]
    assert lines == ["same", "no answers", "1 differs"]
    assert parity_text(one(counts())) == "not there"


def test_floods_say_since_when_and_a_paused_rule_is_not_silent() -> None:
    found = counts(lately={("burst", "alert"): [40] + [0] * 23})
    found.days["burst", 2, "alert"] |= {TODAY - 1: (90, 0, 0), TODAY - 2: (80, 0, 0)}
    health = one(found)
    assert health.rhythm == Rhythm("floods", 2, 4.0)
    # Day 19,998 of the epoch is 2024-10-02.
    assert notes_of(health)[0].text == "Floods since 2 Oct, 4 \N{MULTIPLICATION SIGN} usual"
    silent = counts()
    for ago in range(1, 5):
        del silent.days["burst", 2, "alert"][TODAY - ago]
    assert one(silent).rhythm == Rhythm("silent", 4)
    paused = RuleFacts("burst", 2, "velocity", "high", "paused", "", since_day=TODAY - 20)
    (health,) = assessed([paused], silent, Measured())
    assert health.rhythm == Rhythm()


def test_a_cooldown_starves_its_own_rule_and_those_whose_decisions_rest_on_it() -> None:
    pairs = {"burst": {"burst": (60, 50, 0), "mule": (30, 20, 30)}}
    # Of 100 records at which it would have alerted its cooldown held 40 back; of its 60 alerts 18 rest first on mule,
    # which was silent there, and 3 on one that it never shares a record with an alert of.
    cooled = {"burst": {"burst": 40, "mule": 18, "calm": 3}}
    health = one(counts(pairs=pairs, cooled=cooled))
    assert health.held_back == 0.4
    assert health.met == (RuleOverlap("mule", 0.5, 0.4, 0.5, 0.3), RuleOverlap("calm", 0.0, 0.0, 0.0, 0.05))
    assert HealthNote("cooldown", "Its cooldown holds back 40 % of its alerts") in notes_of(health)
    assert HealthNote("met", "Starved by mule in its cooldown, 30 %") in notes_of(health)
    assert one(counts(cooled={"burst": {"burst": 5}})).held_back == 1.0, "none of its alerts came"
    assert one(counts()).held_back == 0.0
