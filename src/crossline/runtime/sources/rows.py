"""Records that a program holds: Arrow tables of any library, or dicts, cut into batches and decoded."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from itertools import islice
from typing import Any, TypeAlias

import numpy as np
import orjson
import pyarrow as pa

from crossline.basics.errors import UsageError
from crossline.ingest.decode import decode_table, decode_values
from crossline.ingest.route.parts import Chunk
from crossline.runtime.snapshot.snapshot import PlanSnapshot
from crossline.runtime.sources.intake import DecodedRows
from crossline.runtime.work.task import Task

# A table whose columns are fields, or a binary array of JSON documents.
Rows: TypeAlias = pa.Table | pa.Array
_EXPECTED = (
    "a table that speaks Arrow's C stream (pyarrow, pandas 2.2, Polars, DuckDB), an iterable of dicts, or a Spark frame"
)


@dataclass(frozen=True, slots=True)
class RowReader:
    """Records to be read once, in batches. ``schema``: of their columns; None: they are dicts."""

    schema: pa.Schema | None
    batches: Iterator[Rows]


def read_rows(data: Any, rows_max: int) -> RowReader:
    """The records of ``data`` in batches of ``rows_max`` (the last one may be smaller), nothing read yet.

    Args:
        data: an object with ``__arrow_c_stream__`` or ``__arrow_c_array__``, or an iterable of dicts.
        rows_max: rows of a batch.

    Raises:
        UsageError: ``data`` is none of these; while it is read, where an item is no dict.
    """
    if hasattr(data, "__arrow_c_stream__"):
        reader = pa.RecordBatchReader.from_stream(data)
        return RowReader(reader.schema, _tables(reader, rows_max))
    if hasattr(data, "__arrow_c_array__"):
        batch = pa.record_batch(data)
        return RowReader(batch.schema, _tables([batch], rows_max))
    if isinstance(data, Mapping):
        raise UsageError(f"found one dict; expected {_EXPECTED}: put one record into a list")
    if isinstance(data, str | bytes) or not isinstance(data, Iterable):
        raise UsageError(f"found {type(data).__name__}; expected {_EXPECTED}")
    return RowReader(None, _documents(data, rows_max))


def _tables(batches: Iterable[pa.RecordBatch], rows_max: int) -> Iterator[pa.Table]:
    """Batches of any size as tables of ``rows_max`` rows."""
    held: list[pa.RecordBatch] = []
    free = rows_max
    for batch in batches:
        start = 0
        while start < batch.num_rows:
            part = batch.slice(start, free)
            held.append(part)
            start, free = start + part.num_rows, free - part.num_rows
            if not free:
                yield pa.Table.from_batches(held)
                held, free = [], rows_max
    if held:
        yield pa.Table.from_batches(held)


def _documents(records: Iterable[Any], rows_max: int) -> Iterator[pa.Array]:
    """Dicts as JSON: so they are decoded as the lines of a file are, each with its own faults."""
    numbered = enumerate(records)
    while held := [_document(number, record) for number, record in islice(numbered, rows_max)]:
        yield pa.array(held, pa.binary())


def _document(number: int, record: Any) -> bytes:
    if not isinstance(record, Mapping):
        raise UsageError(f"record {number}: found {type(record).__name__}, expected a dict of fields")
    try:
        return orjson.dumps(dict(record), _value, orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NAIVE_UTC)
    except TypeError:  # an integer of more than 64 bits, say: the decoder tells which field is wrong
        return json.dumps(dict(record), default=str).encode("utf-8", "replace")


def _value(value: Any) -> Any:
    """What JSON has no form for."""
    if isinstance(value, Decimal):
        return orjson.Fragment(str(value)) if value.is_finite() else None
    return str(value)


@dataclass(slots=True)
class RowIntake:
    """Decodes ``Rows`` of one stream, which are one log: ``rows`` counts those that came.

    ``clock_ms``: when they are known to be there, in epoch ms; a time far ahead of it is a fault.
    """

    stream: str
    clock_ms: Callable[[], int]
    rows: int = 0

    def decode(self, snapshot: PlanSnapshot, batch: Rows, task: Task, number: int) -> DecodedRows:  # noqa: ARG002 - the protocol's
        """Decode a batch."""
        offsets = np.arange(self.rows, self.rows + len(batch), dtype=np.int64)
        self.rows += len(batch)
        layout, known_ms = snapshot.decoder(self.stream), self.clock_ms()
        if isinstance(batch, pa.Table):
            decoded = decode_table(layout, batch, self.stream, offsets, known_ms=known_ms)
        else:
            known = np.full(len(batch), known_ms, np.int64)
            decoded = decode_values(layout, batch, self.stream, offsets, None, known_ms=known)
        yield decoded, Chunk(self.stream, task.batch_id, self.stream)
