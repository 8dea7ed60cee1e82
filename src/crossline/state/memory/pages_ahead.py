"""Huge pages that a region is about to grow into: another thread gets them, while batches go on.

To write to such a page first takes 0.2 ms where the machine has it, and 3 to 10 ms where a virtual machine has to get
it from its host. The system can be told to do that before, which changes no byte, whoever writes there meanwhile.
There is a thread only while there are such pages: a process that is idle can be copied, and ends at once.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import threading
from _thread import start_new_thread
from collections import deque
from collections.abc import Callable, Iterable

PAGE = 2 << 20
_POPULATE_WRITE = 23  # since Linux 5.14; before, the system refuses, and a page comes when it is written
_advise = ctypes.CDLL(None).madvise  # Python's own lets no other thread run meanwhile
_advise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)


def _populate(address: int) -> None:
    _advise(address, PAGE, _POPULATE_WRITE)


class PagesAhead:
    """Pages that are waited for, in the order in which they were asked for. ``touch`` gets the one at an address."""

    def __init__(self, touch: Callable[[int], None] = _populate) -> None:
        self._touch = touch
        self.forget_all()

    def forget_all(self) -> None:
        """In a copy of this process, where the thread is not."""
        self._changed = threading.Condition()
        self._waiting = deque[tuple[mmap.mmap, int]]()
        self._now: tuple[mmap.mmap, int] | None = None
        self._runs = False

    def ask(self, made: mmap.mmap, addresses: Iterable[int]) -> None:
        """Get the pages at ``addresses``, all within ``made``, which stays where it is until then."""
        with self._changed:
            self._waiting.extend((made, address) for address in addresses)
            if self._runs or not self._waiting:
                return
            try:
                start_new_thread(self._run, ())
            except RuntimeError:  # no more threads: pages come when they are written
                self._waiting.clear()
            else:
                self._runs = True

    def forget(self, start: int, end: int) -> None:
        """Once this returns, no page from address ``start`` to ``end`` comes any more."""
        with self._changed:
            self._waiting = deque(each for each in self._waiting if not start <= each[1] < end)
            self._changed.wait_for(lambda: self._now is None or not start <= self._now[1] < end)

    def wait(self) -> None:
        """Until there are all that were asked for."""
        with self._changed:
            self._changed.wait_for(lambda: not self._runs)

    def _run(self) -> None:
        while True:
            with self._changed:
                # Not in a variable of this function: a copy of this process would hold it for ever.
                self._now = self._waiting.popleft() if self._waiting else None
                self._runs = self._now is not None
                self._changed.notify_all()
                if self._now is None:
                    return
                address = self._now[1]
            self._touch(address)


AHEAD = PagesAhead()
os.register_at_fork(after_in_child=AHEAD.forget_all)
