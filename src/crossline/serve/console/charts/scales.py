"""From values to pixels, and the ticks of an axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

_SECOND, _MINUTE, _HOUR, _DAY = 1_000, 60_000, 3_600_000, 86_400_000
TIME_STEPS_MS = (
    *(1, 2, 5, 10, 20, 50, 100, 200, 500),
    *(_SECOND * each for each in (1, 2, 5, 10, 15, 30)),
    *(_MINUTE * each for each in (1, 2, 3, 5, 10, 15, 30)),
    *(_HOUR * each for each in (1, 2, 3, 6, 12)),
    *(_DAY * each for each in (1, 2, 7, 14, 30, 90, 365)),
)
TICK_PX = 82  # at least so far apart
CHARACTER_PX = 6.1  # of 11 px Inter, on average; figures are 6.6 wide
FIGURE_PX = 6.6


@dataclass(frozen=True, slots=True)
class Scale:
    """Values from ``low`` to ``high`` on pixels from ``start`` to ``end``, which may run downwards."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """Where a value stands; a scale of a single value has it in the middle."""
        if self.high == self.low:
            return (self.start + self.end) / 2
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)

    def clipped(self, value: float) -> float:
        """The same, kept within the ends."""
        return self(min(max(value, self.low), self.high))


def time_step_ms(span_ms: float, width: float) -> int:
    """The distance of ticks, so that they are at least ``TICK_PX`` apart."""
    most = max(1, int(width // TICK_PX))
    return next((each for each in TIME_STEPS_MS if span_ms / each <= most), TIME_STEPS_MS[-1])


def time_ticks(low_ms: int, high_ms: int, step_ms: int) -> list[int]:
    """Whole multiples of a step within the span."""
    first = -(-low_ms // step_ms) * step_ms
    return list(range(first, high_ms + 1, step_ms))


def value_ticks(high: float, most: int = 3) -> list[float]:
    """Round values from 0 to at least ``high``, at most so many above 0.

    Example:
        >>> value_ticks(8), value_ticks(0.7), value_ticks(379.95)
        ([0, 5, 10], [0, 0.5, 1.0], [0, 200, 400])
    """
    if not high > 0 or not math.isfinite(high):
        return [0]
    rough = high / most
    magnitude = 10.0 ** math.floor(math.log10(rough))
    step = next(each * magnitude for each in (1, 2, 5, 10) if each * magnitude >= rough * (1 - 1e-9))
    count = math.ceil(high / step - 1e-9)
    return [_round(step * number) for number in range(count + 1)]


def _round(value: float) -> float:
    near = float(f"{value:.12g}")
    return int(near) if near.is_integer() else near


def text_px(text: str) -> float:
    """About how wide a text is, in 11 px."""
    return sum(FIGURE_PX if each.isdigit() else CHARACTER_PX for each in text)


def free(places: Sequence[tuple[float, float]], low: float, high: float) -> bool:
    """Whether nothing stands between two pixels yet."""
    return all(high < start or low > end for start, end in places)
