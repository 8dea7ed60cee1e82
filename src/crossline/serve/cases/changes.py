"""Changes of cases as they happen, for who listens; every change is in the file, so any may be gone on from."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from crossline.serve.cases.service import CaseService

LOOK_S = 1.0  # between two looks at what other processes changed


class CaseChanges:
    """The changes of a desk's cases, for as many as want to know; from one event loop.

    ``notify`` may be called from any thread.
    """

    def __init__(self, desk: CaseService) -> None:
        self._desk = desk
        self._loop = asyncio.get_running_loop()
        self._news = asyncio.Event()
        self._closed = False

    def notify(self) -> None:
        """Something changed."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._wake)

    def last(self) -> int:
        """The number of the last change."""
        return self._desk.last_change()

    def life(self) -> int:
        """See ``CaseService.life``."""
        return self._desk.life()

    async def follow(self, after: int) -> AsyncIterator[tuple[int, dict[str, Any]]]:
        """Cases that changed behind change ``after``, each as it stands, with the number of its last change."""
        while not self._closed:
            news = self._news
            found = await asyncio.to_thread(self._desk.changes, after)
            for number, case in found:
                yield number, case
                after = number
            if not found:
                try:
                    async with asyncio.timeout(LOOK_S):
                        await news.wait()
                except TimeoutError:
                    continue

    def close(self) -> None:
        """Who follows comes to the end. From the event loop."""
        self._closed = True
        self._wake()

    def _wake(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()
