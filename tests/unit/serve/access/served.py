"""A small app behind ``Access`` under a real uvicorn, and raw requests to it."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from crossline.serve.access.credentials import Credentials, Tokens
from crossline.serve.access.keyfile import KeyFile
from crossline.serve.access.keyring import KeyRing
from crossline.serve.access.middleware import Access
from crossline.serve.access.protocol import uvicorn_settings
from crossline.serve.access.roles import allows, may_see
from crossline.serve.http.problems import install, not_allowed, refusal
from crossline.settings.process.serve import LimitSettings, ServeSettings

SILENT_S = 20.0


def now_ms() -> int:
    return time.time_ns() // 1_000_000


@dataclass
class Seen:
    """What the app was asked, which is nothing that ``Access`` refused; whether a stream of it ended."""

    asked: list[tuple[str, str, str]] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)


def small_app(seen: Seen) -> Starlette:
    async def answer(request: Request) -> Response:
        seen.asked.append((request.method, request.url.path, request.state.principal.name))
        body = await request.body()
        seen.bodies.append(body)
        if body:
            try:
                orjson.loads(body)
            except orjson.JSONDecodeError as error:
                raise refusal(422, f"found what is no JSON: {error}") from None
        return JSONResponse({"by": request.state.principal.name, "path": dict(request.path_params)})

    async def decision(request: Request) -> Response:
        """Decisions whose id begins with the name of their stream."""
        seen.asked.append((request.method, request.url.path, request.state.principal.name))
        stream, _, number = request.path_params["decision_id"].partition("-")
        if number != "1" or not may_see(request.state.principal, stream):
            raise not_allowed()
        return JSONResponse({"stream": stream})

    async def broken(request: Request) -> Response:
        assert allows(request.state.principal, "read:alerts")
        raise ValueError("the password is hunter2")

    async def events(request: Request) -> Response:
        """Without an end, as server-sent events are."""

        async def each() -> AsyncIterator[bytes]:
            try:
                while True:
                    yield b"data: x\n\n"
                    await asyncio.sleep(0.01)
            finally:
                seen.ended.set()

        return StreamingResponse(each(), media_type="text/event-stream")

    async def health(_: Request) -> Response:
        return JSONResponse({"status": "ok"})

    app = Starlette(
        routes=[
            Route("/healthz", health),
            Route("/readyz", health),
            Route("/v1/decisions/{stream}:batch", answer, methods=["POST"]),
            Route("/v1/decisions/{stream}", answer, methods=["POST"]),
            Route("/v1/decisions/{decision_id}", decision),
            Route("/v1/alerts", answer),
            Route("/v1/events", events),
            Route("/v1/alerts/{alert_id}", answer),
            Route("/v1/labels/{stream}/{record_id:path}", answer, methods=["PUT"]),
            Route("/v1/rules:approve", answer, methods=["POST"]),
            Route("/v1/audit", answer),
            Route("/v1/rules", broken),
            Route("/v1/secrets", answer),  # has no entry in the table
        ]
    )
    install(app)
    return app


@dataclass
class Served:
    """A server that runs. ``keys``: by name, of those that were made at the start."""

    port: int
    file: KeyFile
    seen: Seen
    keys: dict[str, str]
    server: uvicorn.Server

    def connected(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), SILENT_S)

    def raw(self, asked: bytes) -> bytes:
        """What comes back until the server hangs up, which is asked for."""
        with self.connected() as client:
            client.sendall(asked)
            return until_end(client)

    def ask(self, method: str, path: str, key: str | None = None, body: bytes = b"", *more: str) -> Answer:
        auth = [] if key is None else [f"Authorization: Bearer {key}"]
        lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", "Connection: close", *auth, *more]
        length = [] if not body and method == "GET" else [f"Content-Length: {len(body)}"]
        return Answer.of(self.raw("\r\n".join([*lines, *length, "", ""]).encode("latin-1") + body))


def one_answer(client: socket.socket) -> Answer:
    """One whole answer of a connection that goes on."""
    found = b""
    while b"\r\n\r\n" not in found:
        found += _more(client)
    head, _, body = found.partition(b"\r\n\r\n")
    length = int(Answer.of(head).headers["content-length"])
    while len(body) < length:
        body += _more(client)
    assert len(body) == length
    return Answer.of(head + b"\r\n\r\n" + body)


def _more(client: socket.socket) -> bytes:
    part = client.recv(1 << 16)
    assert part, "it was hung up"
    return part


def until_end(client: socket.socket) -> bytes:
    found = b""
    try:
        while part := client.recv(1 << 16):
            found += part
    except ConnectionResetError:
        pass
    return found


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @classmethod
    def of(cls, raw: bytes) -> Answer:
        head, _, body = raw.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (each.partition(":") for each in lines)}
        return cls(int(first.split(" ")[1]), headers, body)

    @property
    def json(self) -> Any:
        return orjson.loads(self.body)


KEYS = {
    "shop": ["decide:payments"],
    "viewer": ["read:alerts"],
    "analyst": ["read:alerts", "write:labels"],
    "root": ["admin"],
}


@contextmanager
def served(
    folder: Path, limits: LimitSettings | None = None, tokens: Tokens | None = None, *, open_: bool = False
) -> Iterator[Served]:
    file, seen = KeyFile(folder / "keys.db"), Seen()
    keys = {name: file.create(name, scopes, now_ms=now_ms(), expires_ms=None)[0] for name, scopes in KEYS.items()}
    credentials = None if open_ else Credentials(KeyRing(file.path), tokens)
    app = Access(small_app(seen), credentials, limits or LimitSettings(body_max=1_000))
    config = uvicorn.Config(
        app, **{**uvicorn_settings(ServeSettings()), "port": 0, "log_level": "critical", "timeout_graceful_shutdown": 5}
    )
    server = uvicorn.Server(config)
    ready = threading.Event()

    async def run() -> None:
        startup = server.startup

        async def started(sockets: Any = None) -> None:
            await startup(sockets)
            ready.set()

        server.startup = started  # type: ignore[method-assign]
        await server._serve()

    thread = threading.Thread(target=lambda: asyncio.run(run()))
    thread.start()
    try:
        assert ready.wait(SILENT_S)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield Served(port, file, seen, keys, server)
    finally:
        server.should_exit = True
        thread.join()
