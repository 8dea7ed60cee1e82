"""Exports spans by OTLP over HTTP from a background thread; drops them while the collector rejects them."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Mapping, Sequence
from contextvars import copy_context
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from crossline.basics.errors import PermanentError
from crossline.basics.texts.uris import is_loopback
from crossline.io.net.deadline import Deadline, NoAnswerError, within
from crossline.logs import get_logger
from crossline.observe.spans.batch_spans import BatchSpans, PresetIds
from crossline.settings.watch import OtlpSettings

if TYPE_CHECKING:
    from crossline.io.sinks.base import Delivery, Sink
    from crossline.runtime.work.totals import Totals

ANSWER_S_MAX = 30.0  # that a collector may take for what it is sent at once
END_S = 5.0  # for the export of the spans that are left at the end
_PATH = "/v1/traces"

log = get_logger(__name__)


class Spans:
    """The spans of a run of ``pipeline``, and how they are sent.

    ``settings`` None: the environment sets the address (``OTEL_EXPORTER_OTLP_ENDPOINT`` and its like). Its other
    settings (samplers, the resource, sizes of queues) hold in any case. Raises PermanentError where a named file is
    missing.
    """

    def __init__(self, settings: OtlpSettings | None, pipeline: str) -> None:
        exporter = exporter_of(settings or OtlpSettings(), os.environ)
        ids = PresetIds()
        self._provider = TracerProvider(
            resource=_resource(pipeline, os.environ), id_generator=ids, shutdown_on_exit=False
        )
        # The library logs addresses, which may contain a key. ``ReportingExporter`` logs failures instead.
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL + 1)
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._spans = BatchSpans(self._provider.get_tracer("crossline", version("crossline")), ids)

    def name_sinks(self, sinks: Sequence[Sink]) -> None:
        """The sinks of the run."""
        self._spans.name_sinks(sinks)

    def failed(self, sink: Sink, error: BaseException | None) -> None:
        """A sink did not take a batch."""
        self._spans.failed(sink, error)

    def on_delivered(self, sink: Sink, delivery: Delivery, spent_s: float) -> None:
        """A sink has a batch."""
        self._spans.on_delivered(sink, delivery, spent_s)

    def batch(self, delivery: Delivery, totals: Totals) -> None:
        """A batch is with every sink."""
        self._spans.batch(delivery, totals)

    def close(self) -> None:
        """Send what is left; a collector that does not answer is waited for no longer than END_S."""
        ending = threading.Thread(target=self._provider.shutdown, name="spans-end", daemon=True)
        ending.start()
        ending.join(END_S)


class ReportingExporter(SpanExporter):
    """Wraps ``exporter``: logs once that the collector rejects spans, and once that it accepts them again."""

    def __init__(self, exporter: SpanExporter, place: str) -> None:
        self._exporter = exporter
        self._place = place
        self._dropped = 0
        self._under_way = threading.Lock()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send them; what the collector refuses is dropped, and at once while an abandoned export still runs."""
        result = self._answered(spans)
        if result is SpanExportResult.SUCCESS:
            if self._dropped:
                log.info("the collector accepts spans again", collector=self._place, dropped=self._dropped)
            self._dropped = 0
            return result
        if not self._dropped:
            log.warning("a collector does not accept spans; they are dropped until it does", collector=self._place)
        self._dropped += len(spans)
        return result

    def _answered(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """The library's time-outs cover one read: a collector that sends a byte now and then would block it."""
        if not self._under_way.acquire(blocking=False):
            return SpanExportResult.FAILURE

        def send() -> SpanExportResult:
            try:
                return self._exporter.export(spans)
            finally:
                self._under_way.release()

        try:
            return within(Deadline(ANSWER_S_MAX), partial(copy_context().run, send), "spans")
        except NoAnswerError:
            return SpanExportResult.FAILURE

    def shutdown(self) -> None:
        """End what is being sent."""
        self._exporter.shutdown()


def exporter_of(settings: OtlpSettings, environment: Mapping[str, str]) -> SpanExporter:
    """The exporter to the collector of ``settings``; the environment sets what they leave out."""
    endpoint = _endpoint(settings)
    named = endpoint or environment.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
    parts = urlsplit(named or environment.get("OTEL_EXPORTER_OTLP_ENDPOINT") or "http://localhost:4318")
    secret = settings.password(environment, lambda path: Path(path).read_text(encoding="utf-8"))
    if secret is not None and (not secret.isascii() or not secret.isprintable()):
        raise PermanentError("watch.otlp: found a password that no header can hold; expected plain ASCII on one line")
    if secret is not None and parts.scheme == "http" and not is_loopback(parts.hostname or ""):
        raise PermanentError(
            f"watch.otlp: found http:// to {parts.hostname}, which the environment names; expected https://, for a "
            "password is sent there"
        )
    headers = None if secret is None else {settings.header.lower(): secret}
    exporter = OTLPSpanExporter(endpoint, certificate_file=settings.ca_file, headers=headers)
    return ReportingExporter(exporter, parts.hostname or "")


def _endpoint(settings: OtlpSettings) -> str | None:
    if settings.endpoint is None:
        return None
    bare = settings.endpoint.rstrip("/")
    return bare if bare.endswith(_PATH) else bare + _PATH


def _resource(pipeline: str, environment: Mapping[str, str]) -> Resource:
    """Which service it is; a name that the environment gives stands."""
    named = "OTEL_SERVICE_NAME" in environment or "service.name=" in environment.get("OTEL_RESOURCE_ATTRIBUTES", "")
    name = {} if named else {"service.name": pipeline}
    return Resource.create({"service.version": version("crossline"), **name})
