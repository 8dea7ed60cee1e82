"""A server that sends a byte now and then, within every read time-out, without end."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

PAUSE_S = 0.02


class Trickling:
    """``asked`` is set once a client has written; the answer is ``head`` and then x, for ever."""

    def __init__(self, head: bytes, context: ssl.SSLContext | None = None) -> None:
        self.asked = threading.Event()
        self.ended = threading.Event()
        self._head = head
        self._context = context
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                line, _ = self._listening.accept()
                threading.Thread(target=self._serve, args=(line,), daemon=True).start()

    def _serve(self, line: socket.socket) -> None:
        with suppress(OSError), line if self._context is None else self._context.wrap_socket(line, True) as spoken:
            spoken.recv(65_536)
            self.asked.set()
            spoken.sendall(self._head)
            while not self.ended.wait(PAUSE_S):
                spoken.sendall(b"x")

    def close(self) -> None:
        """Hang up on all."""
        self.ended.set()
        self._listening.close()


@contextmanager
def trickling(head: bytes, context: ssl.SSLContext | None = None) -> Iterator[Trickling]:
    """One that is gone at the end."""
    server = Trickling(head, context)
    try:
        yield server
    finally:
        server.close()
