"""OpenTelemetry spans of a batch and its deliveries."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from opentelemetry.context import Context
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.trace import Link, Span, SpanContext, SpanKind, TraceFlags, Tracer, set_span_in_context

from crossline.io.outbox.sink import OutboxSink
from crossline.io.sinks.base import NAMED_MAX, Delivery, Sink
from crossline.logs import get_logger
from crossline.observe.sinks import named
from crossline.runtime.work.totals import RAN, Totals

EVENTS_MAX = 32  # failed attempts of one delivery that its span lists one by one
_LOW = 2**64 - 1

log = get_logger(__name__)


def ids_of(delivery: Delivery) -> tuple[int, int] | None:
    """The trace id and span id of a batch: a function of the delivery, so every process computes the same.

    None where the delivery has no ``began_ms``. A batch that is run again is another trace.
    """
    began_ms = delivery.figures.get("began_ms")
    if began_ms is None:
        return None
    text = f"{delivery.pipeline}\0{delivery.batch_id}\0{began_ms}".encode()
    digest = hashlib.blake2b(text, digest_size=24).digest()
    return int.from_bytes(digest[:16]) | 1, int.from_bytes(digest[16:]) | 1


class PresetIds(RandomIdGenerator):
    """An id generator: preset ids for the span begun within ``preset``, else random ids."""

    def __init__(self) -> None:
        self._preset = threading.local()

    @contextmanager
    def preset(self, trace_id: int, span_id: int | None = None) -> Iterator[None]:
        """A span that this thread begins in this context has these ids."""
        self._preset.ids = (trace_id, span_id)
        try:
            yield
        finally:
            self._preset.ids = None

    def generate_trace_id(self) -> int:
        """The trace id of a root span."""
        ids = getattr(self._preset, "ids", None)
        return ids[0] if ids else super().generate_trace_id()

    def generate_span_id(self) -> int:
        """The id of a span."""
        ids = getattr(self._preset, "ids", None)
        return ids[1] if ids and ids[1] else super().generate_span_id()


@dataclass(slots=True)
class SinkDelivery:
    """A completed delivery: begin and end (epoch ns), and the failed attempts before."""

    name: str
    delivery: Delivery
    begun_ns: int
    ended_ns: int
    kept: bool
    failures: list[tuple[int, str]] = field(default_factory=list)


class BatchSpans:
    """Makes a span of each batch that every sink has, with one for each phase, and one for each delivery below it.

    A sink that no batch waits for has its own later, in a trace of its own, with a link to the batch. Nothing of a
    record or of an error's text is in any of them, but ids of alerts.
    """

    def __init__(self, tracer: Tracer, ids: PresetIds) -> None:
        self._tracer = tracer
        self._ids = ids
        self._lock = threading.Lock()
        self._names: dict[int, str] = {}
        self._behind: set[int] = set()  # sinks that no batch waits for
        self._failures: dict[int, list[tuple[int, str]]] = {}
        self._deliveries: list[SinkDelivery] = []

    def name_sinks(self, sinks: Iterable[Sink]) -> None:
        """Name the sinks as the metrics do."""
        for name, sink in named(sinks):
            self._names[id(sink)] = name
            if isinstance(sink, OutboxSink):
                self._names[id(sink.sink)] = name
                self._behind.add(id(sink.sink))

    def failed(self, sink: Sink, error: BaseException | None) -> None:
        """Note a failed attempt until the sink has the batch."""
        with self._lock:
            failures = self._failures.setdefault(id(sink), [])
            if len(failures) < EVENTS_MAX:
                failures.append((time.time_ns(), type(error).__name__))

    def on_delivered(self, sink: Sink, delivery: Delivery, spent_s: float) -> None:
        """A delivery; its span is made with that of its batch, or now where no batch waits for it."""
        ended_ns = time.time_ns()
        name = self._names.get(id(sink), type(sink).__name__)
        kept = isinstance(sink, OutboxSink)
        with self._lock:
            failures = self._failures.pop(id(sink), [])
            sink_delivery = SinkDelivery(name, delivery, ended_ns - round(spent_s * 1e9), ended_ns, kept, failures)
            if id(sink) not in self._behind:
                # Drop the deliveries of a batch that was abandoned; the next process runs it again.
                self._deliveries = [each for each in self._deliveries if each.delivery is delivery]
                self._deliveries.append(sink_delivery)
                return
        try:
            self._later(sink_delivery)
        except Exception:
            log.exception("no span could be made of a delivery", sink=name)

    def batch(self, delivery: Delivery, totals: Totals) -> None:
        """Send the spans of a batch that every sink has. Errors are logged, and do not fail the batch."""
        try:
            self._batch(delivery, totals.after_ms, time.time_ns())
        except Exception:
            log.exception("no spans could be made of a batch")

    def _batch(self, delivery: Delivery, after_ms: Mapping[str, float], ended_ns: int) -> None:
        with self._lock:
            deliveries = [each for each in self._deliveries if each.delivery is delivery]
            self._deliveries = []
        ids = ids_of(delivery)
        if ids is None:
            return
        begun_ns = int(delivery.figures["began_ms"]) * 1_000_000
        with self._ids.preset(*ids):
            batch = self._tracer.start_span("batch", Context(), attributes=_of_batch(delivery), start_time=begun_ns)
        below = set_span_in_context(batch, Context())
        for phase, ns in _phases(delivery.figures.get("wall_ms", {}), after_ms, begun_ns, ended_ns):
            span = self._tracer.start_span(phase, below, start_time=ns[0])
            if phase == "deliver":
                in_delivery = set_span_in_context(span, below)
                for each in deliveries:
                    self._delivered(each, in_delivery)
            span.end(max(ns))
        batch.end(max(begun_ns, ended_ns))

    def _delivered(self, sink_delivery: SinkDelivery, parent: Context) -> None:
        name = f"keep for {sink_delivery.name}" if sink_delivery.kept else f"deliver to {sink_delivery.name}"
        kind = SpanKind.INTERNAL if sink_delivery.kept else SpanKind.PRODUCER
        attributes = {"crossline.sink": sink_delivery.name}
        _end(self._tracer.start_span(name, parent, kind, attributes, start_time=sink_delivery.begun_ns), sink_delivery)

    def _later(self, sink_delivery: SinkDelivery) -> None:
        """In a trace that a sampler which goes by the low half of its id takes or leaves as it does the batch."""
        ids, delivery = ids_of(sink_delivery.delivery), sink_delivery.delivery
        links: list[Link] = []
        attributes: dict[str, str | int] = {
            "crossline.pipeline": delivery.pipeline,
            "crossline.batch_id": delivery.batch_id,
            "crossline.sink": sink_delivery.name,
        }
        trace_id = self._ids.generate_trace_id()
        if ids is not None:
            links = [Link(SpanContext(*ids, is_remote=True, trace_flags=TraceFlags(TraceFlags.SAMPLED)))]
            trace_id = (trace_id & ~_LOW) | (ids[0] & _LOW)
            waited_ms = sink_delivery.ended_ns // 1_000_000 - delivery.figures["began_ms"]
            attributes["crossline.behind_ms"] = max(0, waited_ms)
        with self._ids.preset(trace_id):
            span = self._tracer.start_span(
                f"deliver to {sink_delivery.name}",
                Context(),
                SpanKind.PRODUCER,
                attributes,
                links,
                sink_delivery.begun_ns,
            )
        _end(span, sink_delivery)


def _end(span: Span, sink_delivery: SinkDelivery) -> None:
    span.set_attribute("crossline.attempts", len(sink_delivery.failures) + 1)
    for at_ns, error in sink_delivery.failures:
        span.add_event("attempt failed", {"error.type": error}, at_ns)
    span.end(max(sink_delivery.begun_ns, sink_delivery.ended_ns))


def _of_batch(delivery: Delivery) -> dict[str, Any]:
    counts = delivery.figures
    kinds = [alert["kind"] for alert in delivery.alerts]
    found: dict[str, Any] = {
        "crossline.pipeline": delivery.pipeline,
        "crossline.batch_id": delivery.batch_id,
        "crossline.records": counts.get("records", 0),
        **({"crossline.ran": counts[RAN]} if RAN in counts else {}),
        "crossline.records_retained": counts.get("retained", 0),
        "crossline.dead_letters": len(delivery.dead),
        "crossline.late_records": len(delivery.late),
        "crossline.decisions": len(delivery.decisions),
        **{f"crossline.{kind}s": kinds.count(kind) for kind in ("alert", "correction")},
        "crossline.shadow_alerts": kinds.count("shadow"),
        "crossline.rule_events": len(delivery.rule_events),
        **{f"crossline.task_ms.{step}": float(ms) for step, ms in counts.get("spent_ms", {}).items()},
    }
    if delivery.alerts:
        found["crossline.alert_ids"] = [alert["alert_id"] for alert in delivery.alerts[:NAMED_MAX]]
    return found


def _phases(
    wall_ms: Mapping[str, float], after_ms: Mapping[str, float], begun_ns: int, ended_ns: int
) -> Iterator[tuple[str, tuple[int, int]]]:
    """Each phase, from when to when: up to the outcome from the begin of the batch on, after it up to its end."""
    times = [begun_ns]
    for ms in wall_ms.values():
        times.append(times[-1] + max(0, round(ms * 1e6)))
    yield from zip(wall_ms, pairwise(times), strict=True)
    times = [ended_ns]
    for ms in reversed([*after_ms.values()]):
        times.append(times[-1] - max(0, round(ms * 1e6)))
    yield from zip(after_ms, pairwise(times[::-1]), strict=True)
