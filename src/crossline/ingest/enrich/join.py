"""Joins records with tables: adds the fields of the row in force at the record's ingest time.

Each key is looked up once for all records of a chunk. Where the ingest time is the running maximum over a log, only the
shard knows it; the clock of the chunk is a lower bound. A record whose row changes later is passed on once for each
possible row, with the span of ingest time in which this row is in force (``Records.spans``). The shard keeps the right
one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from crossline.basics.conditions.lists import starts_ms
from crossline.basics.instants import Instants
from crossline.basics.streams.schema import StreamSpec
from crossline.basics.times import BEGINNING_MS, FOREVER_MS
from crossline.basics.values import I64, U8, Columns, Records
from crossline.ingest.enrich.overlay import Overlay
from crossline.ingest.enrich.table import Table
from crossline.ingest.route.keys import KeyColumn, key_column

BoolMask = npt.NDArray[np.bool_]
_Spans = tuple[I64, I64]


@dataclass(frozen=True, slots=True)
class Held:
    """A content of a table, which holds for ingest times from ``start_ms`` up to, not including, ``until_ms``.

    ``overlay``: what became of it meanwhile.
    """

    start_ms: int
    until_ms: int
    table: Table
    overlay: Overlay | None = None

    def points(self, keys: KeyColumn, first_ms: int, last_ms: int) -> tuple[I64, I64, I64, BoolMask]:
        """As of the table, and which of the rows are those of the overlay."""
        first, last = max(self.start_ms, first_ms), min(self.until_ms - 1, last_ms)
        found = self.table.find(keys.hashes, keys.values)
        points = self.table.points(found, self.start_ms, first, last)
        if self.overlay is None:
            return *points, np.zeros(len(points[0]), np.bool_)
        return self.overlay.over(points, keys.hashes, keys.values, self.start_ms, first, last)


@dataclass(frozen=True, slots=True)
class Join:
    """Table ``name``, looked up by the fields ``key`` of a record. ``held``: without gaps, from the beginning on."""

    name: str
    key: tuple[str, ...]
    fields: tuple[str, ...]
    held: tuple[Held, ...]


def held(
    versions: Sequence[tuple[Mapping[str, int], Table]], stream: str, overlays: Mapping[int, Overlay] | None = None
) -> tuple[Held, ...]:
    """Contents as they hold for ``stream``; each has the instants, by stream, from which it is in force (``versions``).

    ``overlays``: by the number of a content, what became of it.
    """
    starts = starts_ms([begins for begins, _ in versions], stream)
    ends = [*starts[1:], FOREVER_MS]
    spans = zip(starts, ends, versions, strict=True)
    over = overlays or {}
    made = (Held(start, end, table, over.get(n)) for n, (start, end, (_, table)) in enumerate(spans))
    return tuple(each for each in made if each.start_ms < each.until_ms)


def joined(spec: StreamSpec, joins: Sequence[Join], records: Records) -> Records:
    """``records`` with the fields of the tables, null where there is no row, and with which tables have none."""
    if not joins:
        return records
    clock: I64 = np.maximum.accumulate(records.event_ms) if records.ingest_ms is None else records.ingest_ms
    # From and until when each row is the record in its true form; None: always.
    spans = None
    missed: list[BoolMask] = []
    for join in joins:
        keys = key_column(spec, join.key, records)
        first_ms, last_ms = _reach(records, clock, spans)
        found = _points(join, keys, int(first_ms.min(initial=FOREVER_MS)), int(last_ms.max(initial=BEGINNING_MS)))
        point = last = found.at(keys.rows, first_ms)
        if records.ingest_ms is None:
            found = found.merged()
            point, last = found.at(keys.rows, first_ms), found.at(keys.rows, last_ms)
        if (last > point).any():
            rows, point, spans = _forms(found, point, last, spans)
            records, clock, missed = take_rows(records, rows), clock[rows], [each[rows] for each in missed]
        missed.append(found.missed(point))
        records = replace(records, fields=_with(records.fields, join, found, point))
    return replace(records, spans=spans, missed=_bits(missed))


def _reach(records: Records, clock: I64, spans: _Spans | None) -> tuple[I64, I64]:
    """The least and the last ingest time that each record may have."""
    if records.ingest_ms is not None:
        return clock, clock
    if spans is None:
        return clock, np.full(len(clock), FOREVER_MS - 1, np.int64)
    return np.maximum(clock, spans[0]), spans[1] - 1


def _forms(found: _Points, first: I64, last: I64, before: _Spans | None) -> tuple[I64, I64, _Spans]:
    """The forms of records for which the points ``first`` to ``last`` may hold: record, point, and their spans."""
    count = 1 + last - first
    rows = np.repeat(np.arange(len(count)), count)
    step = np.arange(len(rows)) - (np.cumsum(count) - count)[rows]
    point = first[rows] + step
    from_ms: I64 = np.full(len(rows), BEGINNING_MS, np.int64) if before is None else before[0][rows]
    until_ms: I64 = np.full(len(rows), FOREVER_MS, np.int64) if before is None else before[1][rows]
    later, earlier = np.flatnonzero(step > 0), np.flatnonzero(step < count[rows] - 1)
    from_ms[later] = found.starts_ms[point[later]]
    until_ms[earlier] = found.starts_ms[point[earlier] + 1]
    return rows, point, (from_ms, until_ms)


@dataclass(frozen=True, slots=True)
class _Points:
    """What holds of a table for some keys: key k's points are ``firsts[k]`` to ``firsts[k + 1]``.

    From the instant ``starts_ms[p]`` on it is row ``rows[p]`` (-1: none) of the content ``held[versions[p] // 2]``, or
    where that number is odd of what lies over it.
    """

    join: Join
    firsts: I64
    starts_ms: I64
    versions: I64
    rows: I64

    def at(self, keys: npt.NDArray[np.int32], at_ms: I64) -> I64:
        """The point that holds for each of ``keys`` at an instant; -1 for no key."""
        found: I64 = keys.astype(np.int64)
        if len(self.rows) > len(self.firsts) - 1:
            place = Instants.of(self.firsts, self.starts_ms).place(np.maximum(found, 0), at_ms)
            found = np.where(found >= 0, place - 1, -1)
        return found

    def missed(self, point: I64) -> BoolMask:
        """Of which there is no row."""
        none: BoolMask = point < 0
        none[~none] = self.rows[point[~none]] < 0
        return none

    def column(self, name: str) -> pa.Array:
        """The values of a field at each point."""
        parts: list[pa.Array] = []
        order: list[I64] = []
        for number in np.unique(self.versions).tolist():
            mine = np.flatnonzero(self.versions == number)
            rows = self.rows[mine]
            parts.append(self._table(number).fields[name].take(pa.array(rows, mask=rows < 0)))
            order.append(mine)
        if len(parts) < 2:
            return parts[0] if parts else self.join.held[0].table.fields[name].slice(0, 0)
        back: I64 = np.empty(len(self.rows), np.int64)
        back[np.concatenate(order)] = np.arange(len(self.rows))
        return pa.concat_arrays(parts).take(pa.array(back))

    def _table(self, number: int) -> Table:
        held = self.join.held[number // 2]
        return held.overlay.table if number % 2 and held.overlay is not None else held.table

    def merged(self) -> _Points:
        """Without points at which nothing becomes another: a table that is made anew every night changes few rows."""
        count = len(self.rows)
        if count <= len(self.firsts) - 1:
            return self
        anew = np.ones(count, np.bool_)
        alike = np.flatnonzero(~np.isin(np.arange(count), self.firsts[:-1]))
        same = (self.rows[alike] < 0) == (self.rows[alike - 1] < 0)
        for name in self.join.fields:
            same &= _equal(self.column(name), alike)
        anew[alike] = ~same
        firsts = np.concatenate([[0], np.cumsum(anew)])[self.firsts]
        return _Points(self.join, firsts, self.starts_ms[anew], self.versions[anew], self.rows[anew])


def _points(join: Join, keys: KeyColumn, first_ms: int, last_ms: int) -> _Points:
    """For ingest times from ``first_ms`` to ``last_ms``."""
    parts = []
    for number, each in enumerate(join.held):
        if each.until_ms > first_ms and each.start_ms <= last_ms:
            at, starts, rows, over = each.points(keys, first_ms, last_ms)
            parts.append((at, starts, 2 * number + over.astype(np.int64), rows))
    none: I64 = np.empty(0, np.int64)
    at, starts, versions, rows = (np.concatenate(column) for column in zip((none,) * 4, *parts, strict=True))
    if len(parts) > 1:
        order = np.argsort(at, kind="stable")
        at, starts, versions, rows = at[order], starts[order], versions[order], rows[order]
    firsts = np.searchsorted(at, np.arange(len(keys.values) + 1))
    return _Points(join, firsts, starts, versions, rows)


def _equal(column: pa.Array, places: I64) -> BoolMask:
    """Whether the values at ``places`` are those before them; no for lists, which Arrow does not compare."""
    if pa.types.is_list(column.type):
        return np.zeros(len(places), np.bool_)
    mine, before = column.take(pa.array(places)), column.take(pa.array(places - 1))
    equal: BoolMask = np.array(pc.fill_null(pc.equal(mine, before), False))
    equal |= np.asarray(mine.is_null()) & np.asarray(before.is_null())
    return equal


def _with(fields: Mapping[str, pa.Array], join: Join, found: _Points, point: I64) -> Columns:
    """``fields`` and, behind them, those of the table, each computed on first use."""
    own = tuple(fields)
    index = pa.array(point, mask=point < 0)

    def make(number: int) -> pa.Array:
        if number < len(own):
            return fields[own[number]]
        return found.column(join.fields[number - len(own)]).take(index)

    return Columns((*own, *(f"{join.name}.{name}" for name in join.fields)), make)


def take_rows(records: Records, rows: I64) -> Records:
    """The records at ``rows``, which ascend and may come again."""
    fields, index = records.fields, pa.array(rows)
    names = tuple(fields)
    return replace(
        records,
        ids=records.ids.take(index),
        event_ms=records.event_ms[rows],
        offsets=records.offsets[rows],
        fields=Columns(names, lambda number: fields[names[number]].take(index)),
    )


def _bits(missed: Sequence[BoolMask]) -> U8:
    return np.packbits(np.stack(missed, axis=1), axis=1, bitorder="little")
