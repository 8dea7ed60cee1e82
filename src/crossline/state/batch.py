"""Input and output of the kernels, as plain arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from crossline.basics.byte_slices import take_bytes
from crossline.basics.values import F64, I32, I64, U8

U64 = npt.NDArray[np.uint64]
Bools = npt.NDArray[np.bool_]
Texts = tuple[U8, I64]
Failure = tuple[str, int, str]  # rule id, version, why


@dataclass(frozen=True, slots=True)
class ArrivalOrder:
    """The positions of n rows in the order of arrival, for the retraction kernel.

    Their order is that of ``reached_ms``, the highest ingest time of their log so far, then of the log, of the piece of
    it and of the offset in that. ``chunk``: int32[n], by number among ``chunks``: log, sequence, partition.
    ``removes``: bool[n], rows that retract the row of their key and id. ``cause``: int32[n], the trigger of each row
    by number among ``causes``, -1 where it is the row's own record; empty where each row is a record that came.

    Where rows are no records of one stream, ``came`` has by log what it is called among causes, and ``named`` gives the
    id of the record that a row is, or is a hit on, by the row's id. ``shared``: several rows may be hits on one record.
    ``record_update``: what becomes of fields of rows, of these and of those of before.
    """

    reached_ms: I64
    offsets: I64
    chunk: I32
    chunks: Sequence[Chunk]
    removes: Bools = field(default_factory=lambda: np.zeros(0, np.bool_))
    cause: I32 = field(default_factory=lambda: np.zeros(0, np.int32))
    causes: Sequence[Cause] = ()
    came: Mapping[str, str] = field(default_factory=dict)
    named: Callable[[str], str] | None = None
    shared: bool = False
    record_update: Sequence[RecordUpdate] = ()


Chunk = tuple[str, int, str]  # log, sequence in it, partition


@dataclass(frozen=True, slots=True)
class Cause:
    """A record that came, by its id and its place: ingest time that its log had reached, chunk, offset."""

    record_id: str
    ingest_ms: int
    reached_ms: int
    chunk: Chunk
    offset: int

    @property
    def order(self) -> tuple[int, str, int, int]:
        """What puts it among others in the order in which they came."""
        return self.reached_ms, self.chunk[0], self.chunk[1], self.offset


@dataclass(frozen=True, slots=True)
class RecordUpdate:
    """Fields of a row that are others now, by name, and the record that changed them; the row by its id and its place.

    ``place``: log, sequence and offset.
    """

    row_id: bytes
    place: tuple[str, int, int]
    cause: Cause
    facts: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class KeyedBatch:
    """n records of one key space of one shard, in ingest order, with k distinct keys.

    ``key_index``: int32[n], number of the row's key among those in ``key_bytes``/``key_offsets`` (int64[k+1]).
    ``key_hash``: XXH64 of each key, seed 0. ``id_bytes``/``id_offsets`` (int64[n+1]): the record ids. ``values``: one
    array per column of the plan, int64 or float64. ``texts``: of a column of codes that stand for texts, by its number,
    the texts (bytes and int64 offsets); ``values`` are then the rows' numbers among these, int32. ``entries``:
    uint8[n, ceil(entries/8)], bit e (from the low end of byte e//8) set where the row is an entry of number e. The
    value of a column that none of the row's entries uses may be anything. ``facts``: fields of the records, n of each,
    null where missing, that formulas read; they are not kept. ``places``: of rows that may be judged
    again.

    Where records wait for others, ``reached_ms`` is the highest ingest time that the record's log had reached by it
    (None: ``ingest_ms``), and ``origins`` has n rows of what a hit at a record must say once its batch is gone.
    """

    clock_ms: I64
    ingest_ms: I64
    lateness_ms: I64
    key_index: I32
    key_bytes: U8
    key_offsets: I64
    key_hash: U64
    id_bytes: U8
    id_offsets: I64
    values: tuple[I64 | F64 | I32, ...]
    filters: U8
    texts: Mapping[int, Texts] = field(default_factory=dict)
    facts: Mapping[str, pa.Array] = field(default_factory=dict)
    reached_ms: I64 | None = None
    origins: pa.Table | None = None
    arrival: ArrivalOrder | None = None

    def __len__(self) -> int:
        return len(self.clock_ms)


@dataclass(frozen=True, slots=True)
class FigureRead:
    """A figure as a formula read it: its value (None: missing), its window, and how many records there are in it."""

    value: Any
    window_start_ms: int
    window_end_ms: int
    count: int


@dataclass(frozen=True, slots=True)
class FormulaRead:
    """What the formula of a hit read of figures and of fields, by name, and what came of it.

    ``value``: what an alert shows as its value; ``shows``: what else, by name.
    """

    value: Any
    figures: Mapping[str, FigureRead]
    fields: Mapping[str, Any]
    shows: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class FeatureColumn:
    """A figure at n rows: ``values`` (int64[n] or float64[n]), where it is ``defined`` (bool[n]).

    ``up``: what an integer lacks beyond 64 bits, in units of 2^64 (int64[n]); None: none of them lacks anything.
    ``counts``: int64[n], the records in its window.
    """

    values: I64 | F64
    up: I64 | None
    defined: Bools
    counts: I64


@dataclass(frozen=True, slots=True)
class RowFeatures:
    """The result of a feature query: its figures, by name, at ``rows`` (int64[n], ascending) of the batch."""

    rows: I64
    figures: Mapping[str, FeatureColumn]


@dataclass(frozen=True, slots=True)
class Hits:
    """h hits of one batch of n rows, by row and then in the order of the plan's groups.

    ``line``: number in ``plan.judging``; ``row``: in the batch. The value is ``value_i`` + ``value_up`` * 2^64 where
    the aggregate of the line's group is an integer (``is_int``), else ``value_f``. ``count``: records in the window.
    Evidence of hit i: positions ``evidence_offsets[i]`` to ``evidence_offsets[i+1]`` of the evidence arrays, at most
    50, oldest first; ids as bytes with offsets; values of the group's column (``evidence_value_i`` for integer and code
    columns, ``evidence_value_f`` for floats, 0 without column). ``duplicates``: bool[n]. ``retained``: int32[m], the
    rows that were kept. ``sat``: uint8[m, ceil(lines/8)], for each kept row the lines it was judged by and satisfied.
    ``emitted_line``, ``emitted_row``: emissions of lines with a cooldown, ``emitted_row`` counted among the kept
    rows. ``formula_reads``: of formula hits, by number of the hit. ``failed``: rows that a model could not
    judge, by rule version and why. ``features``: of each feature query of the plan.
    ``without``: of formulas that wait for their first figure, by number of the line, the rows that lack it.
    ``replayed``: the result of replayed rows; there are no hits here then. ``evidence_of``: where many hits rest on the
    same records, the number of each piece of evidence among the ids, which are there once; None: they are one for each.
    ``same``: of each hit the first one that is the same, at the same record, and alone has evidence; None: not known.
    """

    line: I32
    row: I32
    is_int: Bools
    value_i: I64
    value_up: I64
    value_f: F64
    count: I64
    window_start_ms: I64
    window_end_ms: I64
    evidence_offsets: I64
    evidence_id_bytes: U8
    evidence_id_offsets: I64
    evidence_clock_ms: I64
    evidence_value_i: I64
    evidence_value_f: F64
    duplicates: Bools
    retained: I32
    sat: U8
    emitted_line: I32
    emitted_row: I32
    formula_reads: Mapping[int, FormulaRead] = field(default_factory=dict)
    failed: Mapping[Failure, int] = field(default_factory=dict)
    replayed: Sequence[ReplayedRows] = ()
    features: tuple[RowFeatures, ...] = ()
    without: Mapping[int, I64] = field(default_factory=dict)
    evidence_of: I64 | None = None
    same: I64 | None = None

    def __len__(self) -> int:
        return len(self.line)


def no_hits(duplicates: Bools) -> Hits:
    """None, of a batch with these ``duplicates``, of which nothing is to be kept."""
    types: dict[str, Any] = {"line": np.int32, "row": np.int32, "is_int": np.bool_, "value_f": np.float64}
    types |= dict.fromkeys(("retained", "emitted_line", "emitted_row"), np.int32)
    types |= dict.fromkeys(("value_i", "value_up", "count", "window_start_ms", "window_end_ms"), np.int64)
    types |= {"evidence_id_bytes": np.uint8, "evidence_clock_ms": np.int64}
    types |= {"evidence_value_i": np.int64, "evidence_value_f": np.float64}
    arrays: dict[str, Any] = {name: np.zeros(0, kind) for name, kind in types.items()}
    arrays |= {"evidence_offsets": np.zeros(1, np.int64), "evidence_id_offsets": np.zeros(1, np.int64)}
    return Hits(**arrays, duplicates=duplicates, sat=np.zeros((0, 0), np.uint8))


@dataclass(frozen=True, slots=True)
class LateContextHit:
    """A hit of ``line`` at ``row``, which found nothing before it, by ``other``, a row behind it, and what it read."""

    line: int
    row: int
    other: int
    read: FormulaRead


@dataclass(frozen=True, slots=True)
class EarlierHits:
    """The last hit of a variant's key and of ``line`` before the variant's rows, and its clock, where there is one.

    ``row``: its number among those that are kept, of which ``id_of`` gives the id until the next batch.
    """

    replay: I64
    line: I64
    row: I64
    clock_ms: I64
    id_of: Callable[[int], str]


@dataclass(frozen=True, slots=True)
class ReplayedRows:
    """Rows that were judged in the order of their clocks, some of them several times: a *replay* for each time.

    ``rows``: n rows, replay by replay, with their arrival and the ``hits`` on them. ``number``: int64[n], which row it
    is, the same in all replays. ``replay``: int32[n]. ``fresh``: bool[n], rows that came with this batch. ``met``: hits
    at rows that lacked their first figure. ``emitted_before``: for each hit, then for each of ``met``, whether its rule
    version emitted a hit at that record before this batch. ``begins``: of each replay whether it is the first of its
    key here: what stood before, and what came in order. The others follow the one before them, which a cause changed:
    of ``causes``, None where it begins. ``earlier``: what alerts there are of before.
    """

    rows: KeyedBatch
    hits: Hits
    number: I64
    replay: I32
    fresh: Bools
    emitted_before: Bools
    begins: Bools
    causes: Sequence[Cause | None]
    met: Sequence[LateContextHit] = ()
    earlier: EarlierHits | None = None


@dataclass(frozen=True, slots=True)
class DueHits:
    """h hits at records that waited in vain, of this batch or an earlier one, in the order in which they became so.

    ``line``: number in ``plan.judging``. ``moment_ms``: the first instant of the stream's clock at which it is known.
    ``clock_ms``, ``ingest_ms``, ``lateness_ms``: of the record; ``until_ms``: how long it waited, on its clock.
    ``answered_ms``: of a probe, the clock of what it met; -1: nothing. Keys and ids are one for each hit, as bytes with
    int64 offsets. ``origins``: as they were given with the records.
    """

    line: I64
    moment_ms: I64
    clock_ms: I64
    ingest_ms: I64
    lateness_ms: I64
    until_ms: I64
    answered_ms: I64
    keys: Texts
    ids: Texts
    origins: pa.Table | None

    def __len__(self) -> int:
        return len(self.line)


@dataclass(frozen=True, slots=True)
class Delta:
    """What one batch added to a key space, to be persisted and later given to ``KeySpaceState.load``, oldest first.

    ``more``: what a kernel keeps besides, by names of its own.
    """

    batch: KeyedBatch
    sat: U8
    emitted_line: I32
    emitted_row: I32
    more: Mapping[str, np.ndarray[Any, np.dtype[Any]]] = field(default_factory=dict)

    def arrays(self) -> dict[str, np.ndarray[Any, np.dtype[Any]]]:
        """The arrays by name; ``Delta.of`` takes them back."""
        b = self.batch
        named: dict[str, np.ndarray[Any, np.dtype[Any]]] = {name: getattr(b, name) for name in _PLAIN}
        named |= {f"value{i}": v for i, v in enumerate(b.values)}
        for i, (text_bytes, text_offsets) in b.texts.items():
            named |= {f"text{i}_bytes": text_bytes, f"text{i}_offsets": text_offsets}
        if b.reached_ms is not None:
            named["reached_ms"] = b.reached_ms
        if b.origins is not None:
            named["origins"] = _as_bytes(b.origins)
        named |= {"sat": self.sat, "emitted_line": self.emitted_line, "emitted_row": self.emitted_row}
        return named | {f"{_MORE}{name}": array for name, array in self.more.items()}

    @staticmethod
    def of(arrays: dict[str, np.ndarray[Any, np.dtype[Any]]]) -> Delta:
        """Inverse of ``arrays``."""
        count = sum(name.startswith("value") for name in arrays)
        values = tuple(arrays[f"value{i}"] for i in range(count))
        plain: dict[str, Any] = {name: arrays[name] for name in _PLAIN}
        if "reached_ms" in arrays:
            plain["reached_ms"] = arrays["reached_ms"]
        if "origins" in arrays:
            plain["origins"] = pa.ipc.open_stream(pa.py_buffer(arrays["origins"])).read_all()
        batch = KeyedBatch(**plain, values=values, texts=texts_of(arrays, count))
        more = {name.removeprefix(_MORE): a for name, a in arrays.items() if name.startswith(_MORE)}
        return Delta(batch, arrays["sat"], arrays["emitted_line"], arrays["emitted_row"], more)


_MORE = "more."
_PLAIN = (
    "clock_ms",
    "ingest_ms",
    "lateness_ms",
    "key_index",
    "key_bytes",
    "key_offsets",
    "key_hash",
    "id_bytes",
    "id_offsets",
    "filters",
)


def _as_bytes(table: pa.Table) -> U8:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.unify_dictionaries())
    return np.frombuffer(sink.getvalue(), np.uint8)


def texts_of(arrays: Mapping[str, Any], columns: int) -> dict[int, Texts]:
    """The texts that come with columns of values, by the column's number."""
    numbers = [i for i in range(columns) if f"text{i}_bytes" in arrays]
    return {i: (arrays[f"text{i}_bytes"], arrays[f"text{i}_offsets"]) for i in numbers}


def take(batch: KeyedBatch, rows: I32) -> KeyedBatch:
    """The ``rows`` of ``batch``, with only the keys and texts they use."""
    used, key_index = np.unique(batch.key_index[rows], return_inverse=True)
    key_bytes, key_offsets = take_bytes(batch.key_bytes, batch.key_offsets[used], np.diff(batch.key_offsets)[used])
    id_bytes, id_offsets = take_bytes(batch.id_bytes, batch.id_offsets[rows], np.diff(batch.id_offsets)[rows])
    values, texts = [v[rows] for v in batch.values], {}
    for i, (text_bytes, text_offsets) in batch.texts.items():
        used_texts, number = np.unique(values[i], return_inverse=True)
        starts, lengths = text_offsets[used_texts], np.diff(text_offsets)[used_texts]
        values[i], texts[i] = number.astype(np.int32), take_bytes(text_bytes, starts, lengths)
    return KeyedBatch(
        clock_ms=batch.clock_ms[rows],
        ingest_ms=batch.ingest_ms[rows],
        lateness_ms=batch.lateness_ms[rows],
        key_index=key_index.astype(np.int32),
        key_bytes=key_bytes,
        key_offsets=key_offsets,
        key_hash=batch.key_hash[used],
        id_bytes=id_bytes,
        id_offsets=id_offsets,
        values=tuple(values),
        filters=batch.filters[rows],
        texts=texts,
        reached_ms=None if batch.reached_ms is None else batch.reached_ms[rows],
        origins=None if batch.origins is None else batch.origins.take(pa.array(rows)),
    )
