"""CSV records: a line is a record, fields by the header's names, quotes as in RFC 4180, values written as in JSON."""

# ruff: noqa: PLR0911 - kernels are flat: many plain arguments, and a way out at each doubt

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from crossline.basics.values import I32, I64, U8
from crossline.ingest.decode.arrival import Arrival
from crossline.ingest.decode.cells import new_cells, settle
from crossline.ingest.decode.clock import NOT_A_TIME, rfc3339_ms
from crossline.ingest.decode.jit import kernel, part
from crossline.ingest.decode.json_numbers import (
    DOUBT,
    MINUS,
    NINE,
    NUMBER_DOUBT,
    NUMBER_HARD,
    NUMBER_INTEGER,
    ZERO,
    read_number,
)
from crossline.ingest.decode.json_scan import COMMA, QUOTE, skip_space, utf8_step
from crossline.ingest.decode.layout import Column, RecordLayout
from crossline.ingest.decode.reasons import RecordFault, RefusedRecordError
from crossline.ingest.decode.record import (
    ABSENT,
    BLANK,
    BOOLEAN,
    GOOD,
    HARD,
    INTEGER,
    NULL,
    NUMBER,
    SLOW,
    STRING,
    TIME_ANY,
    TIME_NUMBER,
    TIME_TEXT,
    VALUE,
    read_time,
)
from crossline.ingest.decode.slow_path import NumberText, Taken, as_text, cell, id_text, parse_text, shown, with_roles
from crossline.ingest.decode.spans import LINE_BYTES_MAX, Decoded, find_lines, finish

TRUE_TEXTS, FALSE_TEXTS = ("true", "True", "TRUE"), ("false", "False", "FALSE")
JSON_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
NOT_FINITE = re.compile(r"[-+]?(?:nan|inf|infinity)", re.IGNORECASE)
FIELD = re.compile(r'"(?P<quoted>(?:[^"]|"")*+)"(?=,|\Z)|(?P<plain>(?!")[^,]*)')

# Columns of the plan that the kernel walks: which column a header field fills (-1: none), how it is read, its unit.
TARGET, KIND, UNIT = range(3)


@dataclass(frozen=True, slots=True)
class Header:
    """A file's header against a layout. ``places``: column number -> place in the header, -1 where it is not there."""

    names: tuple[str, ...]
    places: tuple[int, ...]
    twice: str | None
    plan: I32


def make_header(layout: RecordLayout, names: list[str]) -> Header:
    """Match a header's names to the layout's dotted ones."""
    columns = [column.name for column in layout.columns]
    plan = np.full((len(names), 3), -1, np.int32)
    for place, name in enumerate(names):
        if name in columns:
            number = columns.index(name)
            plan[place] = number, layout.columns[number].kind, layout.columns[number].unit
    places = tuple(names.index(name) if name in names else -1 for name in columns)
    twice = next((name for name in columns if names.count(name) > 1), None)
    return Header(tuple(names), places, twice, plan)


def decode_csv(
    layout: RecordLayout,
    header: list[str],
    chunk: bytes | pa.Buffer,
    partition: str,
    base_offset: int,
    line_bytes_max: int = LINE_BYTES_MAX,
    *,
    known_ms: int | None = None,
) -> Decoded:
    """Decode CSV lines, without the header's own line; otherwise as ``decode_lines``.

    Numbers and times are written as in JSON, booleans true or false (also True, TRUE), lists as JSON. An empty field is
    null; ``""`` is an empty string. A quote counts only at a field's start. A field cannot go on over a line's end.
    """
    span = find_lines(chunk, partition, base_offset)
    cells = new_cells(layout, span.buf, len(span.starts))
    head = make_header(layout, header)
    required = np.array([not column.spec.optional for column in layout.columns])
    scan_rows(span.buf, span.starts, span.ends, head.plan, required, cells.values, cells.flags, cells.status)
    cells.status[span.ends - span.starts > line_bytes_max] = SLOW
    if head.twice is not None:
        cells.status[cells.status == GOOD] = SLOW
    settle(cells)
    arrival = Arrival(layout.future_ms, None, known_ms)
    return finish(cells, span, line_bytes_max, lambda _, raw: parse_csv_record(layout, head, raw), arrival)


def parse_csv_record(layout: RecordLayout, header: Header, raw: bytes) -> Taken:
    """Decode one record the slow path. Raises RefusedRecordError."""
    if header.twice is not None:
        raise _malformed(f"the header names {shown(header.twice)} twice")
    texts = split(as_text(raw).removesuffix("\r"))
    if len(texts) != len(header.names):
        expected = f"{len(header.names)} as in the header"
        raise RefusedRecordError(RecordFault("malformed_csv", f"{len(texts)} fields", expected))
    pairs = list(zip(layout.columns, header.places, strict=True))
    try:
        cells = [cell(column, _value(column, texts[place]) if place >= 0 else None) for column, place in pairs]
        return with_roles(layout, cells)
    except RefusedRecordError as refused:
        # Where a column is missing, another one's value stands in the place of the id: perhaps a sensitive one.
        known = layout.id_column is not None and layout.tokens is None
        refused.record_id = _id_of(*pairs[layout.id_column or 0], texts) if known else None
        raise


def _id_of(column: Column, place: int, texts: list[str | None]) -> str | None:
    try:
        return id_text(column, _value(column, texts[place])) if place >= 0 else None
    except RefusedRecordError:
        return None


def split(line: str) -> list[str | None]:
    """The fields of a line; None for an empty one without quotes. Raises RefusedRecordError."""
    texts: list[str | None] = []
    at = 0
    while True:
        match = FIELD.match(line, at)
        if match is None:
            raise _malformed(f"the quoted field at character {at + 1} does not end before a comma or on its line")
        texts.append(match["plain"] or None if match["quoted"] is None else match["quoted"].replace('""', '"'))
        if match.end() == len(line):
            return texts
        at = match.end() + 1


def _value(column: Column, text: str | None) -> Any:
    """A field's text as the value of a JSON document that it stands for."""
    kind = column.spec.kind
    if text is None or (kind == "string" and not column.spec.is_list):
        return text
    if column.spec.is_list:
        return parse_text(text)
    if kind == "boolean":
        return True if text in TRUE_TEXTS else False if text in FALSE_TEXTS else text
    if JSON_NUMBER.fullmatch(text):
        return NumberText(text)
    if NOT_FINITE.fullmatch(text):
        raise RefusedRecordError(RecordFault("bad_number", shown(text), "a finite number", column.name))
    return text


def _malformed(sentence: str) -> RefusedRecordError:
    return RefusedRecordError(RecordFault("malformed_csv", sentence))


@kernel
def scan_rows(buf: U8, starts: I64, ends: I64, plan: I32, required: Any, values: I64, flags: U8, status: U8) -> None:
    """Read each line [starts, ends) into its row; what it doubts is for ``parse_csv_record``."""
    for row in range(len(starts)):
        end = ends[row]
        if end > starts[row] and buf[end - 1] == 13:
            end -= 1
        if skip_space(buf, starts[row], end) >= end:
            status[row] = BLANK
            continue
        status[row] = scan_row(buf, starts[row], end, row, plan, values, flags)
        for column in range(len(required)):
            if required[column] and flags[column, row] < VALUE:
                status[row] = SLOW


@part
def scan_row(buf: U8, p: int, end: int, row: int, plan: I32, values: I64, flags: U8) -> int:
    """Read the record in [p, end) into row ``row``; GOOD or SLOW."""
    if p + 3 <= end and buf[p] == 0xEF and buf[p + 1] == 0xBB and buf[p + 2] == 0xBF:
        return SLOW
    for place in range(len(plan)):
        quoted = p < end and buf[p] == QUOTE
        first = p + 1 if quoted else p
        stop = field_end(buf, first, end, quoted)
        if stop < 0:
            return SLOW
        column = plan[place, TARGET]
        if column >= 0:
            if flags[column, row] != ABSENT:
                return SLOW
            if stop == first and not quoted:
                flags[column, row] = NULL
            else:
                good, value, flag = field_cell(buf, first, stop, plan[place, KIND], plan[place, UNIT])
                values[column, row] = value
                flags[column, row] = flag
                if not good:
                    return SLOW
        p = stop + 1 if quoted else stop
        if place == len(plan) - 1:
            return GOOD if p == end else SLOW
        if p >= end or buf[p] != COMMA:
            return SLOW
        p += 1
    return SLOW


@part
def field_end(buf: U8, p: int, end: int, quoted: bool) -> int:
    """The place behind the text of a field that starts at ``p``; DOUBT where it has quotes in it or is not UTF-8."""
    stop = QUOTE if quoted else COMMA
    while p < end and buf[p] != stop:
        p = p + 1 if buf[p] < 128 else utf8_step(buf, p, end)
        if p < 0:
            return DOUBT
    if quoted and (p >= end or (p + 1 < end and buf[p + 1] == QUOTE)):
        return DOUBT
    return p


@part
def field_cell(buf: U8, p: int, stop: int, kind: int, unit: int) -> tuple[bool, Any, int]:
    """(whether the text in [p, stop) is a value of the kind, what its cell holds, the cell's flag)."""
    if kind == STRING:
        return True, (p << 32) | (stop - p), VALUE
    if p >= stop:
        return False, 0, VALUE
    if kind == BOOLEAN:
        return boolean_text(buf, p, stop) >= 0, boolean_text(buf, p, stop), VALUE
    if kind in (TIME_TEXT, TIME_ANY):
        stamp = rfc3339_ms(buf, p, stop)
        if stamp != NOT_A_TIME or kind == TIME_TEXT:
            return stamp != NOT_A_TIME, stamp, VALUE
    if buf[p] != MINUS and not ZERO <= buf[p] <= NINE:
        return False, 0, VALUE
    if kind in (TIME_NUMBER, TIME_ANY):
        past, stamp, flag = read_time(buf, p, stop, kind, unit)
        return past == stop, stamp, flag
    past, what, whole, real = read_number(buf, p, stop)
    if kind == INTEGER:
        return past == stop and what == NUMBER_INTEGER, whole, VALUE
    if kind != NUMBER or past != stop or what == NUMBER_DOUBT:
        return False, 0, VALUE
    if what == NUMBER_HARD:
        return True, (p << 32) | (stop - p), HARD
    # Adding zero turns -0.0 into 0.0, so that equal numbers have equal bits.
    return True, np.float64(real + 0.0).view(np.int64), VALUE


@part
def boolean_text(buf: U8, p: int, stop: int) -> int:
    """1 for true, True, TRUE; 0 for false, False, FALSE; else DOUBT."""
    size = stop - p
    if size not in (4, 5):
        return DOUBT
    word = TRUE_BYTES if size == 4 else FALSE_BYTES
    for form in range(3):
        same = True
        for k in range(size):
            same = same and buf[p + k] == word[form, k]
        if same:
            return 1 if size == 4 else 0
    return DOUBT


def _bytes_of(texts: tuple[str, ...]) -> U8:
    return np.array([list(text.ljust(5).encode()) for text in texts], np.uint8)


TRUE_BYTES, FALSE_BYTES = _bytes_of(TRUE_TEXTS), _bytes_of(FALSE_TEXTS)
