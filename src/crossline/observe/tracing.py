"""Whether spans are wanted; the libraries that make them are not loaded to know that."""

from __future__ import annotations

from collections.abc import Mapping

from crossline.logs import get_logger
from crossline.settings.watch import OtlpSettings

PLACES = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
PROTOCOL = "http/protobuf"

log = get_logger(__name__)


def spans_wanted(settings: OtlpSettings | None, environment: Mapping[str, str]) -> bool:
    """Whether ``settings`` or the standard variables ask for spans, and none of these forbids them."""
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    if settings is not None:
        return True
    exporters = environment.get("OTEL_TRACES_EXPORTER", "otlp").split(",")
    if "otlp" not in [each.strip() for each in exporters] or not any(environment.get(name) for name in PLACES):
        return False
    spoken = next((environment[name] for name in PROTOCOLS if environment.get(name)), PROTOCOL)
    if spoken != PROTOCOL:
        log.warning("no spans are sent: the environment names another protocol", found=spoken, expected=PROTOCOL)
    return spoken == PROTOCOL
