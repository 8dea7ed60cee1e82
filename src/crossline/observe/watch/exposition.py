"""The metrics of a run in Prometheus format."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.metadata import version
from itertools import accumulate
from typing import Any, Protocol

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.process_collector import ProcessCollector

from crossline.observe.watch.disk_usage import DiskUsage
from crossline.observe.watch.run_figures import Histogram, RunFigures
from crossline.runtime.pipeline.pipeline_status import PipelineStatus, SourceBacklog


class RunCollector:
    """Makes metrics at each scrape from memory; asks neither Java, nor brokers, nor other machines.

    ``standing``, ``waiting``, ``space`` and ``ready`` give what is known now.
    """

    def __init__(
        self,
        pipeline: str,
        figures: RunFigures,
        standing: Callable[[], PipelineStatus],
        waiting: Callable[[], Iterable[SourceBacklog]],
        space: Callable[[], DiskUsage],
        ready: Callable[[], bool],
    ) -> None:
        self._pipeline = pipeline
        self._figures = figures
        self._standing = standing
        self._waiting = waiting
        self._space = space
        self._ready = ready

    def collect(self) -> Iterator[Metric]:
        """All families, also those that have no value yet."""
        with self._figures.lock:
            families = [*self._counters(self._figures), *self._of_batches(self._figures), *_of_sinks(self._figures)]
        yield from families
        yield from self._as_it_stands()

    def _counters(self, of: RunFigures) -> Iterator[Metric]:
        yield metric_counter("records", "Records judged, by their stream.", ["stream"], of.records)
        yield metric_counter("dead_letters", "Records that were refused.", ["stream", "reason"], of.dead)
        yield metric_counter(
            "late_records", "Records too late for every rule, which were not judged.", ["stream"], of.late
        )
        yield metric_counter(
            "alerts", "Hits by rule and kind: alert, shadow, correction; of rules that feed others too.",
            ["rule", "kind"], of.alerts,
        )  # fmt: skip
        yield metric_counter(
            "rule_cost_seconds", "Processor time of judging, divided among rules.", ["rule"], of.cost_s
        )
        yield metric_counter("unscored_records", "Records that a model did not score.", ["rule"], of.unscored)
        yield metric_counter("decisions", "Decisions on records with hits.", ["decision"], of.decisions)
        yield metric_counter("table_misses", "Records that a table had no row for.", ["table"], of.missed)
        yield metric_counter("batches", "Batches that every sink has.", [], {(): of.batches})
        yield metric_counter(
            "batches_run", "The same by the way in which they ran: beside Spark, as one task of Spark, in stages.",
            ["way"], of.ran,
        )  # fmt: skip
        yield metric_counter(
            "segments_read", "Batches of a shard that were read from its log.", [], {(): of.segments_read}
        )
        yield metric_counter("task_seconds", "Time of tasks, by what they did.", ["step"], of.step_s)

    def _of_batches(self, of: RunFigures) -> Iterator[Metric]:
        yield metric_histogram(
            "batch_seconds", "Batches, from their begin until all sinks had them.", [], {(): of.batch_s}
        )
        yield metric_histogram("batch_phase_seconds", "Phases of batches.", ["phase"], of.phases)
        yield metric_histogram(
            "alert_latency_seconds",
            "From an alert's ingest time until all sinks had it; of streams whose ingest time is a broker's clock.",
            ["stream"],
            of.latency,
        )
        yield metric_gauge("retained_records", "Records that states hold.", [], {(): of.retained} if of.batches else {})
        ingest_s = {stream: ms / 1000 for stream, ms in of.ingest_ms.items()}
        yield metric_gauge("ingest_timestamp_seconds", "The highest ingest time that was judged.", ["stream"], ingest_s)
        last = {} if of.last_batch_s is None else {(): of.last_batch_s}
        yield metric_gauge("last_batch_timestamp_seconds", "When every sink had the last batch.", [], last)

    def _as_it_stands(self) -> Iterator[Metric]:
        standing, space, waiting = self._standing(), self._space(), list(self._waiting())
        running = 0.0 if standing.batch_began_s is None else max(0.0, time.time() - standing.batch_began_s)
        yield metric_gauge(
            "batch_running_seconds", "For how long the batch that runs does; 0: none.", [], {(): running}
        )
        yield metric_gauge("rules", "Rule versions that judge until further notice.", ["kind"], standing.rules)
        yield metric_gauge(
            "disk_full", "1 where a batch is held until a disk takes it.", [], {(): float(bool(standing.held))}
        )
        text = "Files or messages of rules, shared figures, lists and tables that are refused now."
        yield metric_gauge("refused_files", text, [], {(): standing.refused})
        yield metric_counter("rule_events", "What happened to rules in this run.", ["event"], _events(standing.logged))
        for unit in ("records", "bytes"):
            amounts = {each.stream: each.amount for each in waiting if each.unit == unit and each.amount is not None}
            yield metric_gauge(f"source_waiting_{unit}", f"What waits in a source, in {unit}.", ["stream"], amounts)
        unknown = {each.stream: float(each.problem is not None) for each in waiting}
        yield metric_gauge("source_silent", "1 where a source does not say what waits in it.", ["stream"], unknown)
        yield metric_gauge("state_bytes", "What the logs of states take on the disk.", [], {(): space.size})
        yield metric_gauge("state_files", "Files of the logs of states.", [], {(): space.files})
        written = {} if space.newest_s is None else {(): space.newest_s}
        yield metric_gauge("state_written_timestamp_seconds", "When a state was last written.", [], written)
        yield metric_gauge("ready", "1 where /readyz answers 200.", [], {(): float(self._ready())})
        build = {(self._pipeline, version("crossline"), platform.python_version()): 1.0}
        yield metric_gauge("build_info", "What runs.", ["pipeline", "version", "python"], build)


# That they are 0 is worth knowing: a rate begins from there.
_EVENTS = ("refused", "tripped", "unscored", "without_past")


def _events(logged: Mapping[str, int]) -> Mapping[str, int]:
    return {**dict.fromkeys(_EVENTS, 0), **logged}


def _of_sinks(of: RunFigures) -> Iterator[Metric]:
    retries = {name: each.retries for name, each in of.sinks.items()}
    yield metric_counter("sink_retries", "Attempts of sinks that failed and were made again.", ["sink"], retries)
    now_s = time.time()
    behind = {
        name: 0.0 if each.behind_since_s is None else max(0.0, now_s - each.behind_since_s)
        for name, each in of.sinks.items()
    }
    yield metric_gauge(
        "sink_behind_seconds", "For how long a sink has not accepted the batch; 0: it does.", ["sink"], behind
    )
    left = {name: each.backlog() for name, each in of.behind.items()}
    batches = {name: each.batches for name, each in left.items()}
    yield metric_gauge(
        "sink_backlog_batches", "What a sink that no batch waits for has not got yet.", ["sink"], batches
    )
    ages = {
        name: 0.0 if each.since_ms is None else max(0.0, now_s - each.since_ms / 1000) for name, each in left.items()
    }
    yield metric_gauge("sink_backlog_seconds", "How old the oldest batch of that is; 0: it has all.", ["sink"], ages)
    seconds = {name: each.delivery_s for name, each in of.sinks.items()}
    yield metric_histogram(
        "sink_delivery_seconds", "How long sinks took for a batch, retries included.", ["sink"], seconds
    )


def metric_counter(name: str, text: str, labels: list[str], values: Mapping[Any, float]) -> Metric:
    """``values`` by label, or by several in the order of ``labels``."""
    return _filled(CounterMetricFamily(f"crossline_{name}", text, labels=labels), values)


def metric_gauge(name: str, text: str, labels: list[str], values: Mapping[Any, float]) -> Metric:
    """The same of a value that may fall."""
    return _filled(GaugeMetricFamily(f"crossline_{name}", text, labels=labels), values)


def _filled(family: CounterMetricFamily | GaugeMetricFamily, values: Mapping[Any, float]) -> Metric:
    for key, value in values.items():
        family.add_metric((key,) if isinstance(key, str) else key, value)
    return family


def metric_histogram(name: str, text: str, labels: list[str], values: Mapping[Any, Histogram]) -> Metric:
    """The same of how values are spread."""
    family = HistogramMetricFamily(f"crossline_{name}", text, labels=labels)
    for key, each in values.items():
        bounds = [*map(str, each.bounds), "+Inf"]
        buckets = list(zip(bounds, accumulate(each.counts), strict=True))
        family.add_metric((key,) if isinstance(key, str) else key, buckets, each.total)
    return family


class Collector(Protocol):
    """Makes metrics at each scrape."""

    def collect(self) -> Iterator[Metric]:
        """All families."""
        ...


def registry_of(*collectors: Collector) -> CollectorRegistry:
    """The page ``/metrics``: the figures of ``collectors``, and of this process (memory, processor, files)."""
    registry = CollectorRegistry(auto_describe=False)
    for each in collectors:
        registry.register(each)  # type: ignore[arg-type]  # it has what a collector needs
    ProcessCollector(registry=registry)
    return registry
