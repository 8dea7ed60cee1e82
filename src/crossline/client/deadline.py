"""How long a call may take in all, and how long to wait between tries."""

from __future__ import annotations

import random
import time

TIMEOUT_MS_MIN, TIMEOUT_MS_MAX = 5, 30_000
_PAUSE_S = 0.002
_PAUSE_S_MAX = 1.0
# Of what is left, for the way there and back: the server's fallback shall come before this client's own.
_MARGIN_MS = 2
_MARGIN_SHARE = 0.1


class Deadline:
    """An instant on the monotonic clock by which a call has ended; ``timeout_s`` from now."""

    def __init__(self, timeout_s: float) -> None:
        if not timeout_s > 0:
            raise ValueError(f"timeout is {timeout_s}; expected seconds, more than 0")
        self.timeout_s = timeout_s
        self._end_s = time.monotonic() + timeout_s

    @property
    def left_s(self) -> float:
        """Seconds until then; below zero past it."""
        return self._end_s - time.monotonic()

    def server_ms(self) -> int:
        """``timeout_ms`` for the server: what is left without a margin, within what the API takes."""
        left_ms = self.left_s * 1_000
        return min(TIMEOUT_MS_MAX, max(TIMEOUT_MS_MIN, int(left_ms - max(_MARGIN_MS, _MARGIN_SHARE * left_ms))))

    def __str__(self) -> str:
        return f"{self.timeout_s * 1_000:,.0f} ms"


def pause_s(failed: int) -> float:
    """How long to wait after so many failed tries: drawn evenly up to a bound that doubles.

    After the first at once: most often the server had closed a connection that was idle.
    """
    return 0.0 if failed <= 1 else random.uniform(0, min(_PAUSE_S_MAX, _PAUSE_S * 2 ** min(failed, 12)))  # noqa: S311 - no secret
