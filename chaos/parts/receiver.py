"""The receiver of a webhook's requests, which counts them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

HOST = "127.0.0.1"


@dataclass(slots=True)
class Receiver:
    """Takes the posts of a webhook. ``ids``: by message how often it was answered with 200."""

    ids: dict[str, int] = field(default_factory=dict)
    port: int = 0
    answers: threading.Event = field(default_factory=threading.Event)
    ending: threading.Event = field(default_factory=threading.Event)
    busy: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://{HOST}:{self.port}/alerts"

    def took(self, name: str) -> None:
        """A message was answered."""
        with self._lock:
            self.ids[name] = self.ids.get(name, 0) + 1


@contextmanager
def receiving() -> Iterator[Receiver]:
    """A receiver, for as long as the context lasts."""
    receiver = Receiver()
    receiver.answers.set()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            while not receiver.answers.wait(0.1):
                if receiver.ending.is_set():
                    return
            if not receiver.busy:
                receiver.took(self.headers["Idempotency-Key"])
            self.send_response(503 if receiver.busy else 200)
            self.send_header("Content-Length", "0")
            with suppress(OSError):  # who asked has gone
                self.end_headers()

        def log_message(self, *_: object) -> None:
            """No log line per request."""

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_: object) -> None:
            """Broken connections are a part of the drill, and no error."""

    server = Server((HOST, 0), Handler)
    server.daemon_threads = True
    receiver.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.1,), name="webhook", daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        receiver.ending.set()
        server.shutdown()
        server.server_close()
        thread.join()
