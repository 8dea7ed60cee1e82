"""HTTP requests to one address, each with a deadline for the whole answer. Connections are kept alive."""

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

IDLE_S_MAX = 30.0  # a proxy may have dropped a connection that was idle for longer
_CHUNK = 65_536


class UnreachableError(OSError):
    """No connection could be opened: the request was not sent."""


class ConnectionClosedError(OSError):
    """The request was sent, in full or in part, and the server closed the connection or sent no valid HTTP."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A response. ``body``: its first bytes, up to the request's limit; ``whole``: whether that is the whole body."""

    status: int
    headers: Message
    body: bytes
    whole: bool


class HttpAddress:
    """``url``: http or https, with or without a path, which is left to those who ask. From any thread.

    ``kept_max``: how many idle connections are kept.
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

    def request(
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

        Raises UnreachableError, ConnectionClosedError, or NoAnswerError at the deadline.
        """
        given = {"User-Agent": "crossline", **(headers or {})}
        while True:
            connection = self._idle_connection()
            fresh = connection is None
            if connection is None:
                connection = self._connected(deadline)
            connection.line.deadline = deadline
            try:
                reply, reusable = _exchange(connection, method, target, body, given, bytes_max, status_counts)
            except ConnectionClosedError:
                connection.close()
                if fresh:
                    raise
                continue  # the server closed it while it was idle
            except BaseException:
                connection.close()
                raise
            self._put_back(connection, reusable=reusable)
            return reply

    def close(self) -> None:
        """Close the idle connections."""
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
            # The deadline passed before a connection was open: the request is not the cause.
            raise UnreachableError(error.strerror or str(error) or type(error).__name__) from error
        return _Connection(self._host, self._port, line, tls=self._tls)

    def _idle_connection(self) -> _Connection | None:
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
    """An HTTP connection over an open socket."""

    def __init__(self, host: str, port: int, line: DeadlineSocket | TlsDeadlineSocket, *, tls: bool) -> None:
        super().__init__(host, port)
        self.default_port = 443 if tls else 80  # which is left out of the header Host
        self.line = line
        self.sock = line
        self.auto_open = 0
        self.used_s = time.monotonic()

    @property
    def alive(self) -> bool:
        """Whether the idle connection is usable: bytes on it are a close, or answer no request."""
        if self.sock is None or time.monotonic() - self.used_s > IDLE_S_MAX:
            return False
        poll = select.poll()
        poll.register(self.line, select.POLLIN)
        return not poll.poll(0)


def _exchange(
    connection: _Connection,
    method: str,
    target: str,
    body: bytes | None,
    headers: Mapping[str, str],
    bytes_max: int,
    status_counts: bool,
) -> tuple[Reply, bool]:
    """The response, and whether the connection can be reused."""
    try:
        with suppress(BrokenPipeError):  # the server may answer, and close, before it has read the request
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
    """The body up to ``bytes_max``, and whether it is complete."""
    read = bytearray()
    while len(read) <= bytes_max:
        more = response.read1(min(_CHUNK, bytes_max + 1 - len(read)))
        if not more:
            if response.length:
                raise http.client.IncompleteRead(bytes(read), response.length)
            return bytes(read), True
        read += more
    return bytes(read[:bytes_max]), False
