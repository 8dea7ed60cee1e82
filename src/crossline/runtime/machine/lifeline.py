"""Processes that end with the one that started them, also during minutes of work without any I/O."""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Iterator
from contextlib import contextmanager

# That of a process that a signal ended would be no more telling: who would read it is gone.
GONE_CODE = 1


@contextmanager
def watched_lifeline(descriptor: int = 0) -> Iterator[None]:
    """Within this context the process ends as soon as no process has the other end of the pipe ``descriptor``.

    Nothing is read from it. A terminal, a file or no pipe at all ends nothing. There is no thread left afterwards, so
    that the process may fork. The system's own signal of a parent's death comes with the end of the thread that started
    a process; this goes by processes, whichever thread starts them.
    """
    try:
        os.fstat(descriptor)
    except OSError:  # it is closed, and its number may be that of the pipe below
        yield
        return
    over, ends = os.pipe()
    watch = threading.Thread(target=_watch, args=(descriptor, over), name="tied", daemon=True)
    watch.start()
    try:
        yield
    finally:
        os.write(ends, b"\n")  # its end would not be seen while a fork has it too
        watch.join()
        os.close(ends)
        os.close(over)


def _watch(descriptor: int, over: int) -> None:
    poll = select.poll()
    poll.register(over, select.POLLIN)
    poll.register(descriptor, 0)  # no events but those of its end, which always come
    while True:
        for found, event in poll.poll():
            if found == over:
                return
            if event & select.POLLHUP:
                os._exit(GONE_CODE)
            poll.unregister(descriptor)  # it is closed, or no pipe: it gives no more events
