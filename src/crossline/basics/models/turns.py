"""Turns in asking one process, taken by copies of the process that started it."""

from __future__ import annotations

import fcntl
import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager


class TornError(Exception):
    """Somebody ended in the middle of asking: what would be read next is an answer to nobody."""


class Turn:
    """One asks at a time, of all processes that have it. It is free again where the one that has it ends."""

    def __init__(self) -> None:
        self._lock = os.memfd_create("turn")
        self._asking = mmap.mmap(-1, 1)  # copies of this process have the same memory

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Wait for it, and ask; ``done`` says that the answer is there.

        Raises TornError where one who asked before never had his.
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
        """Whether the next one to ask gets a TornError, as far as can be said without waiting for who asks now."""
        try:
            fcntl.lockf(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        try:
            return bool(self._asking[0])
        finally:
            fcntl.lockf(self._lock, fcntl.LOCK_UN)
