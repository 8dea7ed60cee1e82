"""A collector that never comes to an end with what it is sent: spans are dropped, and no thread after another hangs."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from structlog.testing import capture_logs

from crossline.observe.spans import exporter
from crossline.observe.spans.exporter import ReportingExporter

WAIT_S = 120.0
SPANS: Any = [None]  # no test here reads them


class Slow(SpanExporter):
    """Takes spans once ``ended`` is set; ``asked``: how often it was given some."""

    def __init__(self) -> None:
        self.ended = threading.Event()
        self.done = threading.Event()
        self.asked = 0

    def export(self, _: Sequence[ReadableSpan]) -> SpanExportResult:
        self.asked += 1
        self.ended.wait(WAIT_S)
        self.done.set()
        return SpanExportResult.SUCCESS

    def shutdown(self) -> None: ...


def test_spans_are_dropped_and_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporter, "ANSWER_S_MAX", 0.05)
    slow = Slow()
    reporting = ReportingExporter(slow, "collector")
    with capture_logs() as logs:
        assert reporting.export(SPANS) is SpanExportResult.FAILURE
        assert reporting.export(SPANS) is SpanExportResult.FAILURE
    assert slow.asked == 1, "what was given up is still being sent"
    assert [each["event"] for each in logs] == ["a collector does not accept spans; they are dropped until it does"]
    monkeypatch.setattr(exporter, "ANSWER_S_MAX", WAIT_S)
    slow.ended.set()
    assert slow.done.wait(WAIT_S)
    assert reporting._under_way.acquire(timeout=WAIT_S)
    reporting._under_way.release()
    assert reporting.export(SPANS) is SpanExportResult.SUCCESS
    assert slow.asked == 2
