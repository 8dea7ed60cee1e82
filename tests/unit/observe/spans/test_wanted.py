"""Spans are sent where the pipeline or the standard variables ask for them; addresses hold no key."""

from __future__ import annotations

import sys

import pytest
from pydantic import ValidationError
from structlog.testing import capture_logs

from crossline.basics.errors import UsageError
from crossline.observe.telemetry import Telemetry
from crossline.observe.tracing import spans_wanted
from crossline.settings.config import PipelineConfig, load_pipeline
from crossline.settings.watch import OtlpSettings

HERE = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4318"}
PIPELINE = """
schema_version: 1
name: shop
streams: {payments: {format: json, id: id, event_time: {field: at, unit: ms}, fields: {id: string, at: integer}}}
sources: {payments: {kind: files, path: in}}
rules: {kind: directory, path: rules}
sinks: [{kind: console}]
"""


@pytest.mark.parametrize(
    ("asked", "environment", "wanted"),
    [
        (False, {}, False),
        (True, {}, True),
        (False, HERE, True),
        (False, {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://a/x"}, True),
        (False, {**HERE, "OTEL_TRACES_EXPORTER": "none"}, False),
        (False, {**HERE, "OTEL_TRACES_EXPORTER": "console,otlp"}, True),
        (True, {"OTEL_SDK_DISABLED": "TRUE"}, False),
        (False, {"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, False),
    ],
)
def test_who_asks_for_spans(asked: bool, environment: dict[str, str], wanted: bool) -> None:
    assert spans_wanted(OtlpSettings() if asked else None, environment) is wanted


def test_another_protocol_is_reported() -> None:
    with capture_logs() as logs:
        assert not spans_wanted(None, {**HERE, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"})
    assert (logs[0]["found"], logs[0]["expected"]) == ("grpc", "http/protobuf")


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"endpoint": "http://u:hunter2@host"}, "no user, no password"),
        ({"endpoint": "https://host/?key=hunter2"}, "no user, no password"),
        ({"endpoint": "grpc://host:4317"}, "http:// or https://"),
        ({"endpoint": "http://host:99999"}, "http:// or https://"),
        ({"endpoint": "http://host", "password_env": "KEY"}, "https://, for a password"),
        ({"header": "a: b"}, "name of a header"),
        ({"password_env": "A", "password_file": "b"}, "one of them"),
    ],
)
def test_what_is_refused(settings: dict[str, str], text: str) -> None:
    with pytest.raises(ValidationError, match=text) as caught:
        OtlpSettings(**settings)
    assert "hunter2" not in "".join(str(each["ctx"]) for each in caught.value.errors(include_input=False))


@pytest.mark.parametrize("endpoint", ["http://127.0.0.1:4318", "http://localhost", "https://host/a", None])
def test_what_is_taken(endpoint: str | None) -> None:
    OtlpSettings(endpoint=endpoint, password_env="KEY")


def config(watch: str = "") -> PipelineConfig:
    return load_pipeline(PIPELINE + watch, "pipeline.yaml", lambda _: "")


def test_what_makes_them_may_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("crossline.observe.spans")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(UsageError, match=r"watch\.otlp: spans need opentelemetry.*crossline\[otlp\]"):
        Telemetry.of(config("watch: {listen: '0', otlp: {}}"))
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4318")
    with capture_logs() as logs:  # others on this machine may have set it
        Telemetry.of(config()).close()
    assert "crossline[otlp]" in logs[0]["error"]
