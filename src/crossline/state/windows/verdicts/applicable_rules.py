"""Which lines and formulas judge a record: by what is in force when it comes, how late it is, and what it enters."""

from __future__ import annotations

from typing import Any

from crossline.state.memory import layout as at
from crossline.state.memory.access import inlined, jit
from crossline.state.memory.addresses import enters
from crossline.state.memory.fields import get, put
from crossline.state.windows.program import MASKED_CLASSES

SHARED = 1 << MASKED_CLASSES  # the bit of classes that have none of their own


@inlined
def in_force(h: int, k: int, ingest_ms: int, lateness_ms: int) -> Any:
    """Whether class ``k`` judges records that came at ``ingest_ms`` and so late."""
    within = 0
    for span in range(get(h, at.SPAN_AT, k), get(h, at.SPAN_AT, k + 1)):
        if get(h, at.SPAN_FROM, span) <= ingest_ms < get(h, at.SPAN_UNTIL, span):
            within = 1
    return within != 0 and lateness_ms <= get(h, at.CLASS_LATE, k)


@inlined
def judging(h: int, i: int, row: int) -> Any:
    """Mark the classes of lines that judge record ``i``; their bits, as in CLASS_MASK: 0 where none does."""
    ingest_ms, lateness_ms, some = get(h, at.INGEST_MS, row), get(h, at.LATENESS_MS, row), 0
    for k in range(get(h, at.CLASSES)):
        judges = 1 if in_force(h, k, ingest_ms, lateness_ms) and enters(h, i, get(h, at.CLASS_FILTER, k)) else 0
        put(h, at.ACTIVE, k, judges)
        some |= judges << min(k, MASKED_CLASSES)
    return some


@inlined
def judged_by(h: int, c: int, judges: int) -> Any:
    """Whether a class that is marked, of those with bits in ``judges``, judges by cursor ``c``."""
    both = judges & get(h, at.CLASS_MASK, c)
    return both != 0 and (both != SHARED or _judged_by_far(h, c))


@jit
def _judged_by_far(h: int, c: int) -> Any:
    """As ``judged_by``, class by class."""
    judged = 0
    for k in range(get(h, at.CLASS_AT, c), get(h, at.CLASS_AT, c + 1)):
        judged |= get(h, at.ACTIVE, get(h, at.CLASS_OF, k))
    return judged != 0


@inlined
def remember(h: int, slot: int, i: int, start: int, end: int) -> None:
    """Record ``i`` is the last judged by those of the classes from ``start`` to ``end`` that judged it."""
    for k in range(start, end):
        if get(h, at.ACTIVE, k):
            put(h, at.JUDGED, slot, k, i)
