"""Avro records as values of a topic, into the same columns as records of JSON.

What the stream declares decides: fields are found by their names, and what its writer added is passed over. Whatever
cannot be decoded becomes a dead letter with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import pyarrow as pa

from crossline.basics.values import I64
from crossline.ingest.avro.binary import Found, MalformedError, Walk, Want
from crossline.ingest.avro.cells import cell, description, units
from crossline.ingest.avro.kernel import scan_values
from crossline.ingest.avro.program import Program, compile_program
from crossline.ingest.avro.schema import Node
from crossline.ingest.avro.wire import HEADER_BYTES, MAGIC, schema_id
from crossline.ingest.decode.arrival import Arrival
from crossline.ingest.decode.cells import Cells, new_cells, settle
from crossline.ingest.decode.layout import RecordLayout
from crossline.ingest.decode.reasons import RecordFault, RefusedRecordError
from crossline.ingest.decode.record import SLOW
from crossline.ingest.decode.slow_path import Taken, with_roles
from crossline.ingest.decode.spans import LINE_BYTES_MAX, Decoded, Span, as_bytes, finish

# By number: a schema, or why there is none to be had.
Schemas = Mapping[int, "Node | str"]


def decode_avro(
    layout: RecordLayout,
    values: pa.Array,
    partition: str,
    offsets: I64,
    ingest_ms: I64 | None,
    schemas: Schemas,
    line_bytes_max: int = LINE_BYTES_MAX,
    *,
    known_ms: I64 | None = None,
    quick: bool = True,
) -> Decoded:
    """Decode a binary array of records in the registry's wire format; otherwise as ``decode_values``.

    ``schemas``: those that the values name (see ``schema_ids``); a missing one counts as unknown. ``quick``: use the
    compiled decoder where it can; the result is the same.
    """
    _, bounds, data = values.buffers()
    edges = np.frombuffer(bounds, np.int32)[values.offset : values.offset + len(values) + 1].astype(np.int64)
    span = Span(as_bytes(data), edges[:-1], edges[1:], offsets, partition)
    cells = new_cells(layout, span.buf, len(values))
    reading = Reading.of(layout)
    cells.status[:] = SLOW
    if quick:
        scan(cells, span, reading, schemas)
        cells.status[span.ends - span.starts > line_bytes_max] = SLOW
        settle(cells)
    arrival = Arrival(layout.future_ms, ingest_ms if layout.ingest is None else None, known_ms)
    return finish(cells, span, line_bytes_max, lambda _, raw: reading.value(schemas, raw), arrival)


def scan(cells: Cells, span: Span, reading: Reading, schemas: Schemas) -> None:
    """Read what the kernel can read; other rows stay SLOW."""
    long_enough = np.flatnonzero(span.ends - span.starts >= HEADER_BYTES)
    heads = span.buf[span.starts[long_enough, None] + np.arange(HEADER_BYTES)]
    numbers = heads[:, 1:].copy().view(">i4")[:, 0]
    required = np.array([not column.spec.optional for column in cells.layout.columns], np.uint8)
    for number in np.unique(numbers[heads[:, 0] == MAGIC]).tolist():
        schema = schemas.get(number)
        program = reading.program(schema) if isinstance(schema, Node) else None
        if program is None:
            continue
        rows = long_enough[(numbers == number) & (heads[:, 0] == MAGIC)]
        ends = program.ends + len(cells.extra)
        cells.extra += program.symbols
        starts = span.starts + HEADER_BYTES
        scan_values(
            *(span.buf, starts, span.ends, rows, program.steps, ends),
            *(cells.values, cells.flags, required, cells.status),
        )


def wanted(layout: RecordLayout) -> Want:
    """The columns of a layout by the fields that they are, one within the other."""
    tree: dict[str, Any] = {}
    for number, column in enumerate(layout.columns):
        *path, leaf = column.name.split(".")
        here = tree
        for part in path:
            here = here.setdefault(part, {})
        here[leaf] = number
    return tree


@dataclass(frozen=True, slots=True)
class Reading:
    """What records are read into: a layout, its columns as fields within fields, and the units of its times."""

    layout: RecordLayout
    want: Want
    units: list[int | None]

    @classmethod
    def of(cls, layout: RecordLayout) -> Self:
        """What ``layout`` asks for."""
        return cls(layout, wanted(layout), units(layout))

    def program(self, schema: Node) -> Program | None:
        """What the kernel takes for records of ``schema``; None where there is nothing that it could do."""
        return compile_program(self.layout, self.want, self.units, schema)

    def value(self, schemas: Schemas, raw: bytes) -> Taken:
        """Decode one record with its header. Raises RefusedRecordError."""
        number = schema_id(raw)
        if number is None:
            raise RefusedRecordError(_no_header(raw))
        schema = schemas.get(number, f"the registry knows no schema {number}")
        if isinstance(schema, str):
            raise RefusedRecordError(RecordFault("unknown_schema", schema))
        try:
            return self.record(schema, Walk(raw, HEADER_BYTES))
        except RefusedRecordError as refused:
            fault = replace(refused.fault, note=f"by schema {number}")
            raise RefusedRecordError(fault, refused.record_id) from None

    def record(self, schema: Node, walk: Walk) -> Taken:
        """Decode the record of ``schema`` that is all of what is left. Raises RefusedRecordError."""
        found: list[Found | None] = [None] * len(self.units)
        try:
            node = walk.branch(schema)
            if node.kind != "record":
                given = description(walk.found(node, 0))
                raise RefusedRecordError(RecordFault("not_an_object", given, "a record"))
            walk.record(node, self.want, found, 0)
            walk.finish()
        except MalformedError as error:
            raise RefusedRecordError(RecordFault("malformed_avro", str(error))) from None
        try:
            columns = zip(self.layout.columns, self.units, found, strict=True)
            return with_roles(self.layout, [cell(column, unit, given) for column, unit, given in columns])
        except RefusedRecordError as refused:
            refused.record_id = self._id(found)
            raise

    def _id(self, found: list[Found | None]) -> str | None:
        number = self.layout.id_column
        if number is None:
            return None
        try:
            return str(cell(self.layout.columns[number], None, found[number])) or None
        except RefusedRecordError:
            return None


def _no_header(raw: bytes) -> RecordFault:
    if not raw:
        return RecordFault("malformed_avro", "nothing", f"the byte {MAGIC} and the number of a schema")
    first = f"a value that begins with byte 0x{raw[0]:02x}" if raw[0] != MAGIC else f"{len(raw)} bytes"
    expected = f"the byte {MAGIC}, the number of a schema in four, and the record"
    return RecordFault("malformed_avro", first, expected)
