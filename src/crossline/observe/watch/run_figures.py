"""Counters of a run, added up batch by batch: plain numbers, which any thread may read.

Adding costs a batch some hundred additions, and a quick look at each alert. Nothing here knows a format.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from crossline.evaluate.alerts.breaker import instants_ms
from crossline.io.outbox.sink import OutboxSink
from crossline.io.sinks.base import Delivery, Sink
from crossline.io.sinks.decisions import counted
from crossline.observe.sinks import named
from crossline.runtime.pipeline.lake_spool_sink import LakeSpoolSink
from crossline.runtime.work.totals import RAN, WAYS, Totals

OTHERS, NO_RULE = "(others)", "(no rule)"  # no rule can have such a name
PHASES_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
LATENCY_S = (0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
WAITING_TYPES = frozenset({"absence"})  # whose alerts come when time has passed, not when their record came


@dataclass(slots=True)
class Histogram:
    """How many values were no larger than each of ``bounds``, and larger than the one before; the last: than all."""

    bounds: Sequence[float]
    counts: list[int] = field(default_factory=list)
    total: float = 0.0

    def __post_init__(self) -> None:
        self.counts = self.counts or [0] * (len(self.bounds) + 1)

    def add(self, value: float) -> None:
        """One value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def add_all(self, values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> None:
        """Many at once."""
        places = np.searchsorted(self.bounds, values, side="left")
        for place, count in enumerate(np.bincount(places, minlength=len(self.counts)).tolist()):
            self.counts[place] += count
        self.total += float(values.sum())


@dataclass(slots=True)
class SinkFigures:
    """Counters of a sink. ``behind_since_s``: the first failed attempt of the batch that it still lacks."""

    retries: int = 0
    behind_since_s: float | None = None
    error: str = ""
    delivery_s: Histogram = field(default_factory=lambda: Histogram(PHASES_S))


def waits_of(
    delivery: Delivery, wall: Collection[str], now_s: float
) -> dict[str, np.ndarray[tuple[int], np.dtype[np.float64]]]:
    """By stream of ``wall``: how long ago each alert's record came in, in seconds; for alerts that go to sinks.

    Alerts that come when time has passed have no such wait, and corrections and shadow alerts are none.
    """
    texts: dict[str, list[str]] = {}
    for alert in delivery.alerts:
        delivered = alert["kind"] == "alert" and alert["stream"] in wall and alert.get("emit_to_sink", True)
        if delivered and alert["rule_type"] not in WAITING_TYPES:
            texts.setdefault(alert["stream"], []).append(alert["ingest_time"])
    # A broker's clock may be ahead of this one; a sum that falls would be read as a restart.
    return {stream: np.maximum(0.0, now_s - instants_ms(each) / 1000) for stream, each in texts.items()}


class RunFigures:
    """The counters of a run. Writers and readers hold ``lock``.

    ``rules_max``: how many rules are named; later ones are summed under one name. ``wall``: streams whose ingest
    time is a wall clock, against which the latency of an alert is measured. ``streams``: those reported from the
    start: a sum that does not begin at 0 cannot be seen to rise. ``sinks`` are named by ``name_sinks``.
    """

    def __init__(self, rules_max: int = 100, wall: Collection[str] = (), streams: Iterable[str] = ()) -> None:
        self.lock = threading.Lock()
        self._rules_max = rules_max
        self._wall = frozenset(wall)
        self._named: set[str] = set()
        self._sink_names: dict[int, str] = {}
        self.records: Counter[str] = Counter(dict.fromkeys(streams, 0))
        self.dead: Counter[tuple[str, str]] = Counter()
        self.late: Counter[str] = Counter(self.records)
        self.alerts: Counter[tuple[str, str]] = Counter()
        self.cost_s: dict[str, float] = {}
        self.unscored: Counter[str] = Counter()
        self.decisions: Counter[str] = Counter()
        self.missed: Counter[str] = Counter()
        self.step_s: dict[str, float] = {}
        self.phases: dict[str, Histogram] = {}
        self.latency: dict[str, Histogram] = {stream: Histogram(LATENCY_S) for stream in sorted(self._wall)}
        self.batch_s = Histogram(PHASES_S)
        self.sinks: dict[str, SinkFigures] = {}
        self.behind: dict[str, OutboxSink | LakeSpoolSink] = {}  # those that no batch waits for
        self.batches = 0
        self.ran: Counter[str] = Counter(dict.fromkeys(WAYS, 0))  # a rate begins from 0
        self.segments_read = 0
        self.retained = 0
        self.ingest_ms: dict[str, int] = {}
        self.last_batch: int | None = None
        self.last_batch_s: float | None = None

    def name_sinks(self, sinks: Iterable[Sink]) -> None:
        """By their kind, a later one of a kind with its number."""
        for name, sink in named(sinks):
            self._sink_names[id(sink)] = name
            self.sinks[name] = SinkFigures()
            if isinstance(sink, OutboxSink):
                self.behind[name] = sink
                self._sink_names[id(sink.sink)] = name
            elif isinstance(sink, LakeSpoolSink):
                self.behind[name] = sink

    def failed(self, sink: Sink, error: BaseException | None) -> None:
        """A delivery failed, and is retried."""
        with self.lock:
            mine = self._sink(sink)
            mine.retries += 1
            mine.error = "" if error is None else str(error)
            if mine.behind_since_s is None and not self._gets_later(sink):
                mine.behind_since_s = time.time()

    def on_delivered(self, sink: Sink, delivery: Delivery, spent_s: float) -> None:  # noqa: ARG002 - others ask for it
        """A sink has a batch, ``spent_s`` after the first attempt."""
        with self.lock:
            mine = self._sink(sink)
            mine.error = ""
            if not self._gets_later(sink):
                mine.behind_since_s = None
            if not isinstance(sink, OutboxSink):  # that is the disk
                mine.delivery_s.add(spent_s)

    def _gets_later(self, sink: Sink) -> bool:
        """Whether no batch waits for it: what it lacks is a backlog."""
        return any(isinstance(each, OutboxSink) and each.sink is sink for each in self.behind.values())

    def _sink(self, sink: Sink) -> SinkFigures:
        return self.sinks.setdefault(self._sink_names.get(id(sink), type(sink).__name__), SinkFigures())

    def batch(self, delivery: Delivery, totals: Totals) -> None:
        """A batch is with every sink."""
        now_s, counts = time.time(), delivery.figures
        with self.lock:
            self.batches += 1
            if RAN in counts:
                self.ran[counts[RAN]] += 1
            self.last_batch, self.last_batch_s = delivery.batch_id, now_s
            self.records.update(counts.get("by_stream", {}))
            self.dead.update((letter.stream, letter.reason) for letter in delivery.dead)
            self.late.update(record.stream for record in delivery.late)
            self.decisions.update(counted(delivery.decisions))
            self.missed.update(counts.get("missed", {}))
            self.segments_read += counts.get("segments_read", 0)
            self.retained = counts.get("retained", self.retained)
            self.ingest_ms.update(counts.get("ingest_ms", {}))
            self._alerts(delivery, now_s)
            self._costs(counts.get("cost_ms", {}))
            for name, each in counts.get("failed", {}).items():
                self.unscored[self._rule(name.rpartition("@")[0])] += each["records"]
            self._times(counts, totals.after_ms)

    def _alerts(self, delivery: Delivery, now_s: float) -> None:
        counts = Counter((alert["rule_id"], alert["kind"]) for alert in delivery.alerts)
        for (rule_id, kind), count in counts.items():
            self.alerts[self._rule(rule_id), kind] += count
        for stream, waits_s in waits_of(delivery, self._wall, now_s).items():
            self.latency[stream].add_all(waits_s)

    def _costs(self, cost_ms: Mapping[str, float | Mapping[str, float]]) -> None:
        rules = cost_ms.get("rules", {})
        given = {OTHERS: cost_ms.get("others", 0.0), NO_RULE: cost_ms.get("no_rule", 0.0)}
        named = rules.items() if isinstance(rules, Mapping) else ()
        for name, ms in [*((self._rule(name.rpartition("@")[0]), ms) for name, ms in named), *given.items()]:
            if isinstance(ms, int | float) and ms > 0:
                self.cost_s[name] = self.cost_s.get(name, 0.0) + ms / 1000

    def _times(self, counts: Mapping[str, Mapping[str, float]], after_ms: Mapping[str, float]) -> None:
        phases = {**counts.get("wall_ms", {}), **after_ms}
        for phase, ms in phases.items():
            self.phases.setdefault(phase, Histogram(PHASES_S)).add(max(0.0, ms / 1000))
        self.batch_s.add(max(0.0, sum(phases.values()) / 1000))
        for step, ms in counts.get("spent_ms", {}).items():
            self.step_s[step] = self.step_s.get(step, 0.0) + max(0.0, ms / 1000)

    def _rule(self, rule_id: str) -> str:
        """The label of a rule. Counters must never fall, so that a label, once given, stays."""
        if rule_id not in self._named:
            if len(self._named) >= self._rules_max:
                return OTHERS
            self._named.add(rule_id)
        return rule_id
