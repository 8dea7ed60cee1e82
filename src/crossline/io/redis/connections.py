"""Connections to Redis with one deadline per request, a whole command pipeline included."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from redis.connection import Connection, SSLConnection

from crossline.io.net.deadline import Deadline
from crossline.io.net.deadline_sockets import DeadlineSocket, TlsDeadlineSocket, open_socket, start_tls, tls_context


class OnePiecePacker:
    """Packs a command into one piece of bytes (the protocol's array of bulk strings).

    redis-py packs in pieces of 6 kB and copies the piece begun for each argument. Each piece is sent by a call of its
    own, which lets other threads go first: a script with 100 decisions took 24 calls.
    """

    def __init__(self, encode: Callable[[Any], bytes]) -> None:
        self._encode = encode

    def pack(self, *arguments: Any) -> list[bytes]:
        """The request of a command; the words of its name are arguments of their own, as in ``SCRIPT LOAD``."""
        words = arguments[0].split() if isinstance(arguments[0], str | bytes) else arguments[:1]
        pieces: list[bytes] = [b"*%d\r\n" % (len(words) + len(arguments) - 1)]
        encode = self._encode
        for argument in (*words, *arguments[1:]):
            each = argument if type(argument) is bytes else encode(argument)
            pieces += (b"$%d\r\n" % len(each), each, b"\r\n")
        return [b"".join(pieces)]


class BoundedConnection(Connection):
    """``answer_s_max``: the deadline of a request, and of connecting, in seconds."""

    def __init__(self, *, answer_s_max: float, **options: Any) -> None:
        self._deadline = Deadline(answer_s_max)
        super().__init__(**options)  # type: ignore[no-untyped-call]
        self._command_packer = OnePiecePacker(self.encoder.encode)

    def _connect(self) -> DeadlineSocket:
        self._deadline.begin()
        return open_socket(self.host, self.port, self._deadline)

    def send_packed_command(self, command: Any, check_health: bool = True) -> None:
        """Send a request, and start its deadline."""
        self._deadline.begin()
        whole = command if isinstance(command, str | bytes) else b"".join(command)
        super().send_packed_command([whole], check_health)  # type: ignore[no-untyped-call]


class BoundedTlsConnection(SSLConnection, BoundedConnection):
    """The same with TLS, by the certificates of ``ssl_ca_certs`` or the machine's."""

    def _wrap_socket_with_ssl(self, sock: DeadlineSocket) -> TlsDeadlineSocket:
        return start_tls(sock, tls_context(self.ca_certs), self.host)
