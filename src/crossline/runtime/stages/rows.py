"""Rows that travel between stages: (stage, shard, kind, body), as Arrow batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import orjson
import pyarrow as pa

from crossline.plan.costs import Meter
from crossline.runtime.work.rows import StageRows

ArrowBatches = Iterator[pa.RecordBatch]

OUT = -1
DECISIONS, DECIDED = "decisions", "decided"  # the kinds of decisions: as values, and as lines
COSTS = "costs"  # the kind of rows that say what rules cost
FEATURE_ROWS = "told"  # and of figures of records (see ``feature_table``)
READ = "read"  # and of those that say what of the log of states was read: batches of a shard, bytes
_BYTES_MAX = 2**31 - 1
_ROWS = pa.schema([("stage", pa.int32()), ("shard", pa.int32()), ("kind", pa.string()), ("body", pa.binary())])


Body = bytes | memoryview | list[bytes | memoryview]  # a list: pieces that stand one behind the other


def rows_of(rows: Sequence[tuple[int, int, str, Body]]) -> pa.RecordBatch:
    """Rows (stage, shard, kind, body) of ``_ROWS``."""
    *others, bodies = zip(*rows, strict=True) if rows else ((), (), (), ())
    arrays = [pa.array(list(column), each.type) for column, each in zip(others, _ROWS, strict=False)]
    return pa.RecordBatch.from_arrays([*arrays, _joined(bodies)], schema=_ROWS)


def stage_rows(rows: pa.RecordBatch | pa.Table) -> StageRows:
    """Inverse of ``rows_of``."""
    return list(zip(*(column.to_pylist() for column in rows.columns), strict=True))


def _joined(bodies: Sequence[Body]) -> pa.Array:
    """Bodies as a binary array: megabytes, which are copied once, where Arrow's own way makes room twice and more.

    Raises:
        OverflowError: 2 GiB or more, which no such array holds.
    """
    pieces = [body if isinstance(body, list) else [body] for body in bodies]
    offsets = np.zeros(len(bodies) + 1, np.int64)
    np.cumsum([sum(map(len, body)) for body in pieces], out=offsets[1:])
    if offsets[-1] > _BYTES_MAX:
        raise OverflowError(f"rows of {offsets[-1]} bytes: expected less than 2 GiB; read smaller batches")
    whole = b"".join(piece for body in pieces for piece in body)
    buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(whole)]
    return pa.Array.from_buffers(pa.binary(), len(bodies), buffers)


def costs_row(meter: Meter) -> tuple[int, int, str, bytes]:
    """What was measured, as a row of the kind COSTS."""
    return OUT, 0, COSTS, orjson.dumps(meter.to_json())
