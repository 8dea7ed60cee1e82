"""Messages of topics as rows; and those that are no records.

No record is a message without a value, or with headers or a time that a record cannot have.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from crossline.basics.deadletter import DeadLetter
from crossline.basics.streams.schema import StreamSpec
from crossline.basics.values import I64
from crossline.ingest.decode import Reason
from crossline.ingest.decode.clock import TIME_MS_MIN
from crossline.ingest.enrich.headers import header_columns
from crossline.io.kafka.unavailable_range import Place

if TYPE_CHECKING:
    from confluent_kafka import Message

HEADERS = "headers"
HEADERS_TYPE = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
_MESSAGES = pa.schema(
    [
        *(("topic", pa.dictionary(pa.int32(), pa.string())), ("partition", pa.int32()), ("offset", pa.int64())),
        *(("timestamp", pa.timestamp("ms", "UTC")), ("timestampType", pa.int32()), ("value", pa.binary())),
    ]
)
_WITHOUT = "a message without a value"
_NO_VALUES = pa.Array.from_buffers(pa.binary(), 0, [None, pa.py_buffer(bytes(4)), pa.py_buffer(bytes(8))])


def stamps_ms(rows: pa.RecordBatch) -> I64:
    """The timestamps of messages; -1 where its sender gave one none, and whatever else senders may write."""
    return np.asarray(rows.column("timestamp").cast(pa.timestamp("ms", "UTC"), safe=False).cast(pa.int64()))


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
    if spec.ingest_time is None:  # what lies ahead is reported once it is known when the record was there
        stamps = stamps_ms(rows)
        early = np.flatnonzero(stamps < TIME_MS_MIN).tolist()
        faults |= {row: ("time_out_of_range", _early(int(stamps[row]))) for row in early}
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


def _early(stamp_ms: int) -> str:
    return f"the message's timestamp: found {stamp_ms} ms, expected a time from 1970-01-01 to 2200-01-01"


def message_rows(given: Sequence[tuple[Place, Sequence[Message]]], *, headers: bool = False) -> pa.RecordBatch:
    """Messages, partition by partition, as Spark's source has them, with their ``headers`` or without."""
    messages = [message for _, mine in given for message in mine]
    kinds, times = zip(*[message.timestamp() for message in messages], strict=True) if messages else ((), ())
    of_row = np.repeat(np.arange(len(given)), [len(mine) for _, mine in given])
    topics = list(dict.fromkeys(topic for (topic, _), _ in given))
    numbers = np.array([topics.index(topic) for (topic, _), _ in given], np.int32)
    partitions = np.array([partition for (_, partition), _ in given], np.int32)
    columns: list[Any] = [
        pa.DictionaryArray.from_arrays(numbers[of_row], pa.array(topics, pa.string())),
        partitions[of_row],
        pa.array([message.offset() for message in messages], pa.int64()),
        pa.array(times, pa.int64()).view(pa.timestamp("ms", "UTC")),
        np.array(kinds, np.int32) - np.int32(1),  # Spark numbers the kinds of times from -1 on
        pa.array([message.value() for message in messages], pa.binary()),
    ]
    rows = pa.RecordBatch.from_arrays(list(map(pa.array, columns)), schema=_MESSAGES)
    if not headers:
        return rows
    from crossline.io.kafka.client import read_headers  # noqa: PLC0415 - the client is an extra

    lines = [[{"key": name, "value": raw} for name, raw in read_headers(message)] for message in messages]
    return rows.append_column(HEADERS, pa.array(lines, HEADERS_TYPE))
