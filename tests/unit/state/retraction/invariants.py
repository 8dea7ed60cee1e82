"""``check(state, rows)``: what must hold of a table between any two calls, found anew from the rows that count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import xxhash
from tests.unit.state.windows.naive import Naive, Row

from crossline.state.retraction import layout
from crossline.state.retraction.kernel import Reevaluation


def check(state: Reevaluation, rows: Sequence[Row]) -> None:
    """``rows``: those that came and were not taken back, in the order in which they came.

    Raises:
        AssertionError: columns, names or bits of the table are not what these rows make of them.
    """
    check_columns(state)
    check_names(state)
    table = state._table
    held = np.flatnonzero(table.live & (table.key >= 0)).tolist()
    names = [(table._key_names[table.key[row]].decode(), table.id_of(row), table.clock(row)) for row in held]
    assert Counter(names) == Counter((row.key, row.id, row.clock) for row in rows)
    found = hits_of(state, dict(zip(names, held, strict=True)), rows)
    for name in ("hit", "told", "sat"):
        bits = unpacked(table.bits(name), len(table.lines))
        mine = {(row, line) for row in held for line in np.flatnonzero(bits[row]).tolist()}
        assert found == mine if name == "hit" else found <= mine, name


def check_columns(state: Reevaluation) -> None:
    """Each column is of the declared type, and all have a row for each record."""
    table = state._table
    assert list(table._columns) == [stored.name for stored in layout.COLUMNS]
    for stored in layout.COLUMNS:
        rows = table._columns[stored.name].rows
        assert rows.dtype == stored.dtype
        assert len(rows) == len(table)
        assert rows.ndim == (2 if stored.width else 1)
    for name in (stored.name for stored in layout.BITS):
        unpacked(table.bits(name), len(table.lines))
    assert len(table._ids._offsets.rows) == len(table) + 1


def unpacked(bits: Any, lines: int) -> Any:
    found = np.unpackbits(np.asarray(bits), axis=1, bitorder="little")
    assert not found[:, lines:].any(), "a bit of no line is set"
    return found[:, :lines]


def check_names(state: Reevaluation) -> None:
    """Keys and pieces of logs are numbered in one way, and rows have numbers that there are."""
    table = state._table
    assert table._key_numbers == {name: number for number, name in enumerate(table._key_names)}
    assert table._chunk_numbers == {chunk: number for number, chunk in enumerate(table.chunks)}
    for row in range(len(table)):
        assert -1 <= table.key[row] < table.keys
        assert 0 <= table._chunk[row] < len(table.chunks)
        assert int(table._id_hash[row]) == xxhash.xxh64_intdigest(table.id_of(row).encode())


def hits_of(state: Reevaluation, row_of: dict[Any, int], rows: Sequence[Row]) -> set[tuple[int, int]]:
    """The hits, as (row of the table, line), where ``rows`` come in the order of their clocks."""
    ordered = sorted(rows, key=lambda row: row.clock)
    hits, _ = Naive(state.plan).judge(ordered)
    named = [(row.key, row.id, row.clock) for row in ordered]
    return {(row_of[named[hit.row]], hit.line) for hit in hits}
