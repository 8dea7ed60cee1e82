"""The words that a kernel's layout declares for emission. What each one says stands in the layouts."""

from __future__ import annotations

from typing import Protocol


class BoundWords(Protocol):
    """What lines hold a figure against, by the kernel's own number of the line."""

    LOW_I: int
    HIGH_I: int
    LOW_REST: int
    LOW_UP: int
    HIGH_REST: int
    HIGH_UP: int
    LOW_F: int
    HIGH_F: int
    NEGATED: int


class LineWords(Protocol):
    """What lines and formulas are, by their numbers in the plan, and where a batch's emissions are noted."""

    EVERY: int
    COOLDOWN: int
    COOLDOWN_COL: int
    LINE_BYTES: int
    ROW_SAT: int
    OUT_EMITTED: int
    N_EMITTED: int


class HitWords(Protocol):
    """Where a batch's hits are noted."""

    N_HITS: int
    OUT_LINE: int
    OUT_ROW: int
    OUT_VALUE_I: int
    OUT_VALUE_UP: int
    OUT_VALUE_F: int
    OUT_COUNT: int
