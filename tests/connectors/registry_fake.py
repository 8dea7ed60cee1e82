"""A fake schema registry over HTTP on loopback, with scripted schemas and errors."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Json = Any
Answer = tuple[int, bytes]
WAIT_S = 120.0


class FakeRegistry:
    """``url`` stays the same over ``down`` and ``up``.

    ``latest``: by subject, the newest of its ``versions``. ``asked``: the paths that were asked for.
    ``faults``: answers that are given first, each once; None hangs up.
    ``login``: who may ask.
    """

    def __init__(self) -> None:
        self.schemas: dict[int, Json] = {}
        self.versions: dict[tuple[str, int], Json] = {}
        self.latest: dict[str, int] = {}
        self.asked: list[str] = []
        self.faults: list[Answer | None] = []
        self.login: tuple[str, str] | None = None
        self._news = threading.Condition()
        self._server: ThreadingHTTPServer | None = None
        self._port = 0
        self.up()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def up(self) -> None:
        """Listen, where it listened before."""
        assert self._server is None
        self._server = _Server(("127.0.0.1", self._port), _handler(self))
        self._port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def down(self) -> None:
        """Refuse connections."""
        server, self._server = self._server, None
        if server is not None:
            server.shutdown()
            server.server_close()

    def add(self, number: int, schema: Json, **more: Json) -> int:
        """Hold a schema; ``more``: of the answer besides, its references or its type."""
        self.schemas[number] = {"schema": json.dumps(schema), **more}
        return number

    def until_asked(self, path: str, times: int) -> None:
        """Wait until it was asked for ``path`` so many times, since it was made."""
        with self._news:
            assert self._news.wait_for(lambda: self.asked.count(path) >= times, WAIT_S), self.asked

    def answer(self, method: str, path: str, body: bytes, authorization: str | None) -> Answer | None:
        with self._news:
            self.asked.append(path)
            self._news.notify_all()
        if self.faults:
            return self.faults.pop(0)
        if self.login is not None:
            expected = base64.b64encode(":".join(self.login).encode()).decode()
            if authorization != f"Basic {expected}":
                return 401, b'{"error_code": 401, "message": "who are you?"}'
        parts = path.partition("?")[0].strip("/").split("/")
        found: Json = None
        if parts[:2] == ["schemas", "ids"]:
            found = self.schemas.get(int(parts[2]))
        elif method == "GET" and parts[0] == "subjects":
            number = self.latest.get(parts[1]) if parts[3] == "latest" else int(parts[3])
            found = self.versions.get((parts[1], number))
        elif method == "POST" and parts[0] == "subjects":
            made = len(self.schemas) + 1
            self.schemas[made] = {"schema": json.loads(body)["schema"]}
            found = {"id": made}
        if found is None:
            return 404, b'{"error_code": 40403, "message": "Schema not found"}'
        return 200, json.dumps(found).encode()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True


def _handler(registry: FakeRegistry) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def _serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            answer = registry.answer(self.command, self.path, body, self.headers.get("Authorization"))
            if answer is None:
                self.close_connection = True
                return
            status, raw = answer
            self.send_response(status)
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        do_GET: Callable[..., None] = _serve  # noqa: N815 - the names that http.server looks for
        do_POST: Callable[..., None] = _serve  # noqa: N815

        def log_message(self, *_: object) -> None:
            """It says nothing."""

    return Handler


@contextmanager
def fake_registry() -> Iterator[FakeRegistry]:
    """A registry, gone at the end."""
    registry = FakeRegistry()
    try:
        yield registry
    finally:
        registry.down()
