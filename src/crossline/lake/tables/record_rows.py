"""From decoded records to rows of the lake, and back."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crossline.basics.streams.schema import FieldSpec, StreamSpec
from crossline.basics.values import I64, Records
from crossline.evaluate.output import BoolMask
from crossline.lake.tables.table_layouts import (
    BATCH,
    CHECKPOINT,
    DELIVERED,
    DUPLICATE,
    EVENT_TIME,
    INGEST_TIME,
    INSTANT,
    LOG,
    POSITION,
    REACHED,
    RECORD_ID,
    SEQUENCE,
    TableLayout,
    own_fields,
)
from crossline.runtime.sources.intake import StreamIntake

US_PER_MS = 1_000


def instants(ms: I64 | pa.Array | pa.ChunkedArray) -> pa.Array:
    """Epoch milliseconds as instants; int64[n] or an Arrow array with nulls."""
    array = ms if isinstance(ms, pa.Array | pa.ChunkedArray) else pa.array(ms)
    return pc.multiply(array.cast(pa.int64()), US_PER_MS).cast(INSTANT)


def milliseconds(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Instants as epoch milliseconds, int64 with nulls."""
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return pc.divide(whole.cast(INSTANT).cast(pa.int64()), US_PER_MS)


@dataclass(frozen=True, slots=True)
class RecordOrigin:
    """Where n records come from.

    Attributes:
        checkpoint: The id of the checkpoint that their batches are of.
        sequence: The number of their chunk; None: they are of a topic.
        ingest_ms: int64[n].
        reached_ms: int64[n], the highest ingest time of their log up to each.
        batch: int64[n], the batch of each.
        delivered_ms: int64[n], when that batch was delivered.
        duplicate: bool[n], whether the id was seen before.
    """

    checkpoint: str
    sequence: int | None
    ingest_ms: I64
    reached_ms: I64
    batch: I64
    delivered_ms: I64
    duplicate: BoolMask


def record_rows(layout: TableLayout, spec: StreamSpec, records: Records, origin: RecordOrigin) -> pa.Table:
    """Rows of ``layout`` for n decoded records of one log of a stream."""
    n = len(records)
    known = {
        RECORD_ID: records.ids.cast(pa.string()),
        EVENT_TIME: instants(records.event_ms),
        INGEST_TIME: instants(origin.ingest_ms),
        REACHED: instants(origin.reached_ms),
        LOG: pa.repeat(records.partition, n),
        SEQUENCE: pa.repeat(pa.scalar(origin.sequence, pa.int64()), n),
        POSITION: pa.array(records.offsets),
        DUPLICATE: pa.array(origin.duplicate),
        BATCH: pa.array(origin.batch),
        CHECKPOINT: pa.repeat(origin.checkpoint, n),
        DELIVERED: instants(origin.delivered_ms),
    }
    fields = own_fields(spec)
    columns = [
        known[field.name] if field.name in known else _column(field, field.name, fields, records)
        for field in layout.schema
    ]
    return pa.table(columns, schema=layout.schema)


def _column(field: pa.Field, name: str, fields: Mapping[str, FieldSpec], records: Records) -> pa.Array:
    """The column of a field, or the struct of those below ``name``."""
    if name in fields:
        return _cast(records.fields[name], fields[name], field.type)
    inner = [_column(each, f"{name}.{each.name}", fields, records) for each in field.type]
    return pa.StructArray.from_arrays(inner, fields=list(field.type))


def _cast(column: pa.Array, field: FieldSpec, wanted: pa.DataType) -> pa.Array:
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if field.kind != "timestamp":
        return column.cast(wanted)
    if not field.is_list:
        return instants(column)
    return pa.ListArray.from_arrays(column.offsets, instants(column.values), mask=column.is_null())


def records_of_rows(stream: str, spec: StreamSpec, rows: pa.Table) -> Records:
    """The decoded records that ``rows``, all of one log and in the order of their positions, were made from."""
    table = rows.combine_chunks()
    fields = {name: _field(table, name.split("."), field) for name, field in own_fields(spec).items()}
    return Records(
        stream=stream,
        partition=table.column(LOG)[0].as_py(),
        ids=_flat(table.column(RECORD_ID)).cast(pa.string()),
        event_ms=milliseconds(table.column(EVENT_TIME)).to_numpy(),
        ingest_ms=milliseconds(table.column(INGEST_TIME)).to_numpy(),
        offsets=_flat(table.column(POSITION)).to_numpy(),
        fields=fields,
        reached_ms=milliseconds(table.column(REACHED)).to_numpy(),
    )


def _field(table: pa.Table, path: list[str], field: FieldSpec) -> pa.Array:
    if path[0] not in table.column_names:  # a field that the stream has got since
        return pa.nulls(len(table), pa.list_(_plain(field)) if field.is_list else _plain(field))
    column = _flat(table.column(path[0]))
    for name in path[1:]:
        column = pc.struct_field(column, name)
    if field.kind != "timestamp":
        return column.cast(pa.list_(_plain(field)) if field.is_list else _plain(field))
    if not field.is_list:
        return milliseconds(column)
    return pa.ListArray.from_arrays(column.offsets, milliseconds(column.values), mask=column.is_null())


def _plain(field: FieldSpec) -> pa.DataType:
    """The type that a decoded field has: a timestamp is epoch milliseconds."""
    types = {"string": pa.string(), "integer": pa.int64(), "number": pa.float64(), "boolean": pa.bool_()}
    return types.get(field.kind, pa.int64())


def _flat(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)


def in_log_order(rows: pa.Table) -> pa.Table | None:
    """``rows`` by chunk, log and position; None: there are none."""
    if not len(rows):
        return None
    return rows.sort_by([(SEQUENCE, "ascending"), (LOG, "ascending"), (POSITION, "ascending")]).combine_chunks()


def runs_of(rows: pa.Table) -> list[tuple[int, int]]:
    """The runs of rows, each of one log and chunk, as [start, end)."""
    logs = np.asarray(rows.column(LOG).combine_chunks().dictionary_encode().indices)
    sequences = np.asarray(rows.column(SEQUENCE).combine_chunks().fill_null(-1))
    changes = np.flatnonzero((np.diff(logs) != 0) | (np.diff(sequences) != 0)) + 1
    return list(itertools.pairwise([0, *changes.tolist(), len(rows)]))


def marked_runs(stream: str, rows: pa.Table) -> Iterator[pa.RecordBatch]:
    """The runs of ``rows``, which are in the order of their logs, as batches of ``stream``."""
    for start, end in runs_of(rows):
        run = rows.slice(start, end - start).combine_chunks()
        (batch,) = run.to_batches() or [pa.RecordBatch.from_pylist([], schema=rows.schema)]
        yield StreamIntake.marked(stream, batch)
