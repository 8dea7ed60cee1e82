"""A way to a server that ends a connection at a moment that a test names."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

SIZE = 1 << 16


@dataclass
class Line:
    """Between clients and ``port``: one listener, and two threads for each connection.

    ``asks``, ``reply``: the connection on which a client sends ``asks`` is cut once the server sends ``reply``, which
    the client does not get; with ``reply`` None, before the server gets ``asks``. It happens once. ``closed``: no
    connection is accepted.
    """

    port: int
    asks: bytes | None = None
    reply: bytes | None = None
    closed: bool = False
    cut: threading.Event = field(default_factory=threading.Event)
    _both: list[socket.socket] = field(default_factory=list)

    def __enter__(self) -> Self:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.here = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        for each in (self._listener, *self._both):
            _end(each)

    def arm(self, asks: bytes, raw: bytes | None) -> None:
        """Cut the next connection by which this is asked."""
        self.cut.clear()
        self.asks, self.reply = asks, raw

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                if self.closed:
                    _end(client)
                    continue
                server = socket.create_connection(("127.0.0.1", self.port))
                self._both += [client, server]
                asked = threading.Event()
                for pump in (lambda c=client, s=server, a=asked: self._forth(c, s, a),
                             lambda c=client, s=server, a=asked: self._back(c, s, a)):  # fmt: skip
                    threading.Thread(target=pump, daemon=True).start()

    def _forth(self, client: socket.socket, server: socket.socket, asked: threading.Event) -> None:
        with suppress(OSError):
            while data := client.recv(SIZE):
                if self.asks is not None and self.asks in data:
                    self.asks = None
                    if self.reply is None:
                        break
                    asked.set()
                server.sendall(data)
        self._end(client, server)

    def _back(self, client: socket.socket, server: socket.socket, asked: threading.Event) -> None:
        with suppress(OSError):
            while data := server.recv(SIZE):
                if asked.is_set() and self.reply is not None and self.reply in data:
                    break
                client.sendall(data)
        self._end(client, server)

    def _end(self, client: socket.socket, server: socket.socket) -> None:
        for each in (client, server):
            _end(each)
        self.cut.set()


def _end(each: socket.socket) -> None:
    with suppress(OSError):
        each.shutdown(socket.SHUT_RDWR)
    each.close()
