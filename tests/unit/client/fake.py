"""Servers to ask: one that speaks the contract, on uvicorn, and one that does whatever a test says to a connection."""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Self

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

KEY = "clk_0123456789abcdef"
WAIT_S = 30.0  # for what comes at once on a machine with nothing else to do


def decision(record: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The example of the contract, about ``record``."""
    reason = {"rule_id": "card_burst", "rule_version": 3, "action": "step_up", "score": 55, "alert_id": "x1"}
    window = {"window_start": "2026-01-01T00:00:00.000Z", "window_end": "2026-01-01T00:01:00.000Z"}
    return {
        "schema_version": 1,
        "decision_id": f"d-{record['transaction_id']}",
        "stream": "payments",
        "record_id": record["transaction_id"],
        "decision": "step_up",
        "score": 55,
        "reasons": [{**reason, "standing": False, "message": "10 payments by account a1 in 60 s"}],
        "figures": {"card_burst": {"value": 10, "operator": ">=", "threshold": 10, **window}},
        "answered": "peek",
        "as_of": {"batch": 812, "age_ms": 40, "laid_over": 3},
        "degraded": [],
        "policy_version": 2,
        "rules_digest": "abc",
        "decided_at": "2026-01-01T00:01:00.250Z",
        "took_ms": 3.1,
        "receipt": "r1",
        **more,
    }


def problem(
    status: int, title: str, detail: str, errors: list[dict[str, str]] | None = None, **headers: str
) -> Response:
    body = {"type": "about:blank", "title": title, "status": status, "detail": detail, "errors": errors or []}
    return JSONResponse(body, status, headers, media_type="application/problem+json")


@dataclass
class Fake:
    """What was asked, and what shall be answered: ``script`` first, in its order, then as the contract says."""

    asked: list[Any] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    script: list[Callable[[Request], Response]] = field(default_factory=list)
    known: dict[str, bytes] = field(default_factory=dict)
    url: str = ""

    async def answer(self, request: Request) -> Response:
        body = await request.body()
        self.asked.append(request)
        self.bodies.append(body)
        if self.script:
            return self.script.pop(0)(request)
        if request.headers.get("authorization") != f"Bearer {KEY}":
            return problem(401, "Unauthorized", "no key, or one that is not known")
        path = request.url.path
        if path == "/v1/decisions/payments:batch":
            return JSONResponse([self._one(record) for record in json.loads(body)["records"]])
        if path == "/v1/decisions/payments":
            record = json.loads(body)
            replayed = self.known.get(record["transaction_id"]) == body
            self.known.setdefault(record["transaction_id"], body)
            content = self._one(record)
            headers = {"Idempotency-Replayed": "true"} if replayed else {}
            status = content.get("status", 200)
            return JSONResponse(content, status, headers)
        return JSONResponse({"method": request.method, "path": path, "body": json.loads(body or b"null")})

    def _one(self, record: dict[str, Any]) -> dict[str, Any]:
        if "amount_cents" not in record:
            error = {"pointer": "/amount_cents", "found": "nothing", "expected": "a whole number", "hint": ""}
            return {"title": "Unprocessable", "status": 422, "detail": "does not fit payments", "errors": [error]}
        return decision(record)


@contextmanager
def serving(fake: Fake) -> Iterator[Fake]:
    """The fake on a port of its own, over a real server."""
    app = Starlette(routes=[Route("/{path:path}", fake.answer, methods=["GET", "POST", "PUT", "PATCH", "DELETE"])])
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    config = uvicorn.Config(app, log_level="error", lifespan="off", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    listening.listen(128)  # from here on who asks waits, and is not refused
    thread.start()
    fake.url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    try:
        yield fake
    finally:
        server.should_exit = True
        thread.join(WAIT_S)
        listening.close()


def stream_of(*parts: bytes) -> Response:
    return StreamingResponse(iter(parts), media_type="text/event-stream")


class Connection:
    """An open case."""

    def __init__(self, sock: socket.socket, over: threading.Event) -> None:
        self.sock, self.over = sock, over

    def request(self) -> bytes:
        """All of one request."""
        data = b""
        while b"\r\n\r\n" not in data:
            if not (part := self.sock.recv(65_536)):
                return data
            data += part
        head, _, body = data.partition(b"\r\n\r\n")
        length = next(
            (int(x.split(b":")[1]) for x in head.split(b"\r\n") if x.lower().startswith(b"content-length")), 0
        )
        while len(body) < length:
            body += self.sock.recv(65_536)
        return head + b"\r\n\r\n" + body

    def say(self, status: str, body: bytes = b"", **headers: str) -> None:
        lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *(f"{k}: {v}" for k, v in headers.items())]
        self.sock.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + body)

    def reset(self) -> None:
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()

    def trickle(self, data: bytes) -> None:
        """A byte at a time, as long as the client reads: each well within any read timeout."""
        for byte in data:
            if self.over.wait(0.005):
                return
            self.sock.sendall(bytes([byte]))


class Hostile:
    """Does to its connections, one after the other, what the script says; the last of it to all that follow."""

    def __init__(self, *script: Callable[[Connection], None]) -> None:
        self.script, self.over, self.opened = script, threading.Event(), 0
        self.gone = threading.Semaphore(0)  # released once for each connection of which the other side let go
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._threads = [threading.Thread(target=self._accept)]
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for thread in self._threads:
            thread.join(WAIT_S)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                sock, _ = self._listening.accept()
                sock.settimeout(WAIT_S)
                each = self.script[min(self.opened, len(self.script) - 1)]
                self.opened += 1
                self._threads.append(threading.Thread(target=self._play, args=(each, sock)))
                self._threads[-1].start()

    def _play(self, each: Callable[[Connection], None], sock: socket.socket) -> None:
        with sock, suppress(OSError):
            each(Connection(sock, self.over))
        self.gone.release()


def hang(connection: Connection) -> None:
    """Take the request, say nothing, until the other side lets go."""
    while connection.sock.recv(65_536):
        pass


def hang_at_once(connection: Connection) -> None:
    connection.over.wait(WAIT_S)


def trickle_head(connection: Connection) -> None:
    connection.request()
    connection.trickle(b"HTTP/1.1 200 OK\r\n" + b"X-Slow: slow\r\n" * 10_000)


def trickle_body(connection: Connection) -> None:
    connection.request()
    connection.sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
    connection.trickle(b" " * 1_000_000)


def reset_at_once(connection: Connection) -> None:
    connection.reset()


def reset_after_request(connection: Connection) -> None:
    connection.request()
    connection.reset()


def cut(connection: Connection) -> None:
    """Half of an answer."""
    connection.request()
    connection.sock.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{"decision": "all')


def good(connection: Connection) -> None:
    """As the contract says, for as long as it is asked."""
    while data := connection.request():
        record = json.loads(data.partition(b"\r\n\r\n")[2])
        connection.say("200 OK", json.dumps(decision(record)).encode())


def says(status: str, body: bytes = b"", **headers: str) -> Callable[[Connection], None]:
    """The same to each request."""

    def play(connection: Connection) -> None:
        while connection.request():
            connection.say(status, body, **headers)

    return play
