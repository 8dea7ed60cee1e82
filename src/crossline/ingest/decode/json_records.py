"""JSON records, as lines of a file or values of a topic: a fast scan of all, the slow path for what it doubts."""

from __future__ import annotations

from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from crossline.basics.values import I64
from crossline.ingest.decode.arrival import Arrival
from crossline.ingest.decode.cells import SIZE_MASK, Cells, new_cells, settle
from crossline.ingest.decode.json_scan import NOTES_SIZE
from crossline.ingest.decode.layout import RecordLayout
from crossline.ingest.decode.record import BLANK, GOOD, LIST, SLOW, VALUE, scan_records
from crossline.ingest.decode.slow_path import INT64_MAX, INT64_MIN, parse_json_record
from crossline.ingest.decode.spans import LINE_BYTES_MAX, Decoded, Span, as_bytes, find_lines, finish

# What orjson makes of the items of a list; a kind that is not here takes the slow path.
PYTHON_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
}


def decode_lines(
    layout: RecordLayout,
    chunk: bytes | pa.Buffer,
    partition: str,
    base_offset: int,
    line_bytes_max: int = LINE_BYTES_MAX,
    *,
    known_ms: int | None = None,
) -> Decoded:
    """Decode JSON lines.

    ``chunk``: part of a file from a line's start to a line's end (the last newline may be missing), under 2 GiB;
    ``base_offset`` is where it starts in the file. A record's offset is the byte at which its line starts. Blank lines
    are skipped, and a UTF-8 byte order mark at the start of the file. ``known_ms``: when they are known to have been
    there, None where that is unknown. Raises UsageError where the chunk is too large.
    """
    span = find_lines(chunk, partition, base_offset)
    return _decode(layout, span, line_bytes_max, Arrival(layout.future_ms, None, known_ms), skip_blank=True)


def decode_values(
    layout: RecordLayout,
    values: pa.Array,
    partition: str,
    offsets: I64,
    ingest_ms: I64 | None,
    line_bytes_max: int = LINE_BYTES_MAX,
    *,
    known_ms: I64 | None = None,
) -> Decoded:
    """Decode a binary array of JSON documents, one a value, at the given offsets (int64[n], increasing).

    ``ingest_ms``: the broker's times, int64[n], used where the stream names no column of its own. ``known_ms``: when
    they are known to have been there, int64[n]. A null or blank value is a dead letter.
    """
    _, bounds, data = values.buffers()
    edges = np.frombuffer(bounds, np.int32)[values.offset : values.offset + len(values) + 1].astype(np.int64)
    span = Span(as_bytes(data), edges[:-1], edges[1:], offsets, partition)
    # The broker's time is looked at where it counts: as ingest time.
    arrival = Arrival(layout.future_ms, ingest_ms if layout.ingest is None else None, known_ms)
    return _decode(layout, span, line_bytes_max, arrival, skip_blank=False)


def _decode(layout: RecordLayout, span: Span, line_bytes_max: int, arrival: Arrival, *, skip_blank: bool) -> Decoded:
    cells = new_cells(layout, span.buf, len(span.starts))
    notes = np.zeros(NOTES_SIZE, np.int64)
    # The tree is copied, as the kernel keeps notes in it.
    scan_records(
        span.buf,
        span.starts,
        span.ends,
        layout.tree.copy(),
        layout.keys,
        notes,
        cells.values,
        cells.flags,
        cells.status,
        layout.root,
    )
    cells.status[span.ends - span.starts > line_bytes_max] = SLOW
    if not skip_blank:
        cells.status[cells.status == BLANK] = SLOW
    _read_lists(cells)
    settle(cells)
    return finish(cells, span, line_bytes_max, parse_json_record, arrival)


def _read_lists(cells: Cells) -> None:
    """Read the lists whose spans a scan found; a row whose list does not fit is marked SLOW."""
    for number, column in enumerate(cells.layout.columns):
        if column.kind != LIST:
            continue
        for row in np.flatnonzero((cells.status == GOOD) & (cells.flags[number] == VALUE)).tolist():
            start, size = divmod(int(cells.values[number, row]), SIZE_MASK + 1)
            items = plain_list(column.spec.kind, cells.buf[start : start + size].tobytes())
            if items is None:
                cells.status[row] = SLOW
            else:
                cells.lists[number, row] = items


def plain_list(kind: str, raw: bytes) -> list[Any] | None:
    """The items of a JSON list that a scan has found well formed; None where they may not fit the kind."""
    wanted = PYTHON_TYPES.get(kind)
    items = orjson.loads(raw) if wanted else []
    if wanted is None or not all(type(item) in wanted for item in items):
        return None
    if kind == "number":
        # Adding zero turns -0.0 into 0.0, so that equal numbers have equal bits.
        return [item + 0.0 for item in items]
    if kind == "integer" and not all(INT64_MIN <= item <= INT64_MAX for item in items):
        return None
    return list(items)
