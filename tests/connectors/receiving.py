"""A webhook receiver on loopback: records what was posted, and answers as scripted."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from crossline.io.webhook.signing import is_signed

KEY = "a key that both know"
TRICKLE = 0
Answer = Callable[[dict[str, Any], int], int | None]  # a status; None: it hangs up; TRICKLE: it comes to no end


class Receiver:
    """Listens on loopback. ``answer`` says what becomes of a message that comes for the n-th time."""

    def __init__(self, port: int = 0) -> None:
        self.answer: Answer = lambda _body, _times: 200
        self.headers: dict[str, str] = {}
        self.hang_up_after = False
        self.raw: tuple[dict[str, str], bytes] | None = None  # in place of an orderly answer
        self.got: list[dict[str, Any]] = []
        self.taken: list[str] = []
        self.seen: dict[str, int] = {}
        self.unsigned: list[str] = []
        self.away = threading.Event()  # it closes connections that only probe it
        self.closing = threading.Event()
        self.lock = threading.Lock()
        self.server = ThreadingHTTPServer(("127.0.0.1", port), self._handler())
        self.server.daemon_threads = True
        self.port = self.server.server_port
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_OPTIONS(self) -> None:
                if receiver.away.is_set():
                    self.close_connection = True
                    return
                self.send_response(204)
                self.end_headers()

            def do_POST(self) -> None:
                raw = self.rfile.read(int(self.headers["Content-Length"]))
                status = receiver.take(raw, self.headers["Idempotency-Key"], self.headers["Crossline-Signature"])
                if status is None:
                    self.close_connection = True
                    return
                if status == TRICKLE:
                    self._trickle()
                    return
                with suppress(ConnectionError):  # the client may have given up
                    self.send_response(status)
                    headers, body = receiver.raw or ({"Content-Length": "4", **receiver.headers}, b"said")
                    self.close_connection = receiver.raw is not None
                    for name, value in headers.items():
                        self.send_header(name, value)
                    if self.close_connection:  # unannounced, the next message might still be sent there
                        self.send_header("Connection", "close")
                    self.end_headers()
                    self.wfile.write(body)
                    self.close_connection |= receiver.hang_up_after

            def _trickle(self) -> None:
                """A header without an end, a byte now and then."""
                self.close_connection = True
                with suppress(OSError):
                    self.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
                    while not receiver.closing.wait(0.02):
                        self.wfile.write(b"x")

            def log_message(self, *_: Any) -> None: ...

        return Handler

    def take(self, raw: bytes, name: str, signed: str) -> int | None:
        body = json.loads(raw)
        with self.lock:
            self.got.append(body)
            times = self.seen[name] = self.seen.get(name, 0) + 1
            if not is_signed(KEY.encode(), raw, signed, int(time.time())):
                self.unsigned.append(name)
        status = self.answer(body, times)
        if status == 200:
            with self.lock:
                self.taken.append(name)
        return status

    def close(self) -> None:
        self.closing.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()
