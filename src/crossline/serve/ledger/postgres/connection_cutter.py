"""Cuts a connection whose server does not respond: one thread for all calls, since a call takes less than a thread."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psycopg

from crossline.io.postgres.client import Connection

LOOK_S = 0.25


class Cutter:
    """Bounds calls that are made one at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._until_s: float | None = None
        self._connection: Connection | None = None
        self._over = False
        self._stop = threading.Event()
        threading.Thread(target=self._watch, name="ledger-deadline", daemon=True).start()

    @contextmanager
    def within(self, connection: Connection, seconds: float) -> Iterator[None]:
        """Cut ``connection`` unless the block is left in time. Raises psycopg's OperationalError then."""
        with self._lock:
            self._connection, self._until_s, self._over = connection, time.monotonic() + seconds, False
        try:
            yield
        except psycopg.Error as error:
            if self._over:
                raise psycopg.OperationalError(f"no whole answer in {seconds:g} s: {error}") from error
            raise
        finally:
            with self._lock:
                self._connection = self._until_s = None

    def close(self) -> None:
        """Watch no more; safe to call twice."""
        self._stop.set()

    def _watch(self) -> None:
        while not self._stop.wait(LOOK_S):
            with self._lock:
                if self._connection is None or self._until_s is None or time.monotonic() < self._until_s:
                    continue
                self._over, self._until_s = True, None
                with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(self._connection.fileno())) as line:
                    line.shutdown(socket.SHUT_RDWR)
