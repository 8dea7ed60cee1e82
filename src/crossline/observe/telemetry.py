"""The telemetry of a run: metrics endpoint, spans, objectives."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Self

from crossline.basics.errors import UsageError
from crossline.io.sinks.base import Delivery, SinkWatch
from crossline.logs import get_logger
from crossline.observe.objectives.metrics import ObjectiveCollector
from crossline.observe.objectives.run_objectives import RunObjectives
from crossline.observe.sinks import SinkWatches
from crossline.observe.tracing import spans_wanted
from crossline.observe.watch.run_watch import RunWatch, WatchedPipeline
from crossline.runtime.pipeline.assemble import clocks_of
from crossline.runtime.work.totals import Totals
from crossline.settings.config import PipelineConfig
from crossline.settings.watch import OtlpSettings

if TYPE_CHECKING:
    from crossline.observe.spans.exporter import Spans

log = get_logger(__name__)


class Telemetry:
    """What serves figures (``watch``), sends ``spans`` and counts for ``objectives``, each where it is wanted."""

    def __init__(self, watch: RunWatch | None, spans: Spans | None, objectives: RunObjectives | None = None) -> None:
        self._watch = watch
        self._spans = spans
        self._objectives = objectives
        watches: list[SinkWatch] = [] if watch is None else [watch.figures]
        self.sinks = SinkWatches(watches if spans is None else [*watches, spans])

    @classmethod
    def of(cls, config: PipelineConfig) -> Self:
        """Those that the pipeline and the environment ask for.

        Raises UsageError where the pipeline asks for spans and their library is not installed, or where the address to
        listen on is in use; PermanentError where the key of the collector cannot be read.
        """
        spans, objectives = _spans(config), _objectives(config)
        more = None if objectives is None else ObjectiveCollector(config.name, objectives.recorder)
        try:
            watch = None if config.watch is None else RunWatch(config.watch, config.name, clocks_of(config), more)
        except BaseException:
            if spans is not None:
                spans.close()
            raise
        return cls(watch, spans, objectives)

    def follow(self, pipeline: WatchedPipeline) -> None:
        """They watch ``pipeline`` from now on, which was not started yet."""
        if self._watch is not None:
            self._watch.follow(pipeline)
        if self._spans is not None:
            self._spans.name_sinks(pipeline.sinks)
        if self._objectives is not None:
            self._objectives.follow(pipeline)

    def batch(self, delivery: Delivery, totals: Totals) -> None:
        """A batch is with every sink."""
        if self._watch is not None:
            self._watch.batch(delivery, totals)
        if self._spans is not None:
            self._spans.batch(delivery, totals)
        if self._objectives is not None:
            self._objectives.batch(delivery, totals)

    def close(self) -> None:
        """Watch no more."""
        if self._watch is not None:
            self._watch.close()
        if self._spans is not None:
            self._spans.close()
        if self._objectives is not None:
            self._objectives.close()


def _objectives(config: PipelineConfig) -> RunObjectives | None:
    """What counts a run: its minutes are what its health is held against, also where no objective is about the run."""
    return None if config.slo is None else RunObjectives(config)


def _spans(config: PipelineConfig) -> Spans | None:
    asked: OtlpSettings | None = None if config.watch is None else config.watch.otlp
    if not spans_wanted(asked, os.environ):
        return None
    try:
        from crossline.observe.spans.exporter import Spans  # noqa: PLC0415 - an extra that few have
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "crossline":
            raise
        reason = f"spans need {error.name}, which is not installed: pip install 'crossline[otlp]'"
        if asked is not None:
            raise UsageError(f"watch.otlp: {reason}") from None
        log.warning("no spans are sent, for which the environment asks", error=reason)  # others may have set it
        return None
    return Spans(asked, config.name)
