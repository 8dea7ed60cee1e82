"""Whether a figure meets a line: it is within the line's bounds, or, where the line is negated, it is not."""

from __future__ import annotations

from typing import Any, NamedTuple

from crossline.state.memory.access import inlined, jit
from crossline.state.memory.fields import get
from crossline.state.windows.emission.words import BoundWords


class Bounds(NamedTuple):
    """Compiled functions of one kernel; ``h``: the address of its words, ``x``: its number of the line."""

    meets_whole: Any
    meets_real: Any


def bounds_in(words: BoundWords) -> Bounds:
    """What holds a figure against the bounds that stand at ``words`` (see ``line_bounds.bounds_of``)."""
    low_i, high_i, low_f, high_f, negated = words.LOW_I, words.HIGH_I, words.LOW_F, words.HIGH_F, words.NEGATED
    low_rest, low_up, high_rest, high_up = words.LOW_REST, words.LOW_UP, words.HIGH_REST, words.HIGH_UP

    @jit
    def within_wide(h: int, x: int, whole: int, up: int) -> Any:
        low, high = get(h, low_up, x), get(h, high_up, x)
        above = up > low or (up == low and whole >= get(h, low_rest, x))
        return above and (up < high or (up == high and whole <= get(h, high_rest, x)))

    @inlined
    def meets_whole(h: int, x: int, whole: int, up: int) -> Any:
        """Whether the integer ``whole`` + ``up`` * 2^64 meets line ``x``."""
        within = get(h, low_i, x) <= whole <= get(h, high_i, x) if up == 0 else within_wide(h, x, whole, up)
        return within != (get(h, negated, x) != 0)

    @inlined
    def meets_real(h: int, x: int, real: float) -> Any:
        """Whether a float meets line ``x``."""
        return (get(h, low_f, x) <= real <= get(h, high_f, x)) != (get(h, negated, x) != 0)

    return Bounds(meets_whole, meets_real)
