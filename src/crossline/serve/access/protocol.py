"""HTTP at the socket: bounds of the head, and deadlines for clients that send or read too slowly, if ever.

uvicorn bounds none of these with httptools: a head may grow without end, and a connection that sends a byte now and
then is held for ever.
"""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from crossline.serve.access.middleware import SECURITY_HEADERS
from crossline.serve.http.problems import MEDIA_TYPE, ProblemError, refusal
from crossline.settings.process.serve import ServeSettings

HEAD_BYTES_MAX, HEADERS_MAX = 16_384, 64
# A head is whole within so long of its first byte, and a body sends so many bytes a second from
# then on; what is sent to a client is read within so long.
HEAD_S, BODY_S, BODY_BYTES_PER_S, ANSWER_S = 10.0, 10.0, 16_384, 30.0
KEEP_ALIVE_S = 75
SILENT_S = 75.0  # a connection on which nothing was asked yet
# Bytes of the body of a refused request that are read and dropped, while the client reads the reason.
DROPPED_BYTES_MAX = 1 << 20
_WATCH_S = 1.0
_SEPARATORS = 4  # `: ` and the end of a line


class _HeadTooLargeError(Exception):
    """Ends the parsing of a head."""


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's protocol with bounds; for ``uvicorn.Config(http=BoundedProtocol)``.

    A head of more than 16 KiB or 64 headers is 431. One that is not whole within 10 s ends the connection with 408, and
    so does a body that comes at less than 16 KiB/s. A connection on which nothing was asked yet is kept as one between
    two requests is, and closed without a word: the client would read an answer there as that of the next request. A
    client that reads nothing of its answer for 30 s is hung up on. Each connection looks at its own clock once a
    second, so that a request costs none of it.
    """

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._head_since: float | None = None
        self._silent_since: float | None = None
        self._body_since: float | None = None
        self._paused_since: float | None = None
        self._head_bytes = 0
        self._body_bytes = 0
        self._in_head = True
        self._too_large = False
        self._watch: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client that connects has to say something, some time."""
        super().connection_made(transport)
        self._silent_since = self.loop.time()
        self._watch = self.loop.call_later(_WATCH_S, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is watched any more."""
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Bytes of a head or a body, or of several requests."""
        self._silent_since = None
        if self._in_head:
            self._head_bytes += len(data)
            if self._head_since is None:
                self._head_since = self.loop.time()
        else:
            self._body_bytes += len(data)
            if self._body_bytes > DROPPED_BYTES_MAX and self.cycle.response_complete:
                self.transport.close()
                return
        super().data_received(data)
        if self._in_head and self._head_bytes > HEAD_BYTES_MAX and not self.transport.is_closing():
            self._answer(_head_too_large())

    def on_message_begin(self) -> None:
        """The first byte of a head."""
        if self._head_since is None:
            self._head_since = self.loop.time()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """The head is whole."""
        if len(self.headers) > HEADERS_MAX or (
            self._head_bytes > HEAD_BYTES_MAX and self._head_size() > HEAD_BYTES_MAX
        ):
            self._too_large = True
            raise _HeadTooLargeError
        self._in_head = False
        self._head_since = None
        self._head_bytes = self._body_bytes = 0
        self._body_since = self.loop.time()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """The body is whole; what comes next is a head."""
        self._in_head = True
        self._body_since = None
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """The head, or how the body is divided, is not HTTP."""
        problem = _head_too_large() if self._too_large else refusal(400, f"{msg} Expected HTTP/1.1 (RFC 9112)")
        self._answer(problem)

    def pause_writing(self) -> None:
        """The client reads more slowly than it is answered."""
        super().pause_writing()
        self._paused_since = self.loop.time()

    def resume_writing(self) -> None:
        """It reads again."""
        super().resume_writing()
        self._paused_since = None

    def _unsupported_upgrade_warning(self) -> None:
        """Some clients offer HTTP/2 with every request; a server may ignore it (RFC 9110, 7.8)."""

    def _head_size(self) -> int:
        return len(self.url) + sum(len(name) + len(value) + _SEPARATORS for name, value in self.headers)

    def _look(self) -> None:
        now_s = self.loop.time()
        self._watch = self.loop.call_later(_WATCH_S, self._look)
        if self._paused_since is not None and now_s - self._paused_since > ANSWER_S:
            self.transport.abort()
        elif self._silent_since is not None and now_s - self._silent_since > SILENT_S:
            self.transport.close()
        elif self._head_since is not None and now_s - self._head_since > HEAD_S:
            self._answer(refusal(408, f"found no whole head of a request within {HEAD_S:.0f} s"))
        elif self.flow.read_paused:  # what was sent is not read yet: that is ours
            if self._body_since is not None:
                self._body_since, self._body_bytes = now_s, 0
        elif self._body_since is not None and self._body_bytes < BODY_BYTES_PER_S * (now_s - self._body_since - BODY_S):
            self._answer(refusal(408, f"found a body that comes at less than {BODY_BYTES_PER_S:,} bytes a second"))

    def _answer(self, problem: ProblemError) -> None:
        """Say so, unless an answer is being sent, and hang up."""
        if self.transport.is_closing():
            return
        if self.cycle is None or self.cycle.response_complete or not self.cycle.response_started:
            body = orjson.dumps(problem.to_json())
            lines = [
                (b"content-type", MEDIA_TYPE.encode()),
                (b"content-length", b"%d" % len(body)),
                (b"connection", b"close"),
            ]
            head = b"".join(b"%s: %s\r\n" % each for each in (*lines, *SECURITY_HEADERS))
            self.transport.write(STATUS_LINE[problem.status] + head + b"\r\n" + body)
        self.transport.close()


def _head_too_large() -> ProblemError:
    text = f"found a head of more than {HEAD_BYTES_MAX:,} bytes or {HEADERS_MAX} headers; expected a shorter one"
    return refusal(431, text)


def uvicorn_settings(serve: ServeSettings) -> dict[str, Any]:
    """Arguments of ``uvicorn.Config`` beside the app: they set the bounds, and keep the server out of headers.

    Example:
        uvicorn.Config(Access(app, credentials, serve.limits), **uvicorn_settings(serve))
    """
    tls = {} if serve.tls is None else {"ssl_certfile": serve.tls.cert_file, "ssl_keyfile": serve.tls.key_file}
    return {
        "host": serve.place.host,
        "port": serve.place.port,
        "http": BoundedProtocol,
        "ws": "none",
        "lifespan": "on",
        "proxy_headers": False,  # X-Forwarded-For would let anybody on this machine be any address
        "server_header": False,
        "access_log": False,
        "log_config": None,
        "timeout_keep_alive": KEEP_ALIVE_S,
        **tls,
    }
