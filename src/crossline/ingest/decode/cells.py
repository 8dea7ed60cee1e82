"""The cells that a scan fills, row by row and column by column, and the Arrow columns that come of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from crossline.basics.values import I32, I64, U8, TextPlaces
from crossline.ingest.decode.clock import (
    NOT_A_TIME,
    TIME_MS_END,
    TIME_MS_MIN,
    real_column_ms,
    rfc3339_ms,
    whole_column_ms,
)
from crossline.ingest.decode.jit import WORD_BYTES, eight_bytes, fetch, kernel, part, put_eight_bytes
from crossline.ingest.decode.json_scan import BACKSLASH, LOWER_U, hex_quad
from crossline.ingest.decode.layout import Column, RecordLayout, Role
from crossline.ingest.decode.record import (
    BOOLEAN,
    ESCAPED,
    GOOD,
    HARD,
    INTEGER,
    LIST,
    NULL,
    NUMBER,
    SLOW,
    STRING,
    TIME_NUMBER,
    VALUE,
)

# A text that stands in ``extra`` and not in the buffer.
EXTRA = 5
SIZE_MASK = (1 << 32) - 1
NO_TEXT = -(1 << 63)  # in the place of where a text starts and its size
AHEAD = 24  # rows, after which a text that is fetched is there


@dataclass(slots=True)
class Cells:
    """n rows. ``values`` int64[columns, n], ``flags`` uint8[columns, n], ``status`` uint8[n]: see ``record``.

    ``extra``: texts that the slow path read. ``lists``: (column, row) -> list. Times are epoch ms, of good rows only.
    """

    layout: RecordLayout
    buf: U8
    values: I64
    flags: U8
    status: U8
    event_ms: I64
    ingest_ms: I64 | None
    extra: bytearray = field(default_factory=bytearray)
    lists: dict[tuple[int, int], list[Any]] = field(default_factory=dict)

    def put(self, row: int, cells: list[Any], event_ms: int, ingest_ms: int | None) -> None:
        """Fill a row with what the slow path read; the row is good from here on."""
        for number, (column, value) in enumerate(zip(self.layout.columns, cells, strict=True)):
            self.flags[number, row] = NULL if value is None else VALUE
            if value is None:
                continue
            if column.kind == STRING:
                raw = value.encode()
                self.values[number, row] = (len(self.extra) << 32) | len(raw)
                self.flags[number, row] = EXTRA
                self.extra += raw
            elif column.kind == LIST:
                self.lists[number, row] = value
            elif column.kind == NUMBER:
                self.values[number, row] = np.float64(value).view(np.int64)
            else:
                self.values[number, row] = value
        self.event_ms[row] = event_ms
        if self.ingest_ms is not None and ingest_ms is not None:
            self.ingest_ms[row] = ingest_ms
        self.status[row] = GOOD


def new_cells(layout: RecordLayout, buf: U8, rows: int) -> Cells:
    """Empty cells for ``rows`` records that lie in ``buf``."""
    columns = len(layout.columns)
    return Cells(
        layout=layout,
        buf=buf,
        values=np.empty((columns, rows), np.int64),
        flags=np.zeros((columns, rows), np.uint8),
        status=np.zeros(rows, np.uint8),
        event_ms=np.zeros(rows, np.int64),
        ingest_ms=None if layout.ingest is None else np.zeros(rows, np.int64),
    )


def settle(cells: Cells) -> None:
    """Finish what a scan left open (doubles, times, ids); rows that fail a check are marked SLOW."""
    for number, column in enumerate(cells.layout.columns):
        if column.kind in (NUMBER, TIME_NUMBER, TIME_NUMBER + 1, TIME_NUMBER + 2):
            _settle_hard(cells, number, column)
    layout = cells.layout
    if layout.id_column is not None and layout.columns[layout.id_column].kind == STRING:
        id_values = cells.values[layout.id_column]
        cells.status[(cells.status == GOOD) & (id_values & SIZE_MASK == 0)] = SLOW
    if layout.event is not None:
        cells.event_ms = _settle_role(cells, layout.event)
    if layout.ingest is not None:
        cells.ingest_ms = _settle_role(cells, layout.ingest)


def _settle_hard(cells: Cells, number: int, column: Column) -> None:
    rows = np.flatnonzero((cells.flags[number] == HARD) & (cells.status == GOOD))
    if len(rows) == 0:
        return
    texts = text_column(cells, number, rows)
    doubles = np.asarray(pc.cast(texts, pa.float64()), np.float64) + 0.0
    if column.kind == NUMBER:
        cells.values[number, rows] = doubles.view(np.int64)
    else:
        stamps = real_column_ms(doubles, column.unit)
        cells.values[number, rows] = stamps
        cells.status[rows[stamps == NOT_A_TIME]] = SLOW


def _settle_role(cells: Cells, role: Role) -> I64:
    column, values = cells.layout.columns[role.column], cells.values[role.column]
    if column.kind == INTEGER:
        stamps = whole_column_ms(values, role.unit)
    elif column.kind == NUMBER:
        stamps = real_column_ms(values.view(np.float64), role.unit)
    elif column.kind == STRING:
        stamps = np.empty(len(values), np.int64)
        text_stamps(cells.buf, values, cells.flags[role.column], cells.status, stamps)
    else:
        stamps = values.copy()
    wrong = (stamps < TIME_MS_MIN) | (stamps >= TIME_MS_END)
    cells.status[wrong & (cells.status == GOOD)] = SLOW
    return stamps


@kernel
def text_stamps(buf: U8, values: I64, flags: U8, status: U8, stamps: I64) -> None:
    """``rfc3339_ms`` of the texts of good rows; NOT_A_TIME where a text has escapes."""
    for row in range(len(values)):
        stamps[row] = NOT_A_TIME
        if status[row] == GOOD and flags[row] == VALUE:
            start = values[row] >> 32
            stamps[row] = rfc3339_ms(buf, start, start + (values[row] & SIZE_MASK))


def column_array(cells: Cells, number: int, rows: I64) -> pa.Array:
    """Column ``number`` of the rows, as Arrow."""
    column = cells.layout.columns[number]
    if column.kind == STRING:
        return text_column(cells, number, rows)
    everything = len(rows) == len(cells.status)
    flags = cells.flags[number] if everything else cells.flags[number, rows]
    valid = flags >= VALUE
    if column.kind == LIST:
        items = [cells.lists[number, int(row)] if ok else None for row, ok in zip(rows, valid, strict=True)]
        return pa.array(items, column.arrow_type)
    values = cells.values[number] if everything else cells.values[number, rows]
    bitmap = _bitmap(valid)
    if column.kind == BOOLEAN:
        return pa.Array.from_buffers(
            pa.bool_(), len(rows), [bitmap, pa.py_buffer(np.packbits(values == 1, bitorder="little"))]
        )
    return pa.Array.from_buffers(column.arrow_type, len(rows), [bitmap, pa.py_buffer(np.ascontiguousarray(values))])


def _bitmap(valid: npt.NDArray[np.bool_]) -> pa.Buffer | None:
    return None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))


def text_places(cells: Cells, number: int, rows: I64) -> TextPlaces | None:
    """Where the texts of column ``number`` of the rows stand; None where some are not as they stand, or it has none."""
    if cells.layout.columns[number].kind != STRING:
        return None
    everything = len(rows) == len(cells.status)
    flags = cells.flags[number] if everything else cells.flags[number].take(rows)
    values = cells.values[number] if everything else cells.values[number].take(rows)
    if flags.max(initial=VALUE) > VALUE:
        return None
    return TextPlaces(
        cells.buf, values if flags.min(initial=VALUE) == VALUE else np.where(flags == VALUE, values, NO_TEXT)
    )


def text_column(cells: Cells, number: int, rows: I64) -> pa.Array:
    """The texts of column ``number`` of the rows as a string array; what is absent or null is null."""
    values, flags = cells.values[number], cells.flags[number]
    offsets = np.empty(len(rows) + 1, np.int32)
    size = text_sizes(values, flags, rows)
    if size > np.iinfo(np.int32).max:
        raise OverflowError("a column of one chunk holds more than 2 GiB of text: read smaller chunks")
    data = np.empty(size + WORD_BYTES, np.uint8)
    extra = np.frombuffer(bytes(cells.extra), np.uint8)
    size = copy_texts(cells.buf, extra, values, flags, rows, offsets, data)
    valid = flags[rows] >= VALUE
    return pa.Array.from_buffers(
        pa.string(), len(rows), [_bitmap(valid), pa.py_buffer(offsets), pa.py_buffer(data[:size])]
    )


@kernel
def text_sizes(values: I64, flags: U8, rows: I64) -> int:
    """Bytes that the texts of the rows take at most: escapes only shrink."""
    size = 0
    for row in rows:
        if flags[row] >= VALUE:
            size += values[row] & SIZE_MASK
    return size


@kernel
def copy_texts(buf: U8, extra: U8, values: I64, flags: U8, rows: I64, offsets: I32, data: U8) -> int:
    """Write the texts of the rows one after the other, and where each starts; their size in bytes."""
    at = 0
    for k in range(len(rows)):
        offsets[k] = at
        row = rows[k]
        if k + AHEAD < len(rows):
            fetch(buf, values[rows[k + AHEAD]] >> 32)
        flag = flags[row]
        if flag < VALUE:
            continue
        start = values[row] >> 32
        size = values[row] & SIZE_MASK
        if flag == EXTRA:
            for step in range(size):
                data[at + step] = extra[start + step]
            at += size
        elif flag == ESCAPED:
            at = unescape(buf, start, start + size, data, at)
        else:
            copy_text(buf, start, size, data, at)
            at += size
    offsets[len(rows)] = at
    return at


@part
def copy_text(buf: U8, start: int, size: int, data: U8, at: int) -> None:
    """Write ``size`` bytes from ``start`` at ``at``, and up to WORD_BYTES - 1 behind them where there is room."""
    done: Any = 0
    words = min(len(buf) - start, len(data) - at)
    while done < size and done + WORD_BYTES <= words:
        put_eight_bytes(data, at + done, eight_bytes(buf, start + done))
        done += WORD_BYTES
    while done < size:
        data[at + done] = buf[start + done]
        done += 1


@part
def unescape(buf: U8, p: int, end: int, data: U8, at: int) -> int:
    """Write the string in [p, end), whose escapes are known to be good, as UTF-8 at ``at``; the place behind it."""
    while p < end:
        if buf[p] != BACKSLASH:
            data[at] = buf[p]
            p += 1
            at += 1
            continue
        kind = buf[p + 1]
        p += 2
        code: Any = np.int64(kind)
        if kind == LOWER_U:
            code = hex_quad(buf, p, end)
            p += 4
            if 0xD800 <= code <= 0xDBFF:
                code = 0x10000 + ((code - 0xD800) << 10) + (hex_quad(buf, p + 2, end) - 0xDC00)
                p += 6
        elif kind == 98:
            code = 8
        elif kind == 102:
            code = 12
        elif kind == 110:
            code = 10
        elif kind == 114:
            code = 13
        elif kind == 116:
            code = 9
        at = write_utf8(code, data, at)
    return at


@part
def write_utf8(code: int, data: U8, at: int) -> int:
    """Write a code point at ``at``; the place behind it."""
    if code < 0x80:
        data[at] = code
        return at + 1
    if code < 0x800:
        data[at] = 0xC0 | (code >> 6)
        data[at + 1] = 0x80 | (code & 0x3F)
        return at + 2
    if code < 0x10000:
        data[at] = 0xE0 | (code >> 12)
        data[at + 1] = 0x80 | ((code >> 6) & 0x3F)
        data[at + 2] = 0x80 | (code & 0x3F)
        return at + 3
    data[at] = 0xF0 | (code >> 18)
    data[at + 1] = 0x80 | ((code >> 12) & 0x3F)
    data[at + 2] = 0x80 | ((code >> 6) & 0x3F)
    data[at + 3] = 0x80 | (code & 0x3F)
    return at + 4
