"""A collector of OpenTelemetry: takes what is sent by OTLP over HTTP, and reads it."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, ClassVar, Self

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

WAIT_S = 120.0


class Collector:
    """Listens while the context lasts. ``status``: what it answers; ``requests``: headers and bodies, as they came."""

    def __init__(self) -> None:
        self.status = 200
        self.requests: list[tuple[dict[str, str], bytes]] = []
        self._news = threading.Condition()

        class Handler(_Handler):
            collector = self

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self.endpoint = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def came(self, headers: dict[str, str], body: bytes) -> int:
        with self._news:
            self.requests.append((headers, body))
            self._news.notify_all()
        return self.status

    def until_asked(self, times: int = 1) -> None:
        with self._news:
            assert self._news.wait_for(lambda: len(self.requests) >= times, WAIT_S)

    def spans(self) -> list[Span]:
        """All that came, in the order of their begins."""
        found = [
            span
            for _, body in self.requests
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]
        return sorted(found, key=lambda span: span.start_time_unix_nano)

    def resource(self) -> dict[str, Any]:
        """What the first request says of who sends."""
        request = ExportTraceServiceRequest.FromString(self.requests[0][1])
        return attributes(request.resource_spans[0].resource)


def attributes(body: Any) -> dict[str, Any]:
    """Of a span, an event or a resource."""
    return {each.key: _value(each.value) for each in body.attributes}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(each) for each in value.array_value.values]
    return getattr(value, kind)


class _Handler(BaseHTTPRequestHandler):
    collector: ClassVar[Collector]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        path = {"path": self.path}
        status = self.collector.came({**path, **{name.lower(): found for name, found in self.headers.items()}}, body)
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's
        """Nobody reads it."""
