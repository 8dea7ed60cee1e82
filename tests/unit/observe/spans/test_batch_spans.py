"""A batch is a trace: what a collector reads of it, of its phases, and of each delivery, now or later."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from connectors.makers import alert
from crossline.basics.errors import PermanentError, SinkError
from crossline.io.outbox.sink import OutboxSink
from crossline.io.sinks.base import Delivery, RetryPolicy, Sink, deliver_all
from crossline.io.sinks.console import ConsoleSink
from crossline.observe.spans import exporter
from crossline.observe.spans.batch_spans import ids_of
from crossline.observe.spans.exporter import Spans
from crossline.runtime.work.totals import Totals
from crossline.settings.watch import OtlpSettings
from e2e.collector import Collector, attributes

SECRET = "hunter2"
BEGAN_MS = 1_790_000_000_000
FIGURES = {
    "records": 7,
    "retained": 40,
    "began_ms": BEGAN_MS,
    "wall_ms": {"plan": 1.5, "tasks": 20.0, "collect": 0.5},
    "spent_ms": {"read": 3.25},
}
QUICK = RetryPolicy(initial_ms=1, max_ms=1)


class Shaky(ConsoleSink):
    """Fails a given number of times."""

    def __init__(self, failures: int = 0) -> None:
        super().__init__()
        self.failures = failures

    def open(self) -> None: ...

    def deliver(self, delivery: Delivery) -> None:  # noqa: ARG002 - as a sink has it
        self.failures -= 1
        if self.failures >= 0:
            raise SinkError(f"the password {SECRET} is wrong")

    def close(self) -> None: ...


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporter, "END_S", 60.0)  # of a machine that is busy
    for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_SERVICE_NAME"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as collector:
        yield collector


def batch(number: int = 3, *records: str, **figures: Any) -> Delivery:
    return Delivery("shop", number, alerts=[alert(each) for each in records], figures={**FIGURES, **figures})


def run(spans: Spans, sinks: Sequence[Sink], delivery: Delivery) -> None:
    """Deliver as a pipeline does."""
    spans.name_sinks(sinks)
    deliver_all(sinks, delivery, QUICK, watch=spans)
    spans.batch(delivery, Totals(after_ms={"deliver": 4.0, "mark": 1.0}))


def test_a_batch_is_a_trace(collector: Collector) -> None:
    spans = Spans(OtlpSettings(endpoint=collector.endpoint), "shop")
    delivery = batch(3, "r1", "r2")
    with capture_logs():
        run(spans, [Shaky(2), ConsoleSink()], delivery)
    spans.close()
    found = {span.name: span for span in collector.spans()}
    names = {"batch", "plan", "tasks", "collect", "deliver", "mark", "deliver to shaky", "deliver to console"}
    assert set(found) == names

    whole = found["batch"]
    ids = ids_of(delivery)
    assert ids is not None
    assert (int.from_bytes(whole.trace_id), int.from_bytes(whole.span_id)) == ids
    assert (whole.parent_span_id, {span.trace_id for span in found.values()}) == (b"", {whole.trace_id})
    for name in ("plan", "tasks", "collect", "deliver", "mark"):
        assert found[name].parent_span_id == whole.span_id
    for name in ("deliver to shaky", "deliver to console"):
        assert found[name].parent_span_id == found["deliver"].span_id
    content = attributes(whole)
    assert content["crossline.alert_ids"] == ["id-r1", "id-r2"]
    counted = {name: value for name, value in content.items() if isinstance(value, int) and value}
    assert counted == {
        "crossline.batch_id": 3,
        "crossline.records": 7,
        "crossline.records_retained": 40,
        "crossline.alerts": 2,
    }
    assert (content["crossline.pipeline"], content["crossline.task_ms.read"]) == ("shop", 3.25)
    assert collector.resource()["service.name"] == "shop"
    assert attributes(found["deliver to shaky"]) == {"crossline.sink": "shaky", "crossline.attempts": 3}
    failures = found["deliver to shaky"].events
    assert [attributes(event) for event in failures] == [{"error.type": "SinkError"}] * 2
    assert all(SECRET.encode() not in body for _, body in collector.requests)
    assert collector.requests[0][0]["path"] == "/v1/traces"


def test_phases_lie_one_behind_the_other(collector: Collector) -> None:
    spans = Spans(OtlpSettings(endpoint=collector.endpoint), "shop")
    run(spans, [ConsoleSink()], batch())
    spans.close()
    found = {span.name: (span.start_time_unix_nano, span.end_time_unix_nano) for span in collector.spans()}
    began = BEGAN_MS * 1_000_000
    assert found["plan"] == (began, began + 1_500_000)
    assert found["tasks"] == (began + 1_500_000, began + 21_500_000)
    assert found["collect"] == (began + 21_500_000, began + 22_000_000)
    ended = found["batch"][1]
    assert found["batch"][0] == began
    assert found["deliver"] == (ended - 5_000_000, ended - 1_000_000)
    assert found["mark"] == (ended - 1_000_000, ended)


def test_what_is_delivered_later_has_a_link(collector: Collector, tmp_path: Path) -> None:
    spans = Spans(OtlpSettings(endpoint=collector.endpoint), "shop")
    behind = OutboxSink(Shaky(1), tmp_path / "behind", QUICK, spans)
    (tmp_path / "behind").mkdir()
    run(spans, [behind], batch(4, "r1"))  # it is not open yet: as after a kill, another one finds it on the disk
    with capture_logs():
        behind.open()
        behind.catch_up(threading.Event())
    behind.close()
    spans.close()
    found = {span.name: span for span in collector.spans()}
    kept, later = found["keep for shaky"], found["deliver to shaky"]
    assert kept.parent_span_id == found["deliver"].span_id
    (link,) = later.links
    assert (link.trace_id, link.span_id) == (found["batch"].trace_id, found["batch"].span_id)
    assert (later.parent_span_id, later.trace_id != link.trace_id) == (b"", True)
    assert later.trace_id[8:] == link.trace_id[8:], "a sampler that goes by it takes both or none"
    reported = attributes(later)
    assert reported.pop("crossline.behind_ms") >= 0
    assert reported == {
        "crossline.pipeline": "shop",
        "crossline.batch_id": 4,
        "crossline.sink": "shaky",
        "crossline.attempts": 2,
    }


def test_a_batch_that_is_run_again_is_another_trace() -> None:
    assert ids_of(batch()) == ids_of(batch())
    assert ids_of(batch()) != ids_of(batch(began_ms=BEGAN_MS + 1))
    assert ids_of(Delivery("shop", 3, figures={"records": 1})) is None


def test_the_environment_alone_is_enough(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", f"x-key={SECRET}")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "fraud")
    spans = Spans(None, "shop")
    run(spans, [ConsoleSink()], batch())
    spans.close()
    assert collector.resource()["service.name"] == "fraud"
    assert collector.requests[0][0]["x-key"] == SECRET


def test_none_of_a_batch_is_sampled_or_all(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "traceidratio")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", "0.5")
    spans = Spans(OtlpSettings(endpoint=collector.endpoint), "shop")
    for number in range(40):
        run(spans, [ConsoleSink()], batch(number))
    spans.close()
    by_trace: dict[bytes, int] = {}
    for span in collector.spans():
        by_trace[span.trace_id] = by_trace.get(span.trace_id, 0) + 1
    assert set(by_trace.values()) == {7}
    assert 0 < len(by_trace) < 40


def test_a_key_is_sent_and_never_reported(collector: Collector, tmp_path: Path) -> None:
    (tmp_path / "key").write_text(f"Bearer {SECRET}\n")
    settings = OtlpSettings(endpoint=collector.endpoint, password_file=str(tmp_path / "key"))
    collector.status = 401
    with capture_logs() as logs:
        spans = Spans(settings, "shop")
        run(spans, [ConsoleSink()], batch())
        spans.close()
    assert collector.requests[0][0]["authorization"] == f"Bearer {SECRET}"
    (line,) = logs
    assert line["event"].startswith("a collector does not accept spans")
    assert SECRET not in str(logs)


def test_a_collector_that_is_away_is_reported_of_once(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "1")
    collector.status = 400
    with capture_logs() as logs:
        spans = Spans(OtlpSettings(endpoint=collector.endpoint), "shop")
        for number in range(2):
            run(spans, [ConsoleSink()], batch(number))
            collector.until_asked(number + 1)
        collector.status = 200
        run(spans, [ConsoleSink()], batch(2))
        spans.close()
    assert [line["event"] for line in logs] == [
        "a collector does not accept spans; they are dropped until it does",
        "the collector accepts spans again",
    ]
    assert logs[1]["dropped"] > 0


def test_a_key_that_no_header_holds_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THE_KEY", f"a\nb{SECRET}")
    with pytest.raises(PermanentError, match="plain ASCII on one line") as caught:
        Spans(OtlpSettings(password_env="THE_KEY"), "shop")
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("name", ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"])
def test_a_key_goes_in_the_clear_to_no_address_of_the_environment(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THE_KEY", SECRET)
    monkeypatch.setenv(name, "http://10.0.0.7:4318")
    with pytest.raises(PermanentError, match=r"found http:// to 10\.0\.0\.7, .*expected https://"):
        Spans(OtlpSettings(password_env="THE_KEY"), "shop")
