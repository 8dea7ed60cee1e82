"""The HTTP endpoints of a run: metrics and health. They start before the pipeline and end after it."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Protocol

import orjson
from prometheus_client.exposition import choose_encoder

from crossline.io.sinks.base import Delivery, Sink
from crossline.logs import get_logger
from crossline.observe.watch.disk_usage import DiskUsage, DiskUsageMeter
from crossline.observe.watch.exposition import Collector, RunCollector, registry_of
from crossline.observe.watch.health import HealthStatus, RunProgress, keeps_up, lives
from crossline.observe.watch.listener import HttpListener, HttpPage
from crossline.observe.watch.run_figures import RunFigures
from crossline.runtime.pipeline.lake_spool_sink import LakeSpoolSink
from crossline.runtime.pipeline.pipeline_status import PipelineStatus, SourceBacklog
from crossline.runtime.work.totals import Totals
from crossline.settings.watch import Address, WatchSettings

ASK_EVERY_S = 5.0  # Java whether the query lives, brokers what waits

log = get_logger(__name__)


class WatchedPipeline(Protocol):
    """The pipeline, as the watch reads it."""

    @property
    def sinks(self) -> Sequence[Sink]:
        """Its sinks."""
        ...

    @property
    def alive(self) -> bool:
        """Whether its query runs; may take as long as Java does."""
        ...

    def standing(self) -> PipelineStatus:
        """Its current state."""
        ...

    def waiting(self) -> list[SourceBacklog]:
        """What waits in its sources; may take as long as brokers do."""
        ...


class RunWatch:
    """Listens from the start; ``figures`` takes figures of sinks, ``batch`` those of batches, ``follow`` the pipeline.

    ``clocks``: by stream, whether ingest time is a ``wall`` clock, or comes from the records. What may take long is
    asked in a thread of its own, so that a page is answered whatever Java and brokers do. ``more``: what else of the
    run is exposed to Prometheus. Raises UsageError where its address is in use.
    """

    def __init__(
        self, settings: WatchSettings, pipeline: str, clocks: Mapping[str, str], more: Collector | None = None
    ) -> None:
        wall = [stream for stream, clock in clocks.items() if clock == "wall"]
        self.figures = RunFigures(settings.rules_max, wall, clocks)
        self._settings = settings
        self._pipeline: WatchedPipeline | None = None
        self._since_s = time.time()
        self._space = DiskUsageMeter()
        self._alive: bool | None = None
        self._asked_s: float | None = None  # since when Java owes an answer
        self._waiting: list[SourceBacklog] = []
        self._ended = threading.Event()
        self._asking: threading.Thread | None = None
        collector = RunCollector(
            pipeline, self.figures, self.standing, lambda: self._waiting, self._space_now, lambda: self.readyz().ok
        )
        self._registry = registry_of(collector, *([] if more is None else [more]))
        pages = {"/metrics": self._metrics, "/healthz": self._healthz, "/readyz": self._readyz}
        self._listener = HttpListener(settings.place, pages)
        log.info("watched", pipeline=pipeline, url=f"http://{self.place}/metrics")
        if not settings.place.loopback:
            log.warning("other machines reach the watch, which has no authentication", at=str(self.place))

    @property
    def place(self) -> Address:
        """Where it listens."""
        return self._listener.place

    def follow(self, pipeline: WatchedPipeline) -> None:
        """Watch ``pipeline``, before it is started."""
        self.figures.name_sinks(pipeline.sinks)
        self._pipeline = pipeline
        self._asking = threading.Thread(target=self._ask, name="watch-asks", daemon=True)
        self._asking.start()

    def batch(self, delivery: Delivery, totals: Totals) -> None:
        """Count a batch that every sink has. Errors are logged, and do not fail the batch."""
        try:
            self.figures.batch(delivery, totals)
        except Exception:
            log.exception("figures of a batch could not be added up for the watch")

    def close(self) -> None:
        """Stop listening, without waiting for slow requests."""
        self._ended.set()
        self._listener.close()

    def standing(self) -> PipelineStatus:
        """How the pipeline stands; before there is one, as nothing."""
        return self._pipeline.standing() if self._pipeline is not None else PipelineStatus()

    def healthz(self) -> HealthStatus:
        """Whether the run lives."""
        asked_s = self._asked_s
        silent_s = 0.0 if asked_s is None else time.monotonic() - asked_s
        started = self.standing().started
        return lives(started=started, alive=self._alive, silent_s=silent_s, stopped=self._ended.is_set())

    def readyz(self) -> HealthStatus:
        """Whether it keeps up."""
        standing, now_s = self.standing(), time.time()
        with self.figures.lock:
            last_s, sinks = self.figures.last_batch_s, dict(self.figures.sinks)
        progress = RunProgress(now_s, self._since_s, last_s, self._settings.ready_within / 1000)
        return keeps_up(self.healthz(), standing, progress, self._waiting, sinks)

    def _ask(self) -> None:
        """What takes as long as others take."""
        pipeline = self._pipeline
        while pipeline is not None and not self._ended.wait(0.0 if self._alive is None else ASK_EVERY_S):
            try:
                if pipeline.standing().started:
                    self._asked_s = self._asked_s or time.monotonic()
                    self._alive = pipeline.alive
                    self._asked_s = None  # brokers, which come next, may be silent for as long as they like
                    for sink in pipeline.sinks:
                        if isinstance(sink, LakeSpoolSink):
                            sink.look()
                    self._waiting = pipeline.waiting()
                elif self._ended.wait(0.1):  # it is asked as soon as it is there
                    return
            except Exception as error:  # noqa: BLE001 - Java may be gone, which the pages say
                log.debug("the watch got no answer", error=str(error))
                if self._alive is None and self._ended.wait(0.1):
                    return

    def _space_now(self) -> DiskUsage:
        return self._space.of(self.standing().state_root)

    def _metrics(self, accepted: str) -> HttpPage:
        encode, form = choose_encoder(accepted)
        return HttpPage(encode(self._registry), form)

    def _healthz(self, _: str) -> HttpPage:
        return _page(self.healthz())

    def _readyz(self, _: str) -> HttpPage:
        return _page(self.readyz())


def _page(answer: HealthStatus) -> HttpPage:
    status = HTTPStatus.OK if answer.ok else HTTPStatus.SERVICE_UNAVAILABLE
    return HttpPage(orjson.dumps(answer.to_json()) + b"\n", "application/json", status)
