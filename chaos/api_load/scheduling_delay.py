"""The scheduling delay of this process: a timer in its event loop, and how late it fires."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from dataclasses import dataclass, field

BEAT_S = 0.005
LATE_S = 0.001  # of a timer's own
KEPT_S = 60.0


@dataclass(slots=True)
class Pace:
    """``stalls``: from the beat before until one that came late, on the monotonic clock: within it nothing was run.

    So the result may be one beat too large, and it covers the time between several late beats in a row.
    """

    stalls: deque[tuple[float, float]] = field(default_factory=deque)
    due_s: float = field(default_factory=time.monotonic)

    async def beat(self) -> None:
        """For as long as anybody asks."""
        while True:
            self.due_s = time.monotonic() + BEAT_S
            await asyncio.sleep(BEAT_S)
            now_s = time.monotonic()
            if now_s - self.due_s > LATE_S:
                self.stalls.append((self.due_s - BEAT_S, now_s))
            while self.stalls and self.stalls[0][1] < now_s - KEPT_S:
                self.stalls.popleft()

    def late_s(self, from_s: float, until_s: float) -> float:
        """For how long between the two nothing was run here that was due, to within a beat."""
        begun_s = self.due_s - BEAT_S
        late_s = max(0.0, until_s - max(begun_s, from_s)) if until_s > self.due_s else 0.0  # the beat that is to come
        for since, until in reversed(self.stalls):
            if until <= from_s:
                break
            late_s += max(0.0, min(until, until_s) - max(since, from_s))
        return late_s
