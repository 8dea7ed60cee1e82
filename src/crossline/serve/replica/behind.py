"""How far behind the pipeline a fork is, by what the pipeline has planned since the fork's batch."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass

from crossline.serve.replica.answers import Bounds, Lag
from crossline.serve.replica.forks import Fork

HOLDS_S = 0.005  # for which what was looked up holds: each request asks, and it is short beside any bound

NONE = Lag(0, -1, ready=False)  # where there is no fork


@dataclass(slots=True)
class Behind:
    """Looks at what the pipeline notes in ``checkpoint``."""

    checkpoint: str
    bounds: Bounds
    _of: Fork | None = None
    _at_s: float = 0.0
    _lag: Lag = NONE

    def lag(self, fork: Fork | None) -> Lag:
        """The age of the oldest batch that was planned and is not in the state of ``fork``; 0 where there is none.

        A pipeline that has nothing to do plans no batch.
        """
        now_s = time.monotonic()
        if fork is None:
            return NONE
        if self._of is not fork or now_s - self._at_s >= HOLDS_S:
            self._of, self._at_s, self._lag = fork, now_s, self._looked_up(fork)
        return self._lag

    def _looked_up(self, fork: Fork) -> Lag:
        behind_ms = self.bounds.unseen_ms()
        with suppress(OSError):
            planned = os.stat(f"{self.checkpoint}/spark/offsets/{fork.batch + 1}")  # noqa: PTH116 - asked often
            behind_ms = max(behind_ms, round(time.time() * 1e3 - planned.st_mtime * 1e3))
        return Lag(behind_ms, fork.batch, behind_ms <= self.bounds.behind_max_ms)
