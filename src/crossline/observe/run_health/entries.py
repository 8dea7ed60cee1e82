"""The figures of a run, each with its limit, for the API and the page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

from crossline.observe.run_health import limits
from crossline.observe.run_health.history import BEFORE, DAY, HOUR, RunHistory
from crossline.observe.run_health.scrape import Labels, Scrape
from crossline.settings.config import PipelineConfig
from crossline.settings.kafka import KafkaSourceSettings
from crossline.settings.process.slo import SloSettings, broker_streams


@dataclass(frozen=True, slots=True)
class RunFigure:
    """A number of a run.

    ``value``: None where it is not known. ``unit``: ``ms``, ``share``, ``per_s`` or ``count``. ``over``: of what time
    it is. ``limit``: in its unit, where it has one, from ``source``: ``objective``, ``setting`` or ``alert``.
    ``yesterday``: the same figure a day earlier. ``hours``: of the last 24 hours, the latest last. ``peaks``: whether
    these two are the greatest values there were.
    """

    name: str
    label: str
    value: float | None
    unit: str
    over: str
    limit: float | None = None
    source: str = ""
    yesterday: float | None = None
    hours: tuple[float | None, ...] = ()
    peaks: bool = False

    @property
    def crossed(self) -> bool | None:
        """Whether it exceeds its limit; None where that is unknown."""
        return None if self.value is None or self.limit is None else self.value > self.limit

    def to_json(self) -> dict[str, Any]:
        """As the API has it."""
        return {**asdict(self), "crossed": self.crossed, "hours": list(self.hours)}


def figures_of(config: PipelineConfig, seen: Scrape | None, history: RunHistory) -> list[RunFigure]:
    """The figures of the run of ``config``, from its present answer (None: it gives none) and its minutes."""
    slo = config.slo or SloSettings.model_construct()
    return [
        _lag(config, slo, seen, history),
        _latency(slo, seen, history),
        RunFigure(
            "records_per_s",
            "Records a second",
            history.per_s("records", HOUR),
            "per_s",
            "last hour",
            yesterday=history.per_s("records", HOUR, DAY),
            hours=tuple(history.per_s("records", HOUR, before) for before in BEFORE),
        ),
        _batch(config, history),
        RunFigure(
            "late_share",
            "Late records",
            history.ratio("late", "records", DAY),
            "share",
            "24 h",
            limits.LATE_SHARE,
            "alert",
            history.ratio("late", "records", DAY, DAY),
            history.hours("late", "records"),
        ),
        RunFigure(
            "dead_letters",
            "Dead letters",
            history.total("dead", DAY),
            "count",
            "24 h",
            _of_records(history),
            "alert",
            history.total("dead", DAY, DAY),
            tuple(history.total("dead", HOUR, before) for before in BEFORE),
        ),
        _checkpoint(slo, history),
    ]


def _lag(config: PipelineConfig, slo: SloSettings, seen: Scrape | None, history: RunHistory) -> RunFigure:
    limit = None if slo.lag is None else float(slo.lag.under)
    value = None if seen is None else lag_ms(seen, broker_streams(config.sources, config.streams))
    source = "objective" if limit is not None else ""
    yesterday, hours = history.peak("lag_ms", DAY, DAY), history.hours("lag_ms")
    return RunFigure("lag", "Lag", value, "ms", "now", limit, source, yesterday, hours, peaks=True)


def lag_ms(seen: Scrape, streams: list[str]) -> float | None:
    """At most how old what waits is: nothing, or younger than the highest ingest time that was judged."""
    silent = seen.by("stream", "source_silent")
    waiting, judged = seen.by("stream", "source_waiting_records"), seen.by("stream", "ingest_timestamp_seconds")
    found: list[float] = []
    for stream in streams:
        if silent.get(stream) or stream not in waiting or (waiting[stream] and stream not in judged):
            return None
        found.append(max(0.0, seen.at_ms - judged[stream] * 1000) if waiting[stream] else 0.0)
    return max(found, default=None)


def _latency(slo: SloSettings, seen: Scrape | None, history: RunHistory) -> RunFigure:
    promised = slo.alert_latency
    percentile = 99.0 if promised is None else promised.percentile
    value = None if seen is None else _quantile(seen, percentile / 100)
    limit = limits.ALERT_LATENCY_S * 1000 if promised is None else float(promised.under)
    return RunFigure(
        "alert_latency",
        f"Latency, {percentile:g}th percentile",
        value,
        "ms",
        "this run",
        limit,
        "alert" if promised is None else "objective",
        history.peak("alert_latency_ms", DAY, DAY),
        history.hours("alert_latency_ms"),
        peaks=True,
    )


def _quantile(seen: Scrape, share: float) -> float | None:
    """In ms, over all streams, as Prometheus has it: within a bucket values are assumed to be spread evenly.

    A value above the last bound is reported as that bound.
    """
    below = buckets_of(seen.samples.get("crossline_alert_latency_seconds_bucket", {}))
    if not below or not below[-1][1]:
        return None
    wanted = share * below[-1][1]
    for (low, before), (high, count) in pairwise([(0.0, 0.0), *below]):
        if count >= wanted and count > before:
            return 1000 * (low if high == float("inf") else low + (high - low) * (wanted - before) / (count - before))
    return None


def buckets_of(samples: Mapping[Labels, float]) -> list[tuple[float, float]]:
    """Bounds, and how many were no larger, of all streams together."""
    found: dict[float, float] = {}
    for labels, count in samples.items():
        bound = float(dict(labels)["le"])
        found[bound] = found.get(bound, 0.0) + count
    return sorted(found.items())


def _batch(config: PipelineConfig, history: RunHistory) -> RunFigure:
    topics = any(isinstance(each, KafkaSourceSettings) for each in config.sources.values())
    limit = max(config.engine.trigger, config.engine.batch_within) if topics else config.engine.trigger
    name, whole = "batch_ms", "batches"
    return RunFigure(
        "batch",
        "A batch takes",
        history.ratio(name, whole, HOUR),
        "ms",
        "last hour",
        float(limit) or None,
        "setting" if limit else "",
        history.ratio(name, whole, HOUR, DAY),
        history.hours(name, whole),
    )


def _checkpoint(slo: SloSettings, history: RunHistory) -> RunFigure:
    promised = slo.checkpoint
    name, whole = "checkpoint_ms", "batch_ms"
    return RunFigure(
        "checkpoint_share",
        "Checkpoint's share of batches",
        history.ratio(name, whole, HOUR),
        "share",
        "last hour",
        None if promised is None else promised.share / 100,
        "" if promised is None else "objective",
        history.ratio(name, whole, HOUR, DAY),
        history.hours(name, whole),
    )


def _of_records(history: RunHistory) -> float | None:
    """So many dead letters are one in a hundred of the day's records."""
    records = history.total("records", DAY)
    return None if records is None else records * limits.DEAD_SHARE


def sinks_of(seen: Scrape) -> Iterator[dict[str, Any]]:
    """Each sink: whether it takes batches, since when not, what it lacks, how long it takes."""
    behind_s, retries = seen.by("sink", "sink_behind_seconds"), seen.by("sink", "sink_retries_total")
    backlog, age_s = seen.by("sink", "sink_backlog_batches"), seen.by("sink", "sink_backlog_seconds")
    spent, counts = (seen.by("sink", f"sink_delivery_seconds_{each}") for each in ("sum", "count"))
    for name, held_s in sorted(behind_s.items()):
        waits = name in backlog
        limit_s = limits.SINK_BACKLOG_S if waits else limits.SINK_BEHIND_S
        lacking_s = age_s.get(name, 0.0) if waits else held_s
        count = counts.get(name, 0.0)
        yield {
            "name": name,
            "behind_ms": round(lacking_s * 1000),
            "limit_ms": round(limit_s * 1000),
            "crossed": lacking_s > limit_s,
            "backlog_batches": int(backlog[name]) if waits else None,
            "retries": int(retries.get(name, 0)),
            "delivery_ms": 1000 * spent.get(name, 0.0) / count if count else None,
        }


def batches_of(seen: Scrape) -> dict[str, Any]:
    """The batches and the checkpoint of the run, as its metrics show them now."""
    last_s, running_s = seen.one("last_batch_timestamp_seconds"), seen.one("batch_running_seconds") or 0.0
    written_s = seen.one("state_written_timestamp_seconds")
    whole = seen.by("phase", "batch_phase_seconds_sum")
    counts = seen.by("phase", "batch_phase_seconds_count")
    return {
        "batches": int(seen.one("batches_total") or 0),
        "last_ms": None if last_s is None else round(last_s * 1000),
        "running_ms": round(running_s * 1000),
        "running_limit_ms": round(limits.BATCH_RUNNING_S * 1000),
        "running_crossed": running_s > limits.BATCH_RUNNING_S,
        "phases_ms": {name: 1000 * whole[name] / count for name, count in counts.items() if count},
        "state_bytes": int(seen.one("state_bytes") or 0),
        "state_written_ms": None if written_s is None else round(written_s * 1000),
        "waiting": {
            stream: {"amount": int(amount), "unit": unit}
            for unit in ("records", "bytes")
            for stream, amount in sorted(seen.by("stream", f"source_waiting_{unit}").items())
        },
    }


def dead_of(seen: Scrape) -> list[dict[str, Any]]:
    """Dead letters of this run, by stream and reason, the most first."""
    counts = seen.samples.get("crossline_dead_letters_total", {})
    rows = [{**dict(labels), "count": int(count)} for labels, count in counts.items()]
    return sorted(rows, key=lambda each: (-each["count"], each["stream"], each["reason"]))
