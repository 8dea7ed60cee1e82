"""Records that enter a store under several keys, by other fields for other filters: a row for each key of a record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from crossline.basics.streams.schema import StreamSpec
from crossline.basics.values import I64, U8, Records
from crossline.ingest.route.keys import KeyColumn, key_column
from crossline.plan.state_stores import StateStore


@dataclass(frozen=True, slots=True)
class Rows:
    """What may enter a state store: the ``keys`` of rows and the ``bits`` of their entries.

    ``records``: the number of each row's record, ascending; None: rows are records. ``places``: of each record (first
    axis) and entry the row that has its bit; None: the record's own.
    """

    keys: KeyColumn
    bits: U8
    records: I64 | None = None
    places: I64 | None = None

    def of(self, rows: I64) -> I64:
        """The records of ``rows``."""
        return rows if self.records is None else self.records[rows]

    def holding(self, records: I64, entries: I64) -> I64:
        """The rows that have the bits of these records and entries."""
        return records if self.places is None else self.places[records, entries]


def rows_of(spec: StreamSpec, state_store: StateStore, records: Records, bits: U8) -> Rows:
    """A row for each record, or where the state store's entries are of several keys, for each that a record has.

    Where two of its keys are the same, the record has one row with the bits of both.
    """
    namings = state_store.namings
    if len(namings) == 1:
        return Rows(key_column(spec, state_store.group_fields, records), bits)
    found = [key_column(spec, fields, records) for fields in namings]
    whole: Any = pa.concat_arrays([keys.values for keys in found]).dictionary_encode()
    codes = whole.indices.to_numpy(zero_copy_only=False).astype(np.int32)
    numbers = np.full((len(records), len(found)), -1, np.int32)  # of keys
    start = 0
    for naming, keys in enumerate(found):
        known = keys.rows >= 0
        numbers[known, naming] = codes[start + keys.rows[known]]
        start += len(keys.values)
    hashes = np.empty(len(whole.dictionary), np.uint64)
    hashes[codes] = np.concatenate([keys.hashes for keys in found])
    first = _first_alike(numbers)
    naming_of = np.array([namings.index(entry.key_fields or state_store.group_fields) for entry in state_store.filters])
    mine = np.zeros((len(records), len(found), bits.shape[1]), np.uint8)
    for naming in range(len(found)):
        own = np.zeros(bits.shape[1] * 8, np.bool_)
        own[np.flatnonzero(naming_of == naming)] = True
        mine[np.arange(len(records)), first[:, naming]] |= bits & np.packbits(own, bitorder="little")
    numbers[first != np.arange(len(found))] = -1
    places = np.arange(len(records))[:, None] * len(found) + first[:, naming_of]
    return Rows(
        KeyColumn(numbers.reshape(-1), whole.dictionary, hashes),
        mine.reshape(-1, bits.shape[1]),
        np.repeat(np.arange(len(records)), len(found)),
        places,
    )


def _first_alike(numbers: npt.NDArray[np.int32]) -> I64:
    """Of each key of a record the first of its keys that is the same."""
    alike = (numbers[:, :, None] == numbers[:, None, :]) & (numbers >= 0)[:, :, None]
    first: I64 = np.where(alike.any(axis=2), alike.argmax(axis=2), np.arange(numbers.shape[1]))
    return first
