"""Rules for Prometheus: predictions, what came, what is wrong; asked for seldom."""

from __future__ import annotations

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest

from crossline.analysis.forecast import DailyForecast
from crossline.analysis.health.predictions import PredictionCheck
from crossline.analysis.health.shares import Precision
from crossline.basics.errors import RetryableError
from crossline.serve.cases.statistics.queries import RuleCounts
from crossline.serve.health.assess import Measured, assessed
from crossline.serve.health.values import HealthReport, Prediction, RuleFacts
from crossline.serve.metrics.rules import RuleGauges

TODAY, DAY_MS = 20_000, 86_400_000


class Reader:
    """Says how one rule does: 20 alerts a day where 10 were foretold."""

    def __init__(self) -> None:
        self.asked = 0
        self.error: Exception | None = None

    def __call__(self) -> HealthReport:
        self.asked += 1
        if self.error is not None:
            raise self.error
        facts = RuleFacts("burst", 1, "velocity", "high", "active", "", since_day=TODAY - 9)
        days = {TODAY - ago: (20, 0, 0) for ago in range(1, 9)}
        counts = RuleCounts(TODAY, TODAY - 9, {("burst", 1, "alert"): days})
        ahead = DailyForecast(10.0, 4.0, 16.0, 4.0)
        foretold = {"burst": Prediction(1, (TODAY - 9) * DAY_MS, ahead, None, Precision(40, 50))}
        rules = assessed([facts], counts, Measured(foretold))
        assert [type(each) for each in rules[0].held] == [PredictionCheck, PredictionCheck]
        return HealthReport("shop", TODAY * DAY_MS, rules, True, TODAY - 9, False, {})


def values_of(gauges: RuleGauges) -> dict[str, float]:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(gauges)  # type: ignore[arg-type]
    lines = generate_latest(registry).decode().splitlines()
    return {
        line.rpartition(" ")[0]: round(float(line.rpartition(" ")[2]), 3) for line in lines if not line.startswith("#")
    }


def test_predictions_stand_beside_what_came_and_what_is_beyond_is_wrong() -> None:
    found = values_of(RuleGauges(Reader()))
    name = "crossline_api_rule"
    # 6 * sqrt((1/7 + 1/4) / (5/4)) = 3.364 on each side of 10.
    assert found[f'{name}_predicted{{bound="low",figure="alerts",rule="burst"}}'] == 6.636
    assert found[f'{name}_predicted{{bound="high",figure="alerts",rule="burst"}}'] == 13.364
    assert found[f'{name}_came{{figure="alerts",rule="burst"}}'] == 20
    assert f'{name}_came{{figure="precision",rule="burst"}}' not in found  # too few labels
    assert {key: value for key, value in found.items() if "_wrong" in key} == {
        f'{name}_wrong{{rule="burst",why="{why}"}}': float(why == "alerts")
        for why in ("floods", "silent", "alerts", "precision", "parity", "drift")
    }
    assert found["crossline_api_rules_timestamp_seconds"] == TODAY * DAY_MS / 1_000


def test_it_is_asked_for_once_in_a_while_and_reported_on_where_it_cannot_be_read() -> None:
    reader, now_s = Reader(), [100.0]
    gauges = RuleGauges(reader, 15.0, lambda: now_s[0])
    first = values_of(gauges)
    assert values_of(gauges) == first
    assert reader.asked == 1
    now_s[0] += 15
    reader.error = RetryableError("locked")
    assert values_of(gauges) == first
    assert reader.asked == 2


def test_without_any_answer_yet_families_are_empty() -> None:
    reader = Reader()
    reader.error = RetryableError("locked")
    assert values_of(RuleGauges(reader)) == {}
