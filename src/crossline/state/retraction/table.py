"""The records of one state store of one shard, with all columns that a replay needs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from crossline.basics.byte_slices import take_bytes
from crossline.basics.errors import StateError
from crossline.basics.values import I32, I64, U8
from crossline.plan.stream_join import arrival_log
from crossline.state.batch import ArrivalOrder, Bools, Cause, Chunk, Delta, KeyedBatch
from crossline.state.memory.hashing import xxh64_many
from crossline.state.retraction import layout
from crossline.state.retraction.columns import Column, Fact, Texts, joined
from crossline.state.retraction.delta_arrays import fact_arrays
from crossline.state.retraction.different_values import DifferentValues
from crossline.state.retraction.low_bits import low_bits_in
from crossline.state.windows.emission.columns import Lines, remapped

BITS = tuple(each.name for each in layout.BITS)
_MIXED = np.uint64(0x9E3779B97F4A7C15)


class Table:
    """Rows: records under a key, in the order in which they came; what each has is declared in ``layout``.

    One that is not ``live`` was retracted: only the hits emitted for it are known. The key -1 marks a row that no
    lookup needs any more.
    """

    def __init__(self, lines: Lines, entry_bytes: int) -> None:
        self.lines = lines
        self._key_numbers: dict[bytes, int] = {}
        self._key_names: list[bytes] = []
        self.chunks: list[Chunk] = []
        self._chunk_numbers: dict[Chunk, int] = {}
        self.different = DifferentValues()
        widths = {"": None, "FILTER_BYTES": entry_bytes, "LINE_BYTES": _width(lines)}
        self._columns = {each.name: Column(each.dtype, widths[each.width], each.name) for each in layout.COLUMNS}
        self._ids = Texts()
        self._values: list[Column | Texts] | None = None
        self._facts: dict[str, Fact] = {}

    def __len__(self) -> int:
        return len(self.key)

    def number(self, name: str) -> I64:
        """A time of the rows in ms, or their offset."""
        numbers: I64 = self._columns[name].rows
        return numbers

    def bits(self, name: str) -> U8:
        """Of each row a bit for each line."""
        bits: U8 = self._columns[name].rows
        return bits

    @property
    def key(self) -> I32:
        """The number of each row's key."""
        keys: I32 = self._columns[layout.KEY.name].rows
        return keys

    @property
    def live(self) -> Bools:
        """Which rows count."""
        live: Bools = self._columns[layout.LIVE.name].rows
        return live

    @property
    def filters(self) -> U8:
        """The bits of the filters that each row passes."""
        filters: U8 = self._columns[layout.ROW_FILTERS.name].rows
        return filters

    @property
    def _chunk(self) -> I32:
        chunks: I32 = self._columns[layout.CHUNK.name].rows
        return chunks

    @property
    def _id_hash(self) -> Any:
        return self._columns[layout.ID_HASH.name].rows

    def clock(self, row: int) -> int:
        """The clock of a row, in ms."""
        return int(self.number("clock_ms")[row])

    def id_of(self, row: int) -> str:
        """The id of a row."""
        return self._ids.at(row).decode()

    def ids_of(self, rows: I64) -> tuple[U8, I64]:
        """The ids of ``rows``, laid end to end, and their offsets."""
        return self._ids.take(rows)

    def causes_of(self, rows: I64) -> list[Cause]:
        """Rows as causes."""
        data, ends = self.ids_of(rows)
        raw, chunks = data.tobytes(), [self.chunks[number] for number in self._chunk[rows].tolist()]
        ids = [raw[start:end].decode() for start, end in pairwise(ends.tolist())]
        ingest_ms, reached_ms, offset = (
            self.number(each)[rows].tolist() for each in ("ingest_ms", "reached_ms", "offset")
        )
        return list(map(Cause, ids, ingest_ms, reached_ms, chunks, offset))

    def numbers_of_keys(self, data: U8, offsets: I64) -> I32:
        """The numbers of keys; new keys get new numbers."""
        raw, ends, names = data.tobytes(), offsets.tolist(), self._key_names
        found = np.empty(len(ends) - 1, np.int32)
        for at, (start, end) in enumerate(pairwise(ends)):
            key = raw[start:end]
            found[at] = number = self._key_numbers.setdefault(key, len(names))
            if number == len(names):
                names.append(key)
        return found

    @property
    def keys(self) -> int:
        """How many keys it knows."""
        return len(self._key_names)

    def values(self, column: int) -> Any:
        """A column of values, of all rows."""
        return (self._values or [])[column]

    def hashes(self, keys: Any, id_hash: Any) -> Any:
        """Hashes by which keys and ids differ, nearly always."""
        return id_hash ^ ((keys.astype(np.uint64) + np.uint64(1)) * _MIXED)

    def find(self, keys: I32, ids: tuple[U8, I64]) -> dict[int, list[int]]:
        """Of these keys and ids, by their place here, the rows that have them; in the order in which those came."""
        id_hash = xxh64_many(*ids)
        rows = low_bits_in(id_hash, self._id_hash)
        rows = rows[self.key[rows] >= 0]
        mine, wanted = self.hashes(self.key[rows], self._id_hash[rows]), self.hashes(keys, id_hash)
        order = np.argsort(mine, kind="stable")
        low = np.searchsorted(mine[order], wanted, side="left").tolist()
        high = np.searchsorted(mine[order], wanted, side="right").tolist()
        raw, ends, found = ids[0].tobytes(), ids[1].tolist(), dict[int, list[int]]()
        for at in (at for at, start in enumerate(low) if start < high[at]):
            name = raw[ends[at] : ends[at + 1]]
            near = rows[order[low[at] : high[at]]].tolist()
            same = [row for row in near if self.key[row] == keys[at] and self._ids.at(row) == name]
            if same:
                found[at] = same
        return found

    def placed(self, wanted: Iterable[tuple[bytes, tuple[str, int, int]]]) -> dict[Any, list[int]]:
        """Of ids and places (log, sequence, offset) the rows that have both, in the order in which those came."""
        names = set(wanted)
        hashes = xxh64_many(*joined([row_id for row_id, _ in names]))
        near = np.flatnonzero(np.isin(self._id_hash, hashes) & (self.key >= 0))
        found: dict[Any, list[int]] = {}
        for row in near.tolist():
            log, sequence, _ = self.chunks[self._chunk[row]]
            name = self._ids.at(row), (log, sequence, int(self.number("offset")[row]))
            if name in names:
                found.setdefault(name, []).append(row)
        return found

    def copy(self, rows: I64, facts: Sequence[Mapping[str, Any]]) -> I64:
        """Put ``rows`` behind the others once more, each with these ``facts`` instead of its own; their numbers."""
        batch = self.batch(rows)
        names = {name for each in facts for name, value in each.items() if value is not None}
        kept = {name: batch.facts.get(name, pa.nulls(len(rows), pa.int64())) for name in {*batch.facts} | names}
        for name, array in kept.items():
            pairs = zip(array.to_pylist(), facts, strict=True)
            kept[name] = pa.array([each.get(name, value) for value, each in pairs], array.type)
        return self.append(replace(batch, facts=kept), np.arange(len(rows)), self.key[rows])

    def append(self, batch: KeyedBatch, rows: Any, keys: I32, *, live: bool = True) -> I64:
        """Put ``rows`` of ``batch`` behind the others, under the keys of these numbers; the numbers of the rows."""
        places, first, count = batch.arrival, len(self), len(rows)
        if places is None:
            raise StateError("found rows without the places that replays need; start from a new checkpoint")
        chunks = np.array([self._chunk_number(each) for each in places.chunks] or [0], np.int32)
        given = (batch.clock_ms, batch.ingest_ms, batch.lateness_ms, places.reached_ms, places.offsets)
        ids = _take(batch.id_bytes, batch.id_offsets, rows)
        self._ids.extend(*ids)
        made: dict[layout.Stored, Any] = dict(zip(layout.NUMBERS, (array[rows] for array in given), strict=True))
        made |= {layout.KEY: keys, layout.CHUNK: chunks[places.chunk[rows]], layout.LIVE: np.full(count, live)}
        made |= {layout.ROW_FILTERS: batch.filters[rows], layout.ID_HASH: xxh64_many(*ids)}
        made |= dict.fromkeys(layout.BITS, np.zeros((count, _width(self.lines)), np.uint8))
        for stored in layout.COLUMNS:
            self._columns[stored.name].extend(made[stored])
        self._append_values(batch, rows)
        self._append_facts(batch.facts, rows, first)
        return np.arange(first, first + count)

    def _append_values(self, batch: KeyedBatch, rows: Any) -> None:
        if self._values is None:
            self._values = [Texts() if i in batch.texts else Column(v.dtype) for i, v in enumerate(batch.values)]
        for number, (column, values) in enumerate(zip(self._values, batch.values, strict=True)):
            if isinstance(column, Texts):
                column.extend(*_take(*batch.texts[number], values[rows]))
            else:
                column.extend(values[rows])

    def _append_facts(self, facts: Mapping[str, pa.Array], rows: Any, first: int) -> None:
        """Fields that come for the first time are missing in the rows before, those that come no more in these."""
        for name, array in facts.items():
            if name not in self._facts:
                self._facts[name] = Fact(array.type)
                self._facts[name].extend_missing(first)
        for name, fact in self._facts.items():
            if name in facts:
                fact.extend(facts[name].take(pa.array(rows)))
            else:
                fact.extend_missing(len(rows))

    def _chunk_number(self, chunk: Chunk) -> int:
        number = self._chunk_numbers.setdefault(chunk, len(self.chunks))
        if number == len(self.chunks):
            self.chunks.append(chunk)
        return number

    def batch(
        self, rows: Any, keys: tuple[U8, I64] | None = None, numbers: Any = None, *, judged: bool = True
    ) -> KeyedBatch:
        """``rows`` as a batch; under other ``keys``, by their ``numbers``, where these are given.

        ``judged``: they are, or are written down; else without fields and places, which rows that are loaded need not.
        """
        if keys is None:
            used, numbers = np.unique(self.key[rows], return_inverse=True)
            keys = joined([self._key_names[number] for number in used.tolist()])
        (values, texts), (id_bytes, id_offsets) = self._values_of(rows), self.ids_of(rows)
        return KeyedBatch(
            clock_ms=self.number("clock_ms")[rows],
            ingest_ms=self.number("ingest_ms")[rows],
            lateness_ms=self.number("lateness_ms")[rows],
            key_index=numbers.astype(np.int32),
            key_bytes=keys[0],
            key_offsets=keys[1],
            key_hash=xxh64_many(*keys),
            id_bytes=id_bytes,
            id_offsets=id_offsets,
            values=values,
            filters=self._columns[layout.ROW_FILTERS.name].rows[rows],
            texts=texts,
            facts={name: fact.take(rows) for name, fact in self._facts.items()} if judged else {},
            arrival=self._places(rows) if judged else None,
        )

    def bare_batch(self, rows: Any, first: int, *, facts: bool) -> KeyedBatch:
        """``rows`` of one key for figures alone: ids are the numbers from ``first`` on, and there are no places.

        ``facts``: with the fields that formulas read.
        """
        count = len(rows)
        values, texts = self._values_of(rows)
        numbers = np.arange(first, first + count, dtype="<i8")
        return KeyedBatch(
            clock_ms=self.number("clock_ms")[rows],
            ingest_ms=self.number("ingest_ms")[rows],
            lateness_ms=self.number("lateness_ms")[rows],
            key_index=np.zeros(count, np.int32),
            key_bytes=np.zeros(1, np.uint8),
            key_offsets=np.arange(2, dtype=np.int64),
            key_hash=xxh64_many(np.zeros(1, np.uint8), np.arange(2, dtype=np.int64)),
            id_bytes=numbers.view(np.uint8),
            id_offsets=np.arange(count + 1, dtype=np.int64) * numbers.itemsize,
            values=values,
            filters=self.filters[rows],
            texts=texts,
            facts={name: fact.take(rows) for name, fact in self._facts.items()} if facts else {},
        )

    def _values_of(self, rows: Any) -> tuple[tuple[Any, ...], dict[int, tuple[U8, I64]]]:
        """The values of ``rows``, and by column the texts that they are numbers of."""
        values, texts = [], {}
        for number, column in enumerate(self._values or ()):
            if isinstance(column, Texts):
                values.append(np.arange(len(rows), dtype=np.int32))
                texts[number] = column.take(rows)
            else:
                values.append(column.rows[rows])
        return tuple(values), texts

    def _places(self, rows: Any) -> ArrivalOrder:
        numbers = self._chunk[rows]
        used = np.flatnonzero(np.bincount(numbers, minlength=1))
        chunk = np.zeros(len(self.chunks) + 1, np.int32)
        chunk[used] = np.arange(len(used))
        chunks = [self.chunks[number] for number in used.tolist()]
        reached_ms, offsets = self.number("reached_ms")[rows], self.number("offset")[rows]
        return ArrivalOrder(reached_ms, offsets, chunk[numbers], chunks)

    def rows_of(self, key: bytes) -> I64:
        """The rows of ``key`` that count, in order."""
        number = self._key_numbers.get(key)
        if number is None:
            return np.zeros(0, np.int64)
        rows: I64 = self.in_order(np.flatnonzero((self.key == number) & self.live))
        return rows

    def in_order(self, rows: Any) -> Any:
        """``rows`` by key, then by clock; of one clock those first that came first."""
        clock_ms, keys = self.number("clock_ms")[rows], self.key[rows]
        order = np.lexsort((clock_ms, keys))
        clock_ms, keys = clock_ms[order], keys[order]
        ordered, ties = rows[order], np.flatnonzero((clock_ms[1:] == clock_ms[:-1]) & (keys[1:] == keys[:-1]))
        reached_ms = self.number("reached_ms")
        if not (reached_ms[ordered[ties]] < reached_ms[ordered[ties + 1]]).all():  # else they are in that order
            among = np.zeros(len(rows), np.bool_)
            among[ties] = among[ties + 1] = True
            ordered[among] = self._as_they_came(ordered[among])
        return ordered

    def _as_they_came(self, rows: Any) -> Any:
        """``rows`` by key, by clock, and by the order in which they came."""
        used, chunk = np.unique(self._chunk[rows], return_inverse=True)
        known = [self.chunks[number][:2] for number in used.tolist()]
        came = [(arrival_log(log), sequence) for log, sequence in known]
        by = (
            self._id_hash[rows],
            _ranks([log for log, _ in known])[chunk],
            self.number("offset")[rows],
            _ranks(came)[chunk],
            _ranks([log for log, _ in came])[chunk],
            self.number("reached_ms")[rows],
        )
        return rows[np.lexsort((*by, self.number("clock_ms")[rows], self.key[rows]))]

    def relined(self, lines: Lines) -> None:
        """Have bits for ``lines``; those of lines that stay are kept."""
        for stored in layout.BITS:
            fresh = Column(stored.dtype, _width(lines), stored.name)
            fresh.extend(remapped(self.bits(stored.name), self.lines, lines))
            self._columns[stored.name] = fresh
        self.lines = lines

    def delta(self, rows: Any, changed: Any) -> Delta:
        """``rows``, which a batch added, and what became of the ``changed`` ones of before; as ``take_up`` takes it."""
        batch = self.batch(rows)
        more = {**self._emitted_bits(rows, "own"), **self._emitted_bits(changed, "changed")}
        key_bytes, key_offsets = self._keys_of(changed)
        id_bytes, id_offsets = self.ids_of(changed)
        more |= {"changed_key_bytes": key_bytes, "changed_key_offsets": key_offsets}
        more |= {"changed_id_bytes": id_bytes, "changed_id_offsets": id_offsets}
        more["changed_clock_ms"] = self.number("clock_ms")[changed]
        places = self._places(rows)
        more |= {"reached_ms": places.reached_ms, "offset": places.offsets, "chunk": places.chunk}
        more["chunks"] = np.frombuffer(orjson.dumps(places.chunks), np.uint8)
        for name, array in batch.facts.items():
            more |= fact_arrays(name, array)
        none = np.zeros(0, np.int32)
        return Delta(batch, self.bits("sat")[rows], none, none, more)

    def _emitted_bits(self, rows: Any, prefix: str) -> dict[str, Any]:
        return {f"{prefix}_live": self.live[rows], **{f"{prefix}_{name}": self.bits(name)[rows] for name in BITS}}

    def _keys_of(self, rows: Any) -> tuple[U8, I64]:
        used, number = np.unique(self.key[rows], return_inverse=True)
        return _take(*joined([self._key_names[each] for each in used.tolist()]), number)

    def nbytes(self) -> int:
        """Bytes held, but for keys."""
        others = (self._ids, *(self._values or ()), *self._facts.values())
        return sum(each.nbytes() for each in (*self._columns.values(), *others))

    def keep(self, kept: Bools) -> None:
        """Only the rows that are ``kept``, and of keys and chunks those that they have."""
        facts, values = self._facts.values(), self._values or ()
        self.different.keep(kept)
        for column in self._columns.values():
            column.keep(kept)
        for each in (self._ids, *values, *facts):
            each.keep(kept)
        used = np.unique(self.key)
        self._key_names = [self._key_names[number] for number in used[used >= 0].tolist()]
        self._key_numbers = {name: number for number, name in enumerate(self._key_names)}
        self.key[:] = np.searchsorted(used, self.key) - int((used < 0).any())
        there, chunk = np.unique(self._chunk, return_inverse=True)
        self.chunks = [self.chunks[number] for number in there.tolist()]
        self._chunk_numbers = {each: number for number, each in enumerate(self.chunks)}
        self._chunk[:] = chunk


def _ranks(names: Sequence[Any]) -> I64:
    """Of each name its number among all of them, sorted."""
    rank = {name: number for number, name in enumerate(sorted(set(names)))}
    return np.array([rank[name] for name in names], np.int64)


def _width(lines: Sequence[Any]) -> int:
    return (len(lines) + 7) // 8


def _take(data: U8, offsets: I64, rows: Any) -> tuple[U8, I64]:
    return take_bytes(data, offsets[rows], np.diff(offsets)[rows])
