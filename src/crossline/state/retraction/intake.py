"""Intake of a batch's rows into a table: which are duplicates, which retract others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from crossline.basics.values import I32, I64
from crossline.state.batch import Bools, Cause, KeyedBatch, RecordUpdate
from crossline.state.memory.hashing import xxh64_many
from crossline.state.retraction.replays import Change
from crossline.state.retraction.table import Table

_Event = tuple[
    tuple[Any, ...], int, RecordUpdate | None
]  # what it is ordered by, the row of the batch or -1, what is amended


@dataclass(slots=True)
class IntakeRows:
    """What came of the n rows of a batch.

    ``keys``: the number of each one's key. ``row``: int64[n], the row of the table that it became or takes back, -1 for
    neither. ``removes``: which take one back. ``follows``: rows and those that they come again as. ``amended``: rows
    that go, those that come in their place with other fields, and the cause of each.
    """

    batch: KeyedBatch
    keys: I32
    duplicates: Bools
    row: I64
    removes: Bools
    follows: list[tuple[int, int]] = field(default_factory=list)
    amended: list[tuple[int, int, Cause]] = field(default_factory=list)

    @property
    def removed(self) -> I64:
        """The rows that are retracted or replaced."""
        gone: I64 = self.row[self.removes & (self.row >= 0)]
        return np.append(gone, [before for before, _, _ in self.amended]).astype(np.int64) if self.amended else gone

    def apart(self, table: Table) -> I32:
        """The numbers of the keys under which something else changes than that rows came.

        A hit that did not enter, too late for who reads it, changes nothing when it goes, or comes with another value.
        """
        places, found = self.batch.arrival, table.key[[after for _, after, _ in self.amended]]
        if places is None or not len(places.cause):
            return found
        return np.append(found, self.keys[(places.cause >= 0) & (self.row >= 0)])

    def changes(self, table: Table, keys: Any) -> dict[int, list[Change]]:
        """What changes under each of ``keys``, in the order in which the batch has it."""
        found: dict[int, list[Change]] = {}
        for cause, row, removes, own in self._events(table, keys):
            mine = found.setdefault(int(table.key[row]), [])
            if not mine or mine[-1].cause != cause:
                mine.append(Change(cause))
            change = mine[-1]
            (change.removed if removes else change.added).append(row)
            change.own &= own
        return found

    def _events(self, table: Table, keys: Any) -> list[tuple[Cause, int, bool, bool]]:
        """Rows of ``keys`` that come or go: the cause, the row, whether it goes, and whether that is its own record."""
        wanted, events = np.zeros(table.keys, np.bool_), list[tuple[Cause, int, bool, bool]]()
        wanted[keys] = True
        for at in np.flatnonzero((self.row >= 0) & wanted[self.keys]).tolist():
            own = self.own_cause(table, int(self.row[at]))
            cause = self._caused(at) or own
            events.append((cause, int(self.row[at]), bool(self.removes[at]), cause.order == own.order))
        if self.amended:
            for before, after, cause in self.amended:
                if wanted[table.key[after]]:
                    events += [(cause, before, True, False), (cause, after, False, False)]
            events.sort(key=lambda each: each[0].order)
        return events

    def cause(self, table: Table, at: int) -> Cause:
        """The trigger of a row of the batch, which was added or retracts one."""
        return self._caused(at) or self.own_cause(table, int(self.row[at]))

    def _caused(self, at: int) -> Cause | None:
        places = self.batch.arrival
        marked = places is not None and len(places.cause) and places.cause[at] >= 0
        return places.causes[places.cause[at]] if places is not None and marked else None

    def own_cause(self, table: Table, row: int) -> Cause:
        """A row as its own cause, by the names that causes have."""
        return self.own_causes(table, np.array([row], np.int64))[0]

    def own_causes(self, table: Table, rows: I64) -> list[Cause]:
        """The same of many rows."""
        causes, places = table.causes_of(rows), self.batch.arrival
        if places is None or places.named is None:
            return causes
        return [
            replace(
                each, record_id=places.named(each.record_id), chunk=(places.came.get(log, log), sequence, partition)
            )
            for each in causes
            for log, sequence, partition in (each.chunk,)
        ]


def enter(table: Table, batch: KeyedBatch, duplicate_ms: int) -> IntakeRows:
    """Take the rows of ``batch`` into ``table``, but for those that are duplicates, or in no entry.

    Retracted rows stay in the table and are not live any more.
    """
    keys = table.numbers_of_keys(batch.key_bytes, batch.key_offsets)[batch.key_index]
    removes = batch.arrival.removes if batch.arrival is not None and len(batch.arrival.removes) else None
    entered = IntakeRows(
        batch=batch,
        keys=keys,
        duplicates=np.zeros(len(batch), np.bool_),
        row=np.full(len(batch), -1, np.int64),
        removes=np.zeros(len(batch), np.bool_) if removes is None else removes,
    )
    accepted = batch.filters.any(axis=1) & ~entered.removes
    _look_closer(table, entered, accepted, duplicate_ms)
    rows = np.flatnonzero(accepted)
    new = table.append(batch, rows, keys[rows])
    number = np.full(len(batch), -1, np.int64)
    number[rows] = new
    # Until here a row of this batch was known by its place in the batch: -2 for the first, and so on.
    entered.row = np.where(entered.row < -1, number[-2 - np.minimum(entered.row, -2)], entered.row)
    entered.row[rows] = new
    entered.follows = [(_settled(number, a), _settled(number, b)) for a, b in entered.follows]
    if batch.arrival is not None and batch.arrival.record_update:
        _amend(table, entered, batch.arrival.record_update, len(table) - len(new))
    carry_emitted(table, entered.follows)
    table.live[entered.removed] = False
    return entered


def carry_emitted(table: Table, follows: Iterable[tuple[int, int]]) -> None:
    """Carry the emitted hits of retracted rows to the rows that replace them."""
    body = table.bits("told")
    for before, after in follows:
        body[after] |= body[before]


def _amend(table: Table, entered: IntakeRows, record_update: Sequence[RecordUpdate], first: int) -> None:
    """Put rows with other fields in the place of those in ``record_update``; ``first``: the batch's first row.

    Hits may go and come besides. Then what goes, and what is amended, is the row that stands by then.
    """
    found = table.placed([(each.row_id, each.place) for each in record_update])
    events: dict[int, list[_Event]] = {}  # by the first of the rows of one id and place
    of = {row: rows[0] for rows in found.values() for row in rows}
    for at in np.flatnonzero(np.isin(entered.row, list(of))).tolist():
        row, removes = int(entered.row[at]), bool(entered.removes[at])
        events.setdefault(of[row], []).append(((*entered.cause(table, at).order, 1 - removes), at, None))
    for each in record_update:
        rows = found.get((each.row_id, each.place))
        if rows:
            events.setdefault(rows[0], []).append(((*each.cause.order, 2), -1, each))
    copied, facts, end = list[int](), list[dict[str, Any]](), len(table)
    for rows in found.values():
        mine = sorted(events.get(rows[0], ()), key=lambda each: each[0])
        gone = {int(entered.row[at]) for _, at, _ in mine if at >= 0 and entered.removes[at]}
        stands = next((row for row in rows if row < first and (table.live[row] or row in gone)), None)
        last, given = None, dict[str, Any]()
        for _, at, amended in mine:
            if amended is None:
                if entered.removes[at]:
                    entered.row[at] = entered.row[at] if stands is None else stands
                    last, stands = stands, None
                else:
                    stands, given = int(entered.row[at]), {}
                    if last is not None and last >= end and table.key[copied[last - end]] == table.key[stands]:
                        entered.follows.append((last, stands))
            elif stands is not None:
                given = {**given, **amended.facts}
                base = copied[stands - end] if stands >= end else stands
                entered.amended.append((stands, end + len(copied), amended.cause))
                entered.follows.append((stands, end + len(copied)))
                stands = end + len(copied)
                copied.append(base)
                facts.append(given)
    if copied:
        table.copy(np.array(copied, np.int64), facts)


def _settled(number: I64, row: int) -> int:
    return int(number[-2 - row]) if row < -1 else row


def _look_closer(table: Table, entered: IntakeRows, accepted: Bools, duplicate_ms: int) -> None:
    """Process one by one the rows whose id is known for their key, or repeats in the batch, and retractions."""
    batch, keys = entered.batch, entered.keys
    ids = (batch.id_bytes, batch.id_offsets)
    known = table.find(keys, ids)
    hashes = table.hashes(keys, xxh64_many(*ids))
    _, inverse, counts = np.unique(hashes, return_inverse=True, return_counts=True)
    closer = (counts[inverse] > 1) | entered.removes
    closer[list(known)] = True
    raw, ends = batch.id_bytes.tobytes(), batch.id_offsets.tolist()
    held: dict[tuple[int, bytes], dict[int, bool]] = {}  # rows of a key and id, and whether each is live
    for at in np.flatnonzero(closer).tolist():
        name = int(keys[at]), raw[ends[at] : ends[at + 1]]
        rows = held.setdefault(name, {row: bool(table.live[row]) for row in known.get(at, ())})
        clock_ms, since_ms = int(batch.clock_ms[at]), int(batch.ingest_ms[at]) - duplicate_ms
        clocks = {row: int(batch.clock_ms[-2 - row]) if row < -1 else table.clock(row) for row in rows}
        if entered.removes[at]:
            gone = next((row for row, live in rows.items() if live and clocks[row] == clock_ms), None)
            if gone is not None:
                rows[gone], entered.row[at] = False, gone
        elif any(live and clocks[row] >= since_ms for row, live in rows.items()):
            entered.duplicates[at], accepted[at] = True, False
        elif accepted[at]:
            entered.follows += [(row, -2 - at) for row, live in rows.items() if not live and clocks[row] == clock_ms]
            rows[-2 - at] = True
