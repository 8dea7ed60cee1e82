"""The counts of objectives as Prometheus reads them, beside the other figures of a run or an API."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import Metric

from crossline.basics.errors import CrosslineError
from crossline.logs import get_logger
from crossline.observe.objectives.budget import PERIOD
from crossline.observe.objectives.recorder import Recorder
from crossline.observe.objectives.report import ObjectiveStatus, found_of, last_minute
from crossline.observe.watch.exposition import metric_counter, metric_gauge

EVENTS, BAD = "slo_events", "slo_bad_events"
_UNIT = {"ms": 1_000.0, "share": 1.0, "": 1.0}  # of metrics, in those of limits

log = get_logger(__name__)


class ObjectiveCollector:
    """Counters begin at 0, so that their rates begin at the start; the rest is as of the last minute written."""

    def __init__(self, pipeline: str, recorder: Recorder) -> None:
        self._pipeline = pipeline
        self._recorder = recorder
        self._known: tuple[int, list[ObjectiveStatus]] = (-1, [])

    def collect(self) -> Iterator[Metric]:
        """All families."""
        labels = ["pipeline", "objective"]
        for name, help_text, counted in (
            (EVENTS, "What an objective is about: alerts, answers, seconds, minutes, requests.", self._recorder.events),
            (BAD, "Those that did not keep it.", self._recorder.bad),
        ):
            values = {(self._pipeline, objective): count for objective, count in counted.copy().items()}
            yield metric_counter(name, help_text, labels, values)
        yield from self._standing(labels)

    def _standing(self, labels: list[str]) -> Iterator[Metric]:
        found = self._found()
        values = {
            (self._pipeline, each.objective.name, window): value / _UNIT[each.objective.measure]
            for each in found
            for window, value in each.values.items()
            if value is not None
        }
        shares = {
            (self._pipeline, each.objective.name, window): float(one.share)
            for each in found
            for window, one in each.windows.items()
            if one.share is not None
        }
        left = {
            (self._pipeline, each.objective.name): float(budget)
            for each in found
            if (budget := each.windows[PERIOD].budget_left) is not None
        }
        text = "The value at the percentile that is promised, in seconds; of the checkpoint as a share."
        yield metric_gauge("slo_value", text, [*labels, "window"], values)
        yield metric_gauge("slo_good_ratio", "Events within the objective.", [*labels, "window"], shares)
        yield metric_gauge("slo_budget_left_ratio", "What is left of the 30 days' error budget.", labels, left)

    def _found(self) -> list[ObjectiveStatus]:
        """Read once a minute, however often it is scraped; nothing where the file cannot be read now."""
        recorder = self._recorder
        end = last_minute(recorder.now_ms())
        if self._known[0] != end:
            try:
                self._known = end, [found_of(recorder.file, each, end) for each in recorder.objectives]
            except (CrosslineError, OSError) as error:
                log.warning("the status of objectives cannot be read now", error=str(error))
                return []
        return self._known[1]
