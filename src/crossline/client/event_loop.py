"""An event loop in a thread of its own, for programs without one."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import threading
import weakref
from collections.abc import Coroutine
from typing import Any, TypeVar

Given = TypeVar("Given")
_END_S_MAX = 2.0


class LoopThread:
    """Starts on first use, ends with ``close`` or with the program; it is thread-safe.

    ``current`` is false in a forked process: the thread stays with the parent.
    """

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=_run, args=(self._loop,), name="crossline-client", daemon=True)
        self._thread.start()
        self._ended = weakref.finalize(self, _end, self._loop, self._thread, self._pid)

    @property
    def current(self) -> bool:
        """Whether it is of this process."""
        return self._pid == os.getpid()

    @property
    def open(self) -> bool:
        """Whether this process can use it."""
        return self._ended.alive and self.current

    def wait(self, asked: Coroutine[Any, Any, Given], within_s: float | None) -> Given:
        """The result of ``asked``; after ``within_s`` (or at Ctrl-C) it is cancelled, and TimeoutError is raised."""
        if not self._ended.alive:
            asked.close()
            raise RuntimeError("the client is closed")
        if threading.current_thread() is self._thread:
            asked.close()
            raise RuntimeError("a Client was called from within its own event loop; use an AsyncClient there")
        future = asyncio.run_coroutine_threadsafe(asked, self._loop)
        try:
            return future.result(within_s)
        except concurrent.futures.CancelledError:
            raise RuntimeError("the client was closed during a call") from None
        except BaseException:
            future.cancel()
            raise

    def schedule(self, asked: Coroutine[Any, Any, Any]) -> None:
        """Schedule it without waiting; the garbage collector may call this in any thread."""
        asyncio.run_coroutine_threadsafe(asked, self._loop)

    def close(self) -> None:
        """End the loop; pending calls are cancelled."""
        self._ended()


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        loop.close()


def _end(loop: asyncio.AbstractEventLoop, thread: threading.Thread, pid: int) -> None:
    if pid == os.getpid() and thread.is_alive():
        loop.call_soon_threadsafe(loop.stop)
        if thread is not threading.current_thread():
            thread.join(_END_S_MAX)
