"""Rows that travel between stages: (stage, shard, kind, body), as Arrow batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import orjson
import pyarrow as pa

from crossline.plan.costs import Meter

ArrowBatches = Iterator[pa.RecordBatch]

OUT = -1
DECISIONS, DECIDED = "decisions", "decided"  # the kinds of decisions: as values, and as lines
COSTS = "costs"  # the kind of rows that say what rules cost
READ = "read"  # and of those that say what of the log of states was read: batches of a shard, bytes
_ROWS = pa.schema([("stage", pa.int32()), ("shard", pa.int32()), ("kind", pa.string()), ("body", pa.binary())])


def rows_of(rows: Sequence[tuple[int, int, str, bytes | memoryview]]) -> pa.RecordBatch:
    """Rows (stage, shard, kind, body) of ``_ROWS``."""
    columns = zip(*rows, strict=True) if rows else ((), (), (), ())
    arrays = [pa.array(list(column), each.type) for column, each in zip(columns, _ROWS, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=_ROWS)


def costs_row(meter: Meter) -> tuple[int, int, str, bytes]:
    """What was measured, as a row of the kind COSTS."""
    return OUT, 0, COSTS, orjson.dumps(meter.to_json())
