"""HTTP to one address: a question, and its answer whole within a deadline; connections are kept for the next one."""

from __future__ import annotations

import http.client
import select
import ssl
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from email.message import Message
from urllib.parse import urlsplit

from crossline.io.net.deadline import Deadline, NoAnswerError
from crossline.io.net.deadline_sockets import DeadlineSocket, TlsDeadlineSocket, open_socket, start_tls, tls_context

IDLE_S_MAX = 30.0  # a connection that nobody used for longer may have been forgotten on its way
_CHUNK = 65_536


class UnreachableError(OSError):
    """No connection could be made: the question was not asked."""


class ConnectionClosedError(OSError):
    """The question was asked, or part of it, and the other side has hung up, or says what is no HTTP."""


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer. ``body``: as much of it as was asked for; ``whole``: whether that is all of it."""

    status: int
    headers: Message
    body: bytes
    whole: bool


class HttpAddress:
    """``url``: http or https, with or without a path, which is left to those who ask. From any thread.

    ``kept_max``: how many connections are kept while nobody asks.
    """

    def __init__(self, url: str, ca_file: str | None = None, kept_max: int = 1) -> None:
        parts = urlsplit(url)
        self._host = parts.hostname or ""
        self._tls = parts.scheme == "https"
        self._port = parts.port or (443 if self._tls else 80)
        self._ca_file = ca_file
        self._kept_max = kept_max
        self._kept: list[_Connection] = []
        self._lock = threading.Lock()
        self._context: ssl.SSLContext | None = None

    def ask(
        self,
        method: str,
        target: str,
        deadline: Deadline,
        *,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        bytes_max: int = 1 << 20,
        status_counts: bool = False,
    ) -> Reply:
        """Ask once; no redirect is followed.

        ``bytes_max``: of the body, of which no more is read. ``status_counts``: once the status is there it is the
        answer, whatever becomes of the body.

        Raises UnreachedError, HungUpError, or NoAnswerError at the deadline.
        """
        given = {"User-Agent": "crossline", **(headers or {})}
        while True:
            connection = self._taken()
            fresh = connection is None
            if connection is None:
                connection = self._connected(deadline)
            connection.line.deadline = deadline
            try:
                reply, reusable = _asked(connection, method, target, body, given, bytes_max, status_counts)
            except ConnectionClosedError:
                connection.close()
                if fresh:
                    raise
                continue  # it was closed while nobody asked: that is no answer to this question
            except BaseException:
                connection.close()
                raise
            self._put_back(connection, reusable=reusable)
            return reply

    def close(self) -> None:
        """Let go of what is kept."""
        with self._lock:
            kept, self._kept = self._kept, []
        for each in kept:
            each.close()

    def _connected(self, deadline: Deadline) -> _Connection:
        try:
            line: DeadlineSocket | TlsDeadlineSocket = open_socket(self._host, self._port, deadline)
            try:
                if self._tls:
                    if self._context is None:
                        self._context = tls_context(self._ca_file)
                    line = start_tls(line, self._context, self._host)  # type: ignore[arg-type]
            except BaseException:
                line.close()
                raise
        except OSError as error:
            # Not even a connection in all that time: whoever is there, it is not the question's fault.
            raise UnreachableError(error.strerror or str(error) or type(error).__name__) from error
        return _Connection(self._host, self._port, line, tls=self._tls)

    def _taken(self) -> _Connection | None:
        while True:
            with self._lock:
                connection = self._kept.pop() if self._kept else None
            if connection is None or connection.alive:
                return connection
            connection.close()

    def _put_back(self, connection: _Connection, *, reusable: bool) -> None:
        if reusable:
            connection.used_s = time.monotonic()
            with self._lock:
                if len(self._kept) < self._kept_max:
                    self._kept.append(connection)
                    return
        connection.close()


class _Connection(http.client.HTTPConnection):
    """Over a line that is there already."""

    def __init__(self, host: str, port: int, line: DeadlineSocket | TlsDeadlineSocket, *, tls: bool) -> None:
        super().__init__(host, port)
        self.default_port = 443 if tls else 80  # which is left out of the header Host
        self.line = line
        self.sock = line
        self.auto_open = 0
        self.used_s = time.monotonic()

    @property
    def alive(self) -> bool:
        """Whether nothing came while nobody asked: what comes then is an end, or nothing that was asked for."""
        if self.sock is None or time.monotonic() - self.used_s > IDLE_S_MAX:
            return False
        poll = select.poll()
        poll.register(self.line, select.POLLIN)
        return not poll.poll(0)


def _asked(
    connection: _Connection,
    method: str,
    target: str,
    body: bytes | None,
    headers: Mapping[str, str],
    bytes_max: int,
    status_counts: bool,
) -> tuple[Reply, bool]:
    """The reply, and whether the connection may serve again."""
    try:
        with suppress(BrokenPipeError):  # it has heard enough, and may have said so
            connection.request(method, target, body, dict(headers))
        response = connection.getresponse()
    except NoAnswerError:
        raise
    except (OSError, http.client.HTTPException) as error:
        raise ConnectionClosedError(str(error) or type(error).__name__) from error
    read, whole = b"", False
    try:
        read, whole = _read(response, bytes_max)
    except (OSError, http.client.HTTPException) as error:
        if not status_counts:
            if isinstance(error, NoAnswerError):
                raise
            raise ConnectionClosedError(str(error) or type(error).__name__) from error
    finally:
        response.close()
    reply = Reply(response.status, response.headers, read, whole)
    return reply, whole and not response.will_close


def _read(response: http.client.HTTPResponse, bytes_max: int) -> tuple[bytes, bool]:
    """The body up to ``bytes_max``, and whether that is all of it."""
    read = bytearray()
    while len(read) <= bytes_max:
        more = response.read1(min(_CHUNK, bytes_max + 1 - len(read)))
        if not more:
            if response.length:
                raise http.client.IncompleteRead(bytes(read), response.length)
            return bytes(read), True
        read += more
    return bytes(read[:bytes_max]), False
