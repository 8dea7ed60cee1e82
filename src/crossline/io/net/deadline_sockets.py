"""Sockets with a deadline: every wait of a socket ends at its deadline, whichever library uses it."""

from __future__ import annotations

import errno
import os
import select
import socket
import ssl
from typing import TYPE_CHECKING, Any

from crossline.io.net.deadline import Deadline, NoAnswerError, within

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer


class _Bounded:
    """Splits each wait of a socket into short waits up to the deadline.

    A time-out set by a library is ignored, except 0, which means non-blocking.
    """

    deadline: Deadline | None = None

    def recv_into(self, buffer: WriteableBuffer, nbytes: int | None = None, flags: int = 0) -> int:
        return self._waited(super().recv_into, buffer, nbytes or 0, flags)  # type: ignore[misc,no-any-return]

    def recv(self, bufsize: int, flags: int = 0) -> bytes:
        return self._waited(super().recv, bufsize, flags)  # type: ignore[misc,no-any-return]

    def sendall(self, data: ReadableBuffer, flags: int = 0) -> None:
        with memoryview(data) as view, view.cast("B") as left:
            sent = 0
            while sent < len(left):
                sent += self._waited(super().send, left[sent:], flags)  # type: ignore[misc,no-any-return]

    def _waited(self, call: Any, *arguments: Any) -> Any:
        if self.deadline is None or self.gettimeout() == 0:  # type: ignore[attr-defined]
            return call(*arguments)
        while True:
            self.settimeout(self.deadline.look_s())  # type: ignore[attr-defined]
            try:
                return call(*arguments)
            except TimeoutError:
                continue


class DeadlineSocket(_Bounded, socket.socket):
    """A plain TCP socket."""


class TlsDeadlineSocket(_Bounded, ssl.SSLSocket):  # type: ignore[misc]  # it names a parameter otherwise
    """A TLS socket."""


def open_socket(host: str, port: int, deadline: Deadline) -> DeadlineSocket:
    """A socket to ``host``, at the first address that accepts the connection. Raises OSError."""
    found = within(deadline, lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM), "names")
    failed: OSError = OSError(f"{host} has no address")
    for number, (family, kind, protocol, _, address) in enumerate(found):
        line = DeadlineSocket(family, kind, protocol)
        line.deadline = deadline
        # One that is silent must leave time for the others.
        share = Deadline(deadline.left_s() / (len(found) - number), deadline.stop)
        try:
            _connect(line, address, share)
            line.setblocking(True)
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            line.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        except OSError as error:
            line.close()
            failed = error
            if not deadline.left_s():
                raise NoAnswerError(deadline.reason) from error
        else:
            return line
    raise failed


def _connect(line: DeadlineSocket, address: Any, deadline: Deadline) -> None:
    line.setblocking(False)
    code = line.connect_ex(address)
    if code == errno.EINPROGRESS:
        poll = select.poll()
        poll.register(line, select.POLLOUT)
        while not poll.poll(deadline.look_s() * 1_000):
            pass
        code = line.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if code:
        raise OSError(code, os.strerror(code))


def start_tls(line: DeadlineSocket, context: ssl.SSLContext, host: str) -> TlsDeadlineSocket:
    """Start TLS on ``line``, with a context of ``tls_context``. Raises OSError."""
    deadline = line.deadline
    if deadline is not None:
        left_s = deadline.left_s()
        if not left_s:
            raise NoAnswerError(deadline.reason)
        line.settimeout(left_s)  # which is one deadline for the whole greeting
    found = context.wrap_socket(line, server_hostname=host)
    if not isinstance(found, TlsDeadlineSocket):
        raise TypeError("expected a context of tls_context")
    found.deadline = deadline
    return found


def tls_context(ca_file: str | None = None) -> ssl.SSLContext:
    """Certificates are checked: by those in ``ca_file``, or by the machine's."""
    context = ssl.create_default_context(cafile=ca_file)
    context.sslsocket_class = TlsDeadlineSocket
    return context
