"""The wall clock for what is kept by its age: a leap forward is not believed before it has lasted.

A clock that is set 90 days ahead by mistake, and back an hour later, would else have all answers removed, and all that
waits given up.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from crossline.io.sinks.base import wall_clock_ms
from crossline.logs import get_logger

SLACK_MS = 60_000  # further than this ahead of what the machine counts is a leap
BELIEVED_S = 86_400.0  # a leap that lasts is the truth: the clock was wrong before

log = get_logger(__name__)


class SteadyClock:
    """Epoch milliseconds that go on with the machine's own count where the wall clock leaps forward; from any thread.

    A leap back is followed at once: by that things are kept longer. ``known_ms``: the newest time that is on the disk,
    by which a leap before the start is seen; None: there is none.

    Args:
        wall_ms: The wall clock, in epoch milliseconds.
        count_s: Seconds that only grow.
        known_ms: As in the class.

    Example:
        >>> clock = SteadyClock(known_ms=1_767_225_600_000)
    """

    def __init__(
        self,
        wall_ms: Callable[[], int] = wall_clock_ms,
        count_s: Callable[[], float] = time.monotonic,
        known_ms: int | None = None,
    ) -> None:
        self._wall_ms, self._count_s = wall_ms, count_s
        self._lock = threading.Lock()
        self._at_s = count_s()
        self._at_ms = wall_ms() if known_ms is None else known_ms
        self._begins = known_ms is not None  # a pause looks like a leap at the first call
        self._leapt_s: float | None = None  # since when the wall clock is ahead
        self.believed = 0  # leaps that lasted: what was noted meanwhile has times of before

    def __call__(self) -> int:
        """Now."""
        with self._lock:
            now_s, wall_ms = self._count_s(), self._wall_ms()
            counted_ms = self._at_ms + int((now_s - self._at_s) * 1000)
            ahead = wall_ms > counted_ms + SLACK_MS
            if ahead and self._leapt_s is None:
                self._leapt_s = now_s
                self._report(wall_ms - counted_ms)
            self._begins = False
            if ahead and self._leapt_s is not None and now_s - self._leapt_s < BELIEVED_S:
                return counted_ms
            self.believed += ahead
            self._leapt_s = None
            self._at_s, self._at_ms = now_s, wall_ms
            return wall_ms

    def _report(self, by_ms: int) -> None:
        if self._begins:
            text = "nothing was kept for a while, or the clock has leapt forward: ages count from what was kept last"
            log.info(text, by_ms=by_ms)
        else:
            log.warning("the clock has leapt forward: nothing is removed by it yet", by_ms=by_ms)
