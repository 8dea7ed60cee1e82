"""Records as spans of a buffer: finding lines, and what is done with spans once a scan has read them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from crossline.basics.deadletter import DeadLetter
from crossline.basics.errors import UsageError
from crossline.basics.values import I64, U8, Columns, Records
from crossline.ingest.decode.arrival import Arrival
from crossline.ingest.decode.cells import Cells, column_array, text_places
from crossline.ingest.decode.jit import WORD_BYTES, eight_bytes, kernel, lowest_bit, part
from crossline.ingest.decode.json_numbers import HIGHS, ONES
from crossline.ingest.decode.layout import RecordLayout
from crossline.ingest.decode.letters import letter_of
from crossline.ingest.decode.reasons import RecordFault, RefusedRecordError
from crossline.ingest.decode.record import DEAD, GOOD, SLOW
from crossline.ingest.decode.slow_path import Taken

LINE_BYTES_MAX = 1 << 20
RAW_KEPT = 4 << 10
CHUNK_BYTES_MAX = (1 << 31) - 1
BOM = b"\xef\xbb\xbf"
NEWLINE = 10
NEWLINES = ONES * np.uint64(NEWLINE)
BELOW_HIGHS = ~HIGHS
BLOCK_BYTES = 8 * WORD_BYTES  # that are looked through for any newline at once
SHORT_LINE_BYTES = 64  # lines are mostly longer, and room for them is made for these


@dataclass(frozen=True, slots=True)
class Decoded:
    """What came of some bytes: the good records, and a dead letter for each other record, both in offset order."""

    records: Records
    dead: list[DeadLetter]


def with_tokens(layout: RecordLayout, decoded: Decoded) -> Decoded:
    """The end of every decoder: tokens in the place of sensitive values."""
    tokens, records = layout.tokens, decoded.records
    if tokens is None:
        return decoded
    names = tuple(column.name for column in layout.columns)
    return Decoded(replace(records, fields=tokens.columns(names, records.fields)), decoded.dead)


@dataclass(frozen=True, slots=True)
class Span:
    """Where n records lie in a buffer: [starts, ends) each, int64[n], and their offsets in the partition."""

    buf: U8
    starts: I64
    ends: I64
    offsets: I64
    partition: str


def as_bytes(data: bytes | pa.Buffer | None) -> U8:
    """A buffer as read-only uint8[n], so that kernels are compiled for one type only."""
    array = np.frombuffer(b"" if data is None else data, np.uint8)
    array.flags.writeable = False
    return array


@kernel
def find_newlines(buf: U8, places: I64) -> int:
    """How many there are; where the first ones are, as many as ``places`` holds."""
    found = 0
    place: Any = 0
    while place + BLOCK_BYTES <= len(buf):
        like = np.uint64(0)
        for k in range(0, BLOCK_BYTES, WORD_BYTES):
            unlike = eight_bytes(buf, place + k) ^ NEWLINES
            like |= (unlike - ONES) & ~unlike
        if like & HIGHS != 0:
            found = note_newlines(buf, place, place + BLOCK_BYTES, places, found)
        place += BLOCK_BYTES
    return note_newlines(buf, place, len(buf), places, found)


@part
def note_newlines(buf: U8, place: int, end: int, places: I64, found: int) -> int:
    """Note the newlines in [place, end); how many were found with these."""
    while place + WORD_BYTES <= end:
        unlike = eight_bytes(buf, place) ^ NEWLINES
        # The highest bit of each byte that is zero, and of no other: a sum of two that are below it carries nothing.
        like = ~(((unlike & BELOW_HIGHS) + BELOW_HIGHS) | unlike | BELOW_HIGHS)
        while like != 0:
            if found < len(places):
                places[found] = place + (lowest_bit(like) >> 3)
            found += 1
            like &= like - np.uint64(1)
        place += WORD_BYTES
    while place < end:
        if buf[place] == NEWLINE:
            if found < len(places):
                places[found] = place
            found += 1
        place += 1
    return found


def newlines_of(buf: U8) -> I64:
    """Where they are, in an array that has room for one more."""
    room = len(buf) // SHORT_LINE_BYTES + 2
    while True:
        places = np.empty(room, np.int64)
        count = find_newlines(buf, places[:-1])
        if count < room:
            return places[: count + 1]
        room = count + 1


def find_lines(chunk: bytes | pa.Buffer, partition: str, base_offset: int) -> Span:
    """The lines of a chunk. Raises UsageError where the chunk is too large."""
    buf = as_bytes(chunk)
    if len(buf) > CHUNK_BYTES_MAX:
        raise UsageError(
            f"a chunk of {len(buf)} bytes of {partition}: expected less than 2 GiB; read it in smaller chunks"
        )
    ends = newlines_of(buf)
    if len(buf) > 0 and buf[-1] != NEWLINE:
        ends[-1] = len(buf)  # that of a last line without a newline
    else:
        ends = ends[:-1]
    starts = np.zeros(len(ends), np.int64)
    starts[1:] = ends[:-1] + 1
    offsets = starts + base_offset
    if base_offset == 0 and bytes(buf[:3]) == BOM:
        starts[0] = len(BOM)
    return Span(buf, starts, ends, offsets, partition)


Take = Callable[[RecordLayout, bytes], Taken]


def finish(cells: Cells, span: Span, line_bytes_max: int, take: Take, arrival: Arrival) -> Decoded:
    """Send the slow path what a scan doubted, and make records and dead letters of it all."""
    dead = []
    ahead = arrival.ahead(cells.event_ms, cells.ingest_ms)
    if ahead is not None:
        cells.status[ahead & (cells.status == GOOD)] = SLOW
    for row in np.flatnonzero(cells.status == SLOW).tolist():
        start, end = int(span.starts[row]), int(span.ends[row])
        raw = span.buf[start : min(end, start + max(line_bytes_max, RAW_KEPT))].tobytes()
        if end - start > line_bytes_max:
            refused: RefusedRecordError | None = RefusedRecordError(too_long(end - start, line_bytes_max))
        else:
            refused = _try(cells, row, raw, take, arrival)
        if refused is not None:
            cells.status[row] = DEAD
            kept = raw[:RAW_KEPT] if refused.fault.reason == "line_too_long" else raw
            offset = int(span.offsets[row])
            dead.append(letter_of(cells.layout, refused.fault, span.partition, offset, kept, refused.record_id))
    return with_tokens(cells.layout, Decoded(records_of(cells, span.partition, span.offsets, arrival.ingest_ms), dead))


def too_long(size: int, line_bytes_max: int) -> RecordFault:
    """A record has ``size`` bytes, which are too many."""
    return RecordFault("line_too_long", f"{size} bytes", f"at most {line_bytes_max}")


def _try(cells: Cells, row: int, raw: bytes, take: Take, arrival: Arrival) -> RefusedRecordError | None:
    layout = cells.layout
    try:
        texts, event_ms, ingest_ms = take(layout, raw)
        if layout.event is not None and layout.id_column is not None:
            stamps: dict[str, int | None] = {layout.columns[layout.event.column].name: event_ms}
            if layout.ingest is not None:
                stamps[layout.columns[layout.ingest.column].name] = ingest_ms
            arrival.check(row, stamps, str(texts[layout.id_column]))
        cells.put(row, texts, event_ms, ingest_ms)
    except RefusedRecordError as refused:
        return refused
    return None


def no_ids(rows: int) -> pa.Array:
    """Those of rows of a table."""
    return pa.nulls(rows, pa.string())


def records_of(cells: Cells, partition: str, offsets: I64, ingest_ms: I64 | None) -> Records:
    """The good rows. ``ingest_ms``: of all rows, used where the stream names no column of its own."""
    layout = cells.layout
    rows = np.flatnonzero(cells.status == GOOD)
    names = tuple(column.name for column in layout.columns)
    fields = Columns(
        names, lambda number: column_array(cells, number, rows), lambda number: text_places(cells, number, rows)
    )
    ingest = ingest_ms if cells.ingest_ms is None else cells.ingest_ms
    every = len(rows) == len(cells.status)

    def of_good(array: I64) -> I64:
        return array if every else array[rows]

    return Records(
        stream=layout.stream,
        partition=partition,
        ids=no_ids(len(rows)) if layout.id_column is None else fields[names[layout.id_column]].cast(pa.string()),
        event_ms=of_good(cells.event_ms),
        ingest_ms=None if ingest is None else of_good(ingest),
        offsets=of_good(offsets),
        fields=fields,
    )
