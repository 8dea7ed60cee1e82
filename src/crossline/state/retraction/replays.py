"""Which rows of a key are judged, one after the other, before and after each change that is out of order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from crossline.basics.values import I64
from crossline.state.batch import Cause

_BEFORE_ALL = -(2**62)
LEAST = 4  # records of a key out of order: fewer variants are judged one by one,
ROWS_OF_EACH = 2_048  # unless they are of more rows than this for each of so many records


@dataclass(frozen=True, slots=True)
class Arrivals:
    """What comes under one key in a batch, of which something is out of order.

    ``before``: the rows in order of which nothing changes and that windows reach. ``held``: the rows behind them that
    were there. ``added``: the new rows, in the order in which they came. ``order``: what puts both, one behind the
    other, in order. ``late``: the places of those that came out of order, ascending; ``place``: of each row (of the
    table) its place. ``came``: all rows of which something changes, as they came; ``final``: the same rows in order.
    """

    before: I64
    held: I64
    added: I64
    order: I64
    late: I64
    place: I64
    came: I64 = field(init=False)
    final: I64 = field(init=False)

    def __post_init__(self) -> None:
        came = np.append(self.held, self.added)
        object.__setattr__(self, "came", came)
        object.__setattr__(self, "final", came[self.order])

    def later(self, rows: I64) -> I64:
        """Of each row how many came out of order with a place before it: no more can have come since it did."""
        found: I64 = np.searchsorted(self.late, self.place[rows])
        return found


@dataclass(slots=True)
class Change:
    """The effect of one record on a key: added and removed rows, all with the same ``cause``.

    ``own``: what comes is that record itself, or hits on it.
    """

    cause: Cause
    added: list[int] = field(default_factory=list)
    removed: list[int] = field(default_factory=list)
    own: bool = True


@dataclass(frozen=True, slots=True)
class Replay:
    """Rows of a key, in order, judged on those ``before`` them, of which nothing changes.

    ``cause``: of the change that it begins with; None: the rows before the first change out of order.
    """

    before: I64
    rows: I64
    cause: Cause | None

    @property
    def size(self) -> int:
        """The rows that are judged for it."""
        return len(self.before) + len(self.rows)


def replays_of(
    held: I64, changes: Sequence[Change], place: Any, clock_ms: I64, reach_ms: int, *, tied: bool
) -> Iterator[Replay]:
    """The replays of one key whose rows ``held`` are in order.

    ``changes`` are in the order in which their records came. ``place``: of each row (of the table) its place in the
    order of all. ``reach_ms``: how far back from a row those lie that it is judged by. ``tied``: rows of one clock
    depend on each other, whichever comes first.
    """
    first = min((row for change in changes for row in (*change.added, *change.removed)), key=place.__getitem__)
    order, place = place, clock_ms if tied else place
    split = int(np.searchsorted(place[held], place[first]))
    before = held[:split]
    settled = int(place[before[-1]]) if len(before) else _BEFORE_ALL
    before = before[clock_ms[before] >= clock_ms[first] - reach_ms]
    rows: I64 = held[split:]
    newest, cause, tail = int(place[held[-1]]) if len(held) else _BEFORE_ALL, None, list[int]()
    for change in changes:
        added = sorted(change.added, key=order.__getitem__)
        if change.own and not change.removed and place[added[0]] > newest:
            tail += added
            newest = int(place[added[-1]])
            continue
        rows = np.append(rows, np.array(tail, np.int64))
        tail = []
        if len(rows) or cause is not None:
            yield Replay(before, rows, cause)
        rows = rows[~np.isin(rows, change.removed)]
        rows = np.insert(rows, np.searchsorted(order[rows], order[added]), added)
        newest, cause = int(place[rows[-1]]) if len(rows) else settled, change.cause
    yield Replay(before, np.append(rows, np.array(tail, np.int64)), cause)


def arrivals_of(held: I64, added: I64, place: I64, clock_ms: I64, reach_ms: int) -> Arrivals | None:
    """What comes of one key whose rows ``held`` are in order, and to which only ``added`` rows come.

    None where variants are few and small, or where rows of one clock came in another order than they are in.
    """
    split = int(np.searchsorted(place[held], int(place[added].min())))
    came = np.append(held[split:], added)
    late = came[np.maximum.accumulate(place[came]) > place[came]]
    order = np.argsort(clock_ms[came], kind="stable")
    before = held[:split]
    before = before[clock_ms[before] >= clock_ms[came[order[0]]] - reach_ms]
    variants = (len(late) + 1) * (len(before) + len(came))
    if not len(late) or (len(late) < LEAST and variants < LEAST * ROWS_OF_EACH):
        return None
    if (np.diff(place[came[order]]) < 0).any():
        return None
    return Arrivals(before, held[split:], added, order, np.sort(place[late]), place)
