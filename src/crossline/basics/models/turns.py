"""A lock on the pipe of a process, shared by the process that started it and its forks."""

from __future__ import annotations

import fcntl
import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager


class TornError(Exception):
    """A process ended between request and answer: the next answer on the pipe belongs to no request."""


class Turn:
    """A lock that one process holds at a time. It is free again when its holder ends."""

    def __init__(self) -> None:
        self._lock = os.memfd_create("turn")
        self._asking = mmap.mmap(-1, 1)  # copies of this process have the same memory

    @contextmanager
    def held(self) -> Iterator[None]:
        """Wait for the lock, then send a request; call ``done`` once the answer is read.

        Raises TornError where an earlier holder never read its answer.
        """
        fcntl.lockf(self._lock, fcntl.LOCK_EX)
        try:
            if self._asking[0]:
                raise TornError
            self._asking[0] = 1
            yield
        finally:
            fcntl.lockf(self._lock, fcntl.LOCK_UN)

    def done(self) -> None:
        """The whole answer was read."""
        self._asking[0] = 0

    def torn(self) -> bool:
        """Whether the next holder gets a TornError; False while another process holds the lock."""
        try:
            fcntl.lockf(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        try:
            return bool(self._asking[0])
        finally:
            fcntl.lockf(self._lock, fcntl.LOCK_UN)
