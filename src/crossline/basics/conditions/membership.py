"""Whether values of a column stand in a list, at the ingest time of each record, and when that changes next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from crossline.basics.conditions.tree import Family, Literal
from crossline.basics.instants import Instants
from crossline.basics.times import FOREVER_MS
from crossline.basics.values import I64

Mask = npt.NDArray[np.bool_]
# Each value with the spans [from, until) of ingest time in which it stands there: ascending, apart.
Spans = Sequence[tuple[Literal, Sequence[tuple[int, int]]]]


def family_of(column: Any) -> Family | None:
    """The family of a column's values; None where nothing of them can be compared."""
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return "number"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return "string"
    return "boolean" if pa.types.is_boolean(kind) else None


def as_mask(array: Any) -> Mask:
    """Arrow booleans as numpy's, null as False."""
    if array.null_count:
        array = pc.fill_null(array, False)
    mask: Mask = array.to_numpy(zero_copy_only=False)
    return mask


class Members:
    """The values of a list, sorted out by the kinds of columns that they are compared with. Immutable."""

    def __init__(self, steady: Sequence[Literal], others: Spans = ()) -> None:
        self._steady = steady
        self._others = others
        self._by_kind: dict[str, _OfKind] = {}

    @property
    def timed(self) -> bool:
        """Whether some value comes or goes."""
        return bool(self._others)

    def holds(self, column: Any, rows: int, at_ms: I64 | None) -> Mask:
        """bool[rows]: which values stand there at ``at_ms`` (needed where the list is timed); missing ones do not."""
        mine = self._of(column)
        if mine is None:
            return np.zeros(rows, dtype=np.bool_)
        mask = as_mask(pc.is_in(column, value_set=mine.steady.cast(column.type)))
        if mine.timed is None:
            return mask
        if at_ms is None:
            raise ValueError("values of this list come and go; expected the ingest times of the records")
        found, which = mine.timed.find(column)
        mask = mask.copy()
        mask[found] = mine.timed.stands(which, at_ms[found])
        return mask

    def next_ms(self, column: Any, at_ms: I64) -> I64:
        """int64[rows]: when each value comes or goes next after ``at_ms``; FOREVER_MS where it does not."""
        soonest: I64 = np.full(len(at_ms), FOREVER_MS, dtype=np.int64)
        mine = self._of(column)
        if mine is not None and mine.timed is not None:
            found, which = mine.timed.find(column)
            soonest[found] = mine.timed.next_ms(which, at_ms[found])
        return soonest

    def _of(self, column: Any) -> _OfKind | None:
        family = family_of(column)
        if family is None:
            return None
        kind = family if family != "number" else "integer" if pa.types.is_integer(column.type) else "double"
        if kind not in self._by_kind:
            self._by_kind[kind] = _of_kind(kind, self._steady, self._others)
        return self._by_kind[kind]


@dataclass(frozen=True, slots=True)
class _Timed:
    """Values that come and go: value i does at its ``instants``, and comes first."""

    values: Any
    instants: Instants

    def find(self, column: Any) -> tuple[I64, I64]:
        """The rows that have such a value, and which one."""
        which = pc.index_in(column, value_set=self.values.cast(column.type))
        return np.flatnonzero(as_mask(which.is_valid())), which.drop_null().to_numpy().astype(np.int64)

    def stands(self, which: I64, at_ms: I64) -> Mask:
        """Whether an odd number of its instants has passed."""
        mask: Mask = (self.instants.place(which, at_ms) - self.instants.firsts[which]) % 2 == 1
        return mask

    def next_ms(self, which: I64, at_ms: I64) -> I64:
        """The first of its instants that has not passed."""
        place = self.instants.place(which, at_ms)
        left = place < self.instants.firsts[which + 1]
        return np.where(left, self.instants.instants_ms[np.where(left, place, 0)], FOREVER_MS)


@dataclass(frozen=True, slots=True)
class _OfKind:
    """``steady``: values that always stand there, as an Arrow array; ``timed``: the others, if any."""

    steady: Any
    timed: _Timed | None


_TYPES = {"string": pa.string(), "boolean": pa.bool_(), "integer": pa.int64(), "double": pa.float64()}


def _of_kind(kind: str, steady: Sequence[Literal], others: Spans) -> _OfKind:
    always = pa.array(_of(kind, steady), _TYPES[kind])
    mine = [(found[0], spans) for value, spans in others if (found := _of(kind, [value]))]
    if not mine:
        return _OfKind(always, None)
    edges = [[ms for span in spans for ms in span if ms < FOREVER_MS] for _, spans in mine]
    firsts: I64 = np.cumsum([0, *map(len, edges)], dtype=np.int64)
    instants: I64 = np.array([ms for each in edges for ms in each], dtype=np.int64)
    values = pa.array([value for value, _ in mine], _TYPES[kind])
    return _OfKind(always, _Timed(values, Instants.of(firsts, instants)))


def _of(kind: str, values: Sequence[Literal]) -> list[Any]:
    """Those that a column of the kind can have, exactly, as it has them."""
    if kind == "string":
        return [value for value in values if isinstance(value, str)]
    if kind == "boolean":
        return [value for value in values if isinstance(value, bool)]
    numbers = [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
    if kind == "integer":
        return [value for value in numbers if isinstance(value, int)]
    return [float(value) for value in numbers if float(value) == value]
