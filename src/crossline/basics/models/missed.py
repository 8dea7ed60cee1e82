"""Which records got no score: asked at each batch, also where no rule has a model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np
import numpy.typing as npt

BoolRows = npt.NDArray[np.bool_]
MISSED: ContextVar[list[BoolRows] | None] = ContextVar("missed", default=None)


@contextmanager
def missed_scores() -> Iterator[list[BoolRows]]:
    """Of each call of ``Scorer.scores`` from here on, in their order, which of its rows got no score."""
    found: list[BoolRows] = []
    before = MISSED.set(found)
    try:
        yield found
    finally:
        MISSED.reset(before)
