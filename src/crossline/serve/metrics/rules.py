"""How rules do, for Prometheus: predictions beside what came, and what is wrong."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

from prometheus_client.core import Metric

from crossline.basics.errors import CrosslineError
from crossline.logs import get_logger
from crossline.observe.watch.exposition import metric_gauge
from crossline.serve.health.values import WRONG, HealthReport
from crossline.serve.http.problems import ProblemError

RULES_MAX, KEPT_S = 200, 15.0
FIGURES = ("alerts", "money", "precision")

log = get_logger(__name__)


class RuleGauges:
    """Asks ``report`` at most every ``kept_s`` seconds, however often it is scraped. Of rules the first 200 by name."""

    def __init__(
        self, report: Callable[[], HealthReport], kept_s: float = KEPT_S, clock_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._report = report
        self._kept_s = kept_s
        self._clock_s = clock_s
        self._lock = threading.Lock()
        self._known: tuple[float, HealthReport] | None = None

    def collect(self) -> Iterator[Metric]:
        """All families, also those that have no value now."""
        report = self._now()
        rules = () if report is None else report.rules[:RULES_MAX]
        held = [(each.facts.rule_id, one) for each in rules for one in each.held]
        predicted = {
            (name, one.figure, bound): value
            for name, one in held
            for bound, value in (("low", one.low), ("high", one.high))
        }
        yield metric_gauge(
            "api_rule_predicted", "What the backtest of the version in force foretold: the ends of its 95 % interval.",
            ["rule", "figure", "bound"], predicted,
        )  # fmt: skip
        came = {(name, one.figure): one.came for name, one in held if one.came is not None}
        yield metric_gauge(
            "api_rule_came", "Observed: means of whole days of the past week, precision of labelled alerts.",
            ["rule", "figure"], came,
        )  # fmt: skip
        wrong = {
            (each.facts.rule_id, why): float(why in each.wrong)
            for each in rules
            for why in WRONG
            if why not in FIGURES or any(one.figure == why for one in each.held)
        }
        yield metric_gauge(
            "api_rule_wrong",
            "1 where a rule is silent, floods, drifts, differs from the stream, or is beyond what was foretold of it.",
            ["rule", "why"],
            wrong,
        )
        at_s = {} if report is None else {(): report.at_ms / 1_000}
        yield metric_gauge("api_rules_timestamp_seconds", "As of when that of rules is.", [], at_s)

    def _now(self) -> HealthReport | None:
        with self._lock:
            now_s = self._clock_s()
            if self._known is None or now_s - self._known[0] >= self._kept_s:
                try:
                    self._known = (now_s, self._report())
                except (CrosslineError, ProblemError) as error:
                    log.warning("the health of rules cannot be read now", error=str(error))
            return None if self._known is None else self._known[1]
