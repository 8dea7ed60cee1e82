"""The counts of objectives as Prometheus reads them, beside the other figures of a run or an API."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import Metric

from crossline.serve.objectives.recorder import Recorder
from crossline.serve.watch.exposition import metric_counter

EVENTS, BAD = "slo_events", "slo_bad_events"


class ObjectiveCollector:
    """Both are told from 0 on, so that their rates begin at the start."""

    def __init__(self, pipeline: str, recorder: Recorder) -> None:
        self._pipeline = pipeline
        self._recorder = recorder

    def collect(self) -> Iterator[Metric]:
        """Both families."""
        labels = ["pipeline", "objective"]
        for name, said, counted in (
            (EVENTS, "What an objective is about: alerts, answers, seconds, minutes, requests.", self._recorder.events),
            (BAD, "Those that did not keep it.", self._recorder.bad),
        ):
            values = {(self._pipeline, objective): count for objective, count in counted.copy().items()}
            yield metric_counter(name, said, labels, values)
