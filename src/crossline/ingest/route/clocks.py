"""Records on another of their clocks: with that time in the place of their event time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crossline.basics.streams.clocks import EVENT
from crossline.basics.streams.schema import StreamSpec
from crossline.basics.values import I64, Columns, Records
from crossline.ingest.decode.clock import (
    NOT_A_TIME,
    UNIT_CODES,
    in_range,
    real_column_ms,
    text_column_ms,
    whole_column_ms,
)

# The time of a record whose clock shows none, or one that is not believed: later than any rule allows.
TIMELESS_MS = -(2**62)


def clock_times(records: Records, spec: StreamSpec, clock: str) -> I64:
    """The time of each record on ``clock``, in epoch ms."""
    return column_times(records.fields[spec.clocks[clock].field], spec, clock)


def column_times(column: pa.Array, spec: StreamSpec, clock: str) -> I64:
    """The same of the values of the clock's field."""
    time = spec.clocks[clock]
    unit, kind = UNIT_CODES.get(time.unit, -1), spec.columns[time.field].kind
    if kind == "string":
        found = _of_texts(column)
    elif kind == "number":
        found = real_column_ms(_numbers(column, np.nan), unit)
    else:
        found = _numbers(column, NOT_A_TIME)
        found = found if kind == "timestamp" else whole_column_ms(found, unit)
    return np.where(in_range(found), found, TIMELESS_MS)


def _numbers(column: pa.Array, missing: float) -> Any:
    return pc.fill_null(column, missing).to_numpy(zero_copy_only=False)


def _of_texts(column: pa.Array) -> I64:
    texts = pa.concat_arrays([pc.fill_null(column, "").cast(pa.string())])
    _, offsets, data = texts.buffers()
    bounds = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    found = np.full(len(texts), NOT_A_TIME, np.int64)
    if data is not None:
        text_column_ms(np.frombuffer(data, np.uint8), bounds, found)
    return found


def on_clock(records: Records, stream: str, spec: StreamSpec, clock: str) -> Records:
    """``records`` as they are judged on ``clock``, as those of ``stream``; ingest times stay what they are."""
    names, given = tuple(records.fields), records.fields

    def column(number: int) -> pa.Array:
        return given[names[number]] if number < len(names) else pa.array(records.event_ms)

    return Records(
        stream=stream,
        partition=records.partition,
        ids=records.ids,
        event_ms=clock_times(records, spec, clock),
        ingest_ms=records.ingest_ms,
        offsets=records.offsets,
        fields=Columns((*names, EVENT), column),
        reached_ms=records.reached_ms,
        marks=records.marks,
        spans=records.spans,
        running_ms=records.event_ms,
    )
