"""What goes into the window kernel and what comes out, as plain arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from crossline.core.basics.values import F64, I32, I64, U8

U64 = npt.NDArray[np.uint64]
Bools = npt.NDArray[np.bool_]
Texts = tuple[U8, I64]
Failure = tuple[str, int, str]  # rule id, version, why


@dataclass(frozen=True, slots=True)
class KeyedBatch:
    """n records of one key space of one shard, in ingest order, with k distinct keys.

    ``key_index``: int32[n], number of the row's key among those in ``key_bytes``/``key_offsets`` (int64[k+1]).
    ``key_hash``: XXH64 of each key, seed 0. ``id_bytes``/``id_offsets`` (int64[n+1]): the record ids. ``values``: one
    array per column of the plan, int64 or float64. ``texts``: of a column of codes that stand for texts, by its number,
    the texts (bytes and int64 offsets); ``values`` are then the rows' numbers among these, int32. ``entries``:
    uint8[n, ceil(entries/8)], bit e (from the low end of byte e//8) set where the row is an entry of number e. The
    value of a column that none of the row's entries uses may be anything. ``facts``: fields of the records, n of each,
    null where missing, that formulas read; they are not kept.
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
    entries: U8
    texts: Mapping[int, Texts] = field(default_factory=dict)
    facts: Mapping[str, pa.Array] = field(default_factory=dict)

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
class Hits:
    """h hits of one batch of n rows, by row and then in the order of the plan's groups.

    ``line``: number in ``plan.judging``; ``row``: in the batch. The value is ``value_i`` + ``value_up`` * 2^64 where
    the aggregate of the line's group is an integer (``is_int``), else ``value_f``. ``count``: records in the window.
    Evidence of hit i: positions ``evidence_offsets[i]`` to ``evidence_offsets[i+1]`` of the evidence arrays, at most
    50, oldest first; ids as bytes with offsets; values of the group's column (``evidence_value_i`` for integer and code
    columns, ``evidence_value_f`` for floats, 0 without column). ``duplicates``: bool[n]. ``retained``: int32[m], the
    rows that were kept. ``sat``: uint8[m, ceil(lines/8)], for each kept row the lines it was judged by and satisfied.
    ``emitted_line``, ``emitted_row``: emissions of lines with a cooldown, ``emitted_row`` counted among the kept
    rows. ``formed``: of hits of formulas, by number of the hit, what was read. ``failed``: rows that a model could not
    judge, by rule version and why.
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
    formed: Mapping[int, FormulaRead] = field(default_factory=dict)
    failed: Mapping[Failure, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.line)


@dataclass(frozen=True, slots=True)
class Delta:
    """What one batch added to a key space, to be persisted and later given to ``KeySpaceState.load``, oldest first."""

    batch: KeyedBatch
    sat: U8
    emitted_line: I32
    emitted_row: I32

    def arrays(self) -> dict[str, np.ndarray[Any, np.dtype[Any]]]:
        """The arrays by name; ``Delta.of`` takes them back."""
        b = self.batch
        named: dict[str, np.ndarray[Any, np.dtype[Any]]] = {name: getattr(b, name) for name in _PLAIN}
        named |= {f"value{i}": v for i, v in enumerate(b.values)}
        for i, (text_bytes, text_offsets) in b.texts.items():
            named |= {f"text{i}_bytes": text_bytes, f"text{i}_offsets": text_offsets}
        return named | {"sat": self.sat, "emitted_line": self.emitted_line, "emitted_row": self.emitted_row}

    @staticmethod
    def of(arrays: dict[str, np.ndarray[Any, np.dtype[Any]]]) -> Delta:
        """Inverse of ``arrays``."""
        count = sum(name.startswith("value") for name in arrays)
        values = tuple(arrays[f"value{i}"] for i in range(count))
        plain: dict[str, Any] = {name: arrays[name] for name in _PLAIN}
        batch = KeyedBatch(**plain, values=values, texts=texts_of(arrays, count))
        return Delta(batch, arrays["sat"], arrays["emitted_line"], arrays["emitted_row"])


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
    "entries",
)


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
        entries=batch.entries[rows],
        texts=texts,
    )


def take_bytes(data: U8, starts: I64, lengths: I64) -> tuple[U8, I64]:
    """The byte strings at ``starts`` laid end to end, and their offsets."""
    out = np.zeros(len(starts) + 1, dtype=np.int64)
    np.cumsum(lengths, out=out[1:])
    source = np.arange(out[-1]) + np.repeat(starts - out[:-1], lengths)
    return data[source], out
