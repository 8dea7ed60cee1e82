"""The words that a kernel's layout declares for emission. Their meaning stands in the layouts."""

from __future__ import annotations

from typing import Protocol

from crossline.state.memory.declarations import Declared

NONE_MS = -(2**63)  # a clock that is none


class BoundWords(Protocol):
    """What lines hold a figure against, by the kernel's own number of the line."""

    LOW_I: Declared
    HIGH_I: Declared
    LOW_REST: Declared
    LOW_UP: Declared
    HIGH_REST: Declared
    HIGH_UP: Declared
    LOW_F: Declared
    HIGH_F: Declared
    NEGATED: Declared


class EmissionWords(Protocol):
    """What lines and formulas are, by their numbers in the plan, and where a batch's emissions are noted."""

    EVERY: Declared
    COOLDOWN: Declared
    COOLDOWN_COL: Declared
    LINE_BYTES: Declared
    SAT: Declared
    ROW_SAT: Declared
    N_EMITTED: Declared
    EMITTED_LINE: Declared
    EMITTED_KEPT: Declared


class HitWords(Protocol):
    """Where a batch's hits are noted."""

    N_HITS: Declared
    OUT_LINE: Declared
    OUT_ROW: Declared
    OUT_VALUE_I: Declared
    OUT_VALUE_UP: Declared
    OUT_VALUE_F: Declared
    OUT_COUNT: Declared
