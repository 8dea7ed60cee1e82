"""Messages of topics that are no records: without a value, or with headers that are not what the stream declares."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from crossline.core.basics.deadletter import DeadLetter
from crossline.core.decode import Reason
from crossline.core.enrich.headers import header_columns
from crossline.core.streams.schema import StreamSpec

HEADERS = "headers"
HEADERS_TYPE = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
_WITHOUT = "a message without a value"
_NO_VALUES = pa.Array.from_buffers(pa.binary(), 0, [None, pa.py_buffer(bytes(4)), pa.py_buffer(bytes(8))])


def without_faults(
    spec: StreamSpec, stream: str, partition: str, rows: pa.RecordBatch
) -> tuple[pa.RecordBatch, dict[str, pa.Array], list[DeadLetter]]:
    """The ``rows`` of a partition that may be records, the fields that are their headers, and a letter for each other.

    Most streams have nothing of the sort, and their rows are handed on as they are.
    """
    values = rows.column("value")
    columns: dict[str, pa.Array] = {}
    faults: dict[int, tuple[Reason, str]] = {}
    if spec.headers:
        columns, wrong = header_columns(spec, rows.column(HEADERS))
        faults = {row: ("bad_header", detail) for row, detail in wrong.items()}
    if values.null_count:
        nulls = np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False)).tolist()
        faults |= dict.fromkeys(nulls, ("tombstone", _WITHOUT))
    if not faults:
        return rows, columns, []
    offsets = rows.column("offset")
    dead = [
        DeadLetter(stream, reason, detail, partition, offsets[row].as_py(), values[row].as_py() or b"")
        for row, (reason, detail) in sorted(faults.items())
    ]
    good = np.ones(rows.num_rows, np.bool_)
    good[list(faults)] = False
    index = pa.array(np.flatnonzero(good))
    left = rows.take(index)
    if not left.num_rows:  # what is left of buffers is nothing that a decoder would look at
        at = left.schema.get_field_index("value")
        left = left.set_column(at, left.schema.field(at), _NO_VALUES)
    return left, {name: column.take(index) for name, column in columns.items()}, dead
