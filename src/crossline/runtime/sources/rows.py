"""Records that a program holds: Arrow tables of any library, or dicts, cut into batches and decoded."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from itertools import islice
from typing import Any, TypeAlias

import numpy as np
import orjson
import pyarrow as pa

from crossline.basics.errors import UsageError
from crossline.ingest.decode import decode_table, decode_values
from crossline.ingest.route.partitioner import Chunk
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
        UsageError: ``data`` is none of these, or its library cannot give it as Arrow; while it is read, where an item
            is no dict.
    """
    if hasattr(data, "__arrow_c_stream__"):
        try:
            reader = pa.RecordBatchReader.from_stream(data)
        except (ValueError, TypeError, pa.ArrowException) as error:
            # pandas: a column of values of several types, or two columns of one name.
            fault = "; ".join(map(str, error.args))
            raise UsageError(
                f"the {type(data).__name__} cannot be read as an Arrow table: {fault}; give each column one type and a "
                "name of its own"
            ) from error
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
        made = orjson.dumps(dict(record), _value, orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NAIVE_UTC)
    except TypeError:  # an integer of more than 64 bits, say: the decoder reports the field
        return json.dumps(dict(record), default=_slow_value).encode("utf-8", "replace")
    # orjson writes null for infinity too, which is a bad number and no missing one.
    if b"null" in made and _has_infinity(record):
        return json.dumps(dict(record), default=_slow_value).encode("utf-8", "replace")
    return made


def _has_infinity(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(map(_has_infinity, value.values()))
    if isinstance(value, list | tuple):
        return any(map(_has_infinity, value))
    if isinstance(value, Decimal):
        return value.is_infinite()
    return isinstance(value, float | np.floating) and math.isinf(value)


def _value(value: Any) -> Any:
    """What JSON has no form for."""
    if isinstance(value, Decimal):
        return orjson.Fragment(str(value)) if value.is_finite() else None
    return _text(value)


def _slow_value(value: Any) -> Any:
    """The same for Python's own writer, which knows no text that stands as a number."""
    if isinstance(value, Decimal):
        return int(value) if value.is_finite() and value == int(value) else float(value)
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    return _text(value)


def _text(value: Any) -> Any:
    """The text of a value that has one; None where it is pandas' sign for a missing one.

    Bytes, sets and objects have no text that means anything: an object of JSON, which no field of one value takes.
    """
    kind = type(value)
    if kind.__name__ in {"NAType", "NaTType"}:  # pandas need not be there
        return None
    if isinstance(value, datetime):  # of pandas, say; without a zone it is UTC, as orjson has it
        return (value if value.tzinfo is not None else value.replace(tzinfo=UTC)).isoformat()
    text: object = kind.__str__
    if isinstance(value, bytes | bytearray | memoryview) or text is object.__str__:
        return {"python": kind.__name__}
    return str(value)


@dataclass(slots=True)
class RowIntake:
    """Decodes the ``Rows`` of one stream as one log; ``rows``: how many came so far.

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
