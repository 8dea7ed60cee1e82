"""All that is wrong with a JSON record, for its sender; a dead letter names the first fault alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from crossline.ingest.decode.arrival import Arrival
from crossline.ingest.decode.layout import RecordLayout
from crossline.ingest.decode.reasons import RecordFault, RefusedRecordError
from crossline.ingest.decode.slow_path import cell, check_id, lookup, parse_object, role_ms
from crossline.ingest.decode.spans import LINE_BYTES_MAX, too_long

_AT_FAULT = object()  # in the place of a value that is none


def json_faults(layout: RecordLayout, raw: bytes, known_ms: int) -> tuple[RecordFault, ...]:
    """The faults of a record, each once, in the order of the checks; none where the decoder takes it.

    ``raw``: one JSON document. ``known_ms``: when it is known to have been there, epoch milliseconds. It reads the
    record again and slowly: only for a record that was refused.
    """
    if len(raw) > LINE_BYTES_MAX:
        return (too_long(len(raw), LINE_BYTES_MAX),)
    try:
        document = parse_object(raw)
    except RefusedRecordError as refused:
        return (refused.fault,)
    # Fields of one object that is none have the same fault.
    return tuple(dict.fromkeys(_faults(layout, document, known_ms)))


def _faults(layout: RecordLayout, document: dict[str, Any], known_ms: int) -> Iterator[RecordFault]:
    cells: list[Any] = []
    for column in layout.columns:
        try:
            cells.append(cell(column, lookup(document, column)))
        except RefusedRecordError as refused:
            cells.append(_AT_FAULT)
            yield refused.fault
    if layout.id_column is not None:
        try:
            check_id(layout.columns[layout.id_column], cells[layout.id_column])
        except RefusedRecordError as refused:
            yield refused.fault
    stamps: dict[str, int | None] = {}
    for role in (layout.event, layout.ingest):
        if role is None or cells[role.column] is _AT_FAULT:
            continue
        try:
            stamps[layout.columns[role.column].name] = role_ms(layout, role, cells)
        except RefusedRecordError as refused:
            yield refused.fault
    yield from Arrival(layout.future_ms, None, known_ms).faults(0, stamps)
