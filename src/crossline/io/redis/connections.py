"""Connections to Redis with one deadline per request, a whole command pipeline included."""

from __future__ import annotations

from typing import Any

from redis.connection import Connection, SSLConnection

from crossline.io.net.deadline import Deadline
from crossline.io.net.deadline_sockets import DeadlineSocket, TlsDeadlineSocket, open_socket, start_tls, tls_context


class BoundedConnection(Connection):
    """``answer_s_max``: the deadline of a request, and of connecting, in seconds."""

    def __init__(self, *, answer_s_max: float, **options: Any) -> None:
        self._deadline = Deadline(answer_s_max)
        super().__init__(**options)  # type: ignore[no-untyped-call]

    def _connect(self) -> DeadlineSocket:
        self._deadline.begin()
        return open_socket(self.host, self.port, self._deadline)

    def send_packed_command(self, command: Any, check_health: bool = True) -> None:
        """Send a request, and start its deadline."""
        self._deadline.begin()
        super().send_packed_command(command, check_health)  # type: ignore[no-untyped-call]


class BoundedTlsConnection(SSLConnection, BoundedConnection):
    """The same with TLS, by the certificates of ``ssl_ca_certs`` or the machine's."""

    def _wrap_socket_with_ssl(self, sock: DeadlineSocket) -> TlsDeadlineSocket:
        return start_tls(sock, tls_context(self.ca_certs), self.host)
