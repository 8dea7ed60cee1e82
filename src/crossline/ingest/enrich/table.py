"""One content of a table, sorted so that many keys are looked up at once. Immutable; it may lie in a mapped file.

Rows lie in the order of the hashes of their keys, those of one key side by side, by the instant from which they hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from crossline.basics.instants import Instants
from crossline.basics.times import BEGINNING_MS
from crossline.basics.values import I64

U64 = npt.NDArray[np.uint64]
HASH, KEY, FROM, FIELD = "hash", "key", "from", "field."


def row_order(hashes: U64, numbers: I64, from_ms: I64 | None) -> I64:
    """The order in which a table keeps its rows. ``numbers``: of each row's key, any that distinguish keys."""
    return np.lexsort((numbers, hashes) if from_ms is None else (from_ms, numbers, hashes))


def stored(hashes: U64, keys: pa.Array, from_ms: I64 | None, fields: Mapping[str, pa.Array]) -> pa.Table:
    """Rows that are in order, as columns that a file can have and ``Table`` reads."""
    times = {} if from_ms is None else {FROM: pa.array(from_ms)}
    named = {f"{FIELD}{name}": column for name, column in fields.items()}
    return pa.table({HASH: pa.array(hashes), KEY: keys, **times, **named})


class Table:
    """``rows``: as ``stored`` made them. ``fields``: by name, one value a row."""

    def __init__(self, rows: pa.Table) -> None:
        columns = {name: _whole(rows.column(name)) for name in rows.column_names}
        self.rows = rows.num_rows
        self._hashes: U64 = columns[HASH].to_numpy()
        self._keys = columns[KEY]
        self._from_ms: I64 | None = columns[FROM].to_numpy() if FROM in columns else None
        self.fields = {name.removeprefix(FIELD): each for name, each in columns.items() if name.startswith(FIELD)}

    @property
    def timed(self) -> bool:
        """Whether rows hold from an instant on, so that a key may have several."""
        return self._from_ms is not None

    @cached_property
    def _firsts(self) -> I64:
        """The first row of each key, and the number of rows."""
        begins = np.ones(self.rows, np.bool_)
        alike = 1 + np.flatnonzero(self._hashes[1:] == self._hashes[:-1])
        if len(alike):
            same = pc.equal(self._keys.take(pa.array(alike)), self._keys.take(pa.array(alike - 1)))
            begins[alike] = ~np.asarray(same)
        return np.append(np.flatnonzero(begins), self.rows)

    @cached_property
    def _key_hashes(self) -> U64:
        return self._hashes if len(self._firsts) == self.rows + 1 else self._hashes[self._firsts[:-1]]

    @cached_property
    def _instants(self) -> Instants:
        from_ms: I64 = np.empty(0, np.int64) if self._from_ms is None else self._from_ms
        return Instants.of(self._firsts, from_ms)

    def find(self, hashes: U64, keys: pa.Array) -> I64:
        """The number of each key (binary, with its hash) among those of the table, -1 where it is not there."""
        found: I64 = np.full(len(hashes), -1, np.int64)
        place = np.searchsorted(self._key_hashes, hashes)
        wanted = np.arange(len(hashes))
        while len(wanted):  # once, but for different keys of one hash
            there = place < len(self._key_hashes)
            there[there] = self._key_hashes[place[there]] == hashes[wanted[there]]
            wanted, place = wanted[there], place[there]
            mine = self._keys.take(pa.array(self._firsts[place]))
            same = np.asarray(pc.equal(mine, keys.take(pa.array(wanted))))
            found[wanted[same]] = place[same]
            wanted, place = wanted[~same], place[~same] + 1
        return found

    def points(self, found: I64, start_ms: int, first_ms: int, last_ms: int) -> tuple[I64, I64, I64]:
        """Which row holds for each of the keys ``found``, and when another one does, up to ``last_ms``.

        Three arrays with one item a change, by key: its place in ``found``, the instant, the row, -1 where none holds.
        The first of each is what holds at ``first_ms``, recorded as in force from ``start_ms`` on.
        """
        places = np.arange(len(found))
        if self._from_ms is None:
            rows = np.where(found >= 0, self._firsts[found], -1)
            return places, np.full(len(found), start_ms, np.int64), rows
        there = np.maximum(found, 0)
        if not self.rows:
            return places, np.full(len(found), start_ms, np.int64), np.full(len(found), -1, np.int64)
        after, end = self._instants.place(there, first_ms), self._instants.place(there, last_ms)
        later = np.where(found >= 0, end - after, 0)
        firsts = np.concatenate([[0], np.cumsum(1 + later)])
        at = np.repeat(places, 1 + later)
        step = np.arange(firsts[-1]) - firsts[at]
        rows = after[at] - 1 + step
        rows[step == 0] = np.where((found >= 0) & (after > self._firsts[there]), after - 1, -1)
        instants = np.where(step == 0, start_ms, self._from_ms[np.maximum(rows, 0)])
        return at, instants, rows


def from_of(column: pa.Array) -> I64:
    """The instants from which rows hold; a row without one holds from the beginning."""
    filled: I64 = pc.fill_null(column, BEGINNING_MS).to_numpy()
    return filled


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
