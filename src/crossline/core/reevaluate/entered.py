"""The rows of a batch as they are taken into a table: which are duplicates, which take others back."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from crossline.core.basics.values import I32, I64
from crossline.core.reevaluate.table import Table
from crossline.core.reevaluate.variants import Change
from crossline.core.windows.batch import Bools, Cause, KeyedBatch
from crossline.core.windows.memory.hashing import xxh64_many


@dataclass(slots=True)
class Entered:
    """What came of the n rows of a batch.

    ``keys``: the number of each one's key. ``row``: int64[n], the row of the table that it became or takes back, -1 for
    neither. ``removes``: which take one back. ``follows``: rows and those that they come again as.
    """

    batch: KeyedBatch
    keys: I32
    duplicates: Bools
    row: I64
    removes: Bools
    follows: list[tuple[int, int]] = field(default_factory=list)

    @property
    def removed(self) -> I64:
        """The rows that are taken back."""
        gone: I64 = self.row[self.removes & (self.row >= 0)]
        return gone

    def changes(self, table: Table, keys: Any) -> dict[int, list[Change]]:
        """What changes under each of ``keys``, in the order in which the batch has it."""
        found: dict[int, list[Change]] = {}
        wanted = np.zeros(table.keys, np.bool_)
        wanted[keys] = True
        for at in np.flatnonzero((self.row >= 0) & wanted[self.keys]).tolist():
            row, mine = int(self.row[at]), found.setdefault(int(self.keys[at]), [])
            own = self._itself(table, row)
            cause = self._cause(at) or own
            if not mine or mine[-1].cause != cause:
                mine.append(Change(cause))
            change = mine[-1]
            (change.removed if self.removes[at] else change.added).append(row)
            change.own &= cause.order == own.order
        return found

    def _cause(self, at: int) -> Cause | None:
        places = self.batch.places
        marked = places is not None and len(places.cause) and places.cause[at] >= 0
        return places.causes[places.cause[at]] if places is not None and marked else None

    def _itself(self, table: Table, row: int) -> Cause:
        """A row as its own cause, by the names that causes have."""
        cause, places = table.cause_of(row), self.batch.places
        if places is None or places.named is None:
            return cause
        log, sequence, partition = cause.chunk
        chunk = (places.came.get(log, log), sequence, partition)
        return replace(cause, record_id=places.named(cause.record_id), chunk=chunk)


def enter(table: Table, batch: KeyedBatch, duplicate_ms: int) -> Entered:
    """Take the rows of ``batch`` into ``table``, but for those that are duplicates, or in no entry.

    Rows of the table that are taken back stay there, and are not live any more.
    """
    keys = table.numbers_of_keys(batch.key_bytes, batch.key_offsets)[batch.key_index]
    removes = batch.places.removes if batch.places is not None and len(batch.places.removes) else None
    entered = Entered(
        batch=batch,
        keys=keys,
        duplicates=np.zeros(len(batch), np.bool_),
        row=np.full(len(batch), -1, np.int64),
        removes=np.zeros(len(batch), np.bool_) if removes is None else removes,
    )
    accepted = batch.entries.any(axis=1) & ~entered.removes
    _look_closer(table, entered, accepted, duplicate_ms)
    rows = np.flatnonzero(accepted)
    new = table.append(batch, rows, keys[rows])
    number = np.full(len(batch), -1, np.int64)
    number[rows] = new
    # Until here a row of this batch was known by its place in the batch: -2 for the first, and so on.
    entered.row = np.where(entered.row < -1, number[-2 - np.minimum(entered.row, -2)], entered.row)
    entered.row[rows] = new
    entered.follows = [(_settled(number, a), _settled(number, b)) for a, b in entered.follows]
    for before, after in entered.follows:
        if before < new[0]:
            table.bits("told")[after] |= table.bits("told")[before]
    table.live[entered.removed] = False
    return entered


def _settled(number: I64, row: int) -> int:
    return int(number[-2 - row]) if row < -1 else row


def _look_closer(table: Table, entered: Entered, accepted: Bools, duplicate_ms: int) -> None:
    """The rows whose id is known under their key, or comes twice here, or that take one back, one by one."""
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
