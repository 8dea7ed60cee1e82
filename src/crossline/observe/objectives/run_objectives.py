"""Objectives of a run: alert latency, seconds without lag, the checkpoint's share of each minute."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from crossline.io.sinks.base import Delivery, wall_clock_ms
from crossline.logs import get_logger
from crossline.observe.objectives.declaration import ALERT_LATENCY, CHECKPOINT, LAG, OF_RUN, objectives_of
from crossline.observe.objectives.lag import LagMeter
from crossline.observe.objectives.minute_file import MinuteFile
from crossline.observe.objectives.recorder import Recorder
from crossline.observe.watch.run_figures import waits_of
from crossline.runtime.pipeline.pipeline_status import PipelineStatus, SourceBacklog
from crossline.runtime.work.totals import Totals
from crossline.settings.config import PipelineConfig
from crossline.settings.process.slo import SAMPLE_MS, broker_streams

COUNTED = ("records", "late", "dead")

log = get_logger(__name__)


class LagSource(Protocol):
    """The pipeline, as the lag sampler reads it each second."""

    def standing(self) -> PipelineStatus:
        """How it stands now."""
        ...

    def waiting(self) -> list[SourceBacklog]:
        """What waits in its sources; may take as long as brokers do."""
        ...


class RunCounts:
    """Counts of one run, batch by batch.

    ``samples``: whether lag is looked at. ``recorder``: what it adds to.
    """

    def __init__(self, config: PipelineConfig, now_ms: Callable[[], int]) -> None:
        assert config.slo is not None  # noqa: S101 - who makes it has looked
        mine = [each for each in objectives_of(config.slo) if each.name in OF_RUN]
        self.recorder = Recorder(MinuteFile(Path(config.slo.path), config.name), mine, now_ms, {LAG})
        self.samples = any(each.name == LAG for each in mine)
        self._now_ms = now_ms
        self._wall = frozenset(broker_streams(config.sources, config.streams))
        self._lag = LagMeter(self._wall, now_ms())
        self._ingest_ms: dict[str, int] = {}
        self._spent = Counter[str]()  # of the minute that runs, in ms: all of its batches, and the checkpoint in them
        self._lock = threading.Lock()

    def batch(self, delivery: Delivery, totals: Totals) -> None:
        """A batch is with every sink."""
        counts = delivery.figures
        whole_ms, checkpoint_ms = spent_ms(counts, totals.after_ms)
        with self._lock:
            self._ingest_ms.update(counts.get("ingest_ms", {}))
            self._spent.update({"batches": whole_ms, "checkpoint": checkpoint_ms})
        waits = [*waits_of(delivery, self._wall, self._now_ms() / 1000).values()]
        if waits:
            self._waited(np.concatenate(waits) * 1000)
        sums = {
            "batches": 1.0,
            "batch_ms": whole_ms,
            "checkpoint_ms": checkpoint_ms,
            "records": float(counts["records"]),
            "late": float(len(delivery.late)),
            "dead": float(len(delivery.dead)),
        }
        for name, value in sums.items():
            self.recorder.figure(name, value)

    def _waited(self, waits_ms: np.ndarray[tuple[int], np.dtype[np.float64]]) -> None:
        self.recorder.measure(ALERT_LATENCY, waits_ms)
        self.recorder.figure("alert_latency_ms", float(waits_ms.max()), peak=True)

    def sample(self, waiting: list[SourceBacklog]) -> None:
        """What waits now: a second with lag, or without."""
        with self._lock:
            lag_ms = self._lag.of(waiting, self._ingest_ms, self._now_ms())
        if lag_ms is not None and self.samples:
            self.recorder.measure_one(LAG, float(lag_ms))
            self.recorder.figure("lag_ms", float(lag_ms), peak=True)

    def flush(self) -> None:
        """Write the minute, at its end or that of the run."""
        with self._lock:
            spent, self._spent = self._spent, Counter()
        if spent["batches"] > 0:
            self.recorder.measure_one(CHECKPOINT, spent["checkpoint"] / spent["batches"])
        for name in COUNTED:  # a minute without batches is known
            self.recorder.figure(name, 0.0)
        self.recorder.flush()


def spent_ms(counts: Mapping[str, Any], after_ms: Mapping[str, float]) -> tuple[float, float]:
    """How long a batch took, and how much of that went into the checkpoint.

    That is its phase ``mark``, in which progress is noted, and of the tasks' time the share in which shards write their
    logs of state (step ``log``): tasks work side by side, and their steps are added up over all of them.
    """
    phases = {**counts.get("wall_ms", {}), **after_ms}
    steps = counts.get("spent_ms", {})
    worked = sum(max(0.0, ms) for ms in steps.values())
    logged = max(0.0, steps.get("log", 0.0)) / worked if worked else 0.0
    checkpoint = max(0.0, phases.get("mark", 0.0)) + max(0.0, phases.get("tasks", 0.0)) * logged
    return sum(max(0.0, ms) for ms in phases.values()), checkpoint


class RunObjectives:
    """Counts a run until ``close``: batches as they come, lag each second, in a thread of its own."""

    def __init__(self, config: PipelineConfig, now_ms: Callable[[], int] = wall_clock_ms) -> None:
        self.counts = RunCounts(config, now_ms)
        self._ended = threading.Event()
        self._pipeline: LagSource | None = None
        self._thread = threading.Thread(target=self._go_on, name="objectives", daemon=True)

    @property
    def recorder(self) -> Recorder:
        """What it counts into."""
        return self.counts.recorder

    def follow(self, pipeline: LagSource) -> None:
        """It is ``pipeline`` that is counted, which was not started yet."""
        self._pipeline = pipeline
        self._thread.start()

    def batch(self, delivery: Delivery, totals: Totals) -> None:
        """Count a batch that every sink has. Errors are logged, and do not fail the batch."""
        try:
            self.counts.batch(delivery, totals)
        except Exception:
            log.exception("a batch could not be counted for the objectives")

    def close(self) -> None:
        """Stop, and write the counts. Does not wait for a broker's answer."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(timeout=2.0)
        self.counts.flush()

    def _go_on(self) -> None:
        due_s = time.monotonic()
        while not self._ended.wait(max(0.0, due_s - time.monotonic())):
            due_s = max(due_s + SAMPLE_MS / 1000, time.monotonic())
            pipeline = self._pipeline
            if pipeline is not None and self.counts.samples and pipeline.standing().started:
                with suppress(Exception):  # nothing is known of this second
                    self.counts.sample(pipeline.waiting())
            if self.counts.recorder.over():
                self.counts.flush()
