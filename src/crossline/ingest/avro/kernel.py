"""The kernel that takes the steps of a program for records of Avro; whatever it doubts goes the slow path."""

# ruff: noqa: PLR0911 - kernels are flat: many plain arguments, and a way out at each doubt

from __future__ import annotations

from typing import Any

import numpy as np

from crossline.basics.values import I64, U8
from crossline.ingest.avro.program import (
    BOOL,
    BRANCH,
    BYTES,
    DATE,
    DECIMAL,
    DOUBLE,
    DOUBTFUL,
    EMPTY,
    ENUM,
    FIXED,
    FLOAT,
    INT,
    JUMP,
    POWER_MAX,
    REAL,
    SCALED,
    STAMP,
    STOP,
    TEXT,
    TEXT_STAMP,
)
from crossline.ingest.decode.cells import EXTRA
from crossline.ingest.decode.clock import NOT_A_TIME, rfc3339_ms, whole_to_ms
from crossline.ingest.decode.jit import WORD_BYTES, eight_bytes, kernel, part
from crossline.ingest.decode.json_numbers import DOUBT, HIGHS
from crossline.ingest.decode.json_scan import utf8_step
from crossline.ingest.decode.record import GOOD, SLOW, VALUE

POWERS = np.array([10.0**power for power in range(POWER_MAX + 1)])
DECIMAL_BYTES_MAX = 7
DIGITS_END = 10**15  # whole numbers below it, divided by a power of ten, can be read again from the double
INT_END = 1 << 31
LONG_MAX = (1 << 63) - 1


@part
def read_long(buf: U8, p: int, end: int) -> tuple[int, Any]:
    """(past the number at ``p``, the number); DOUBT where there is none of 64 bits."""
    bits: Any = np.uint64(0)
    shift: Any = np.uint64(0)
    while p < end:
        byte: Any = np.uint64(buf[p])
        p += 1
        if shift == np.uint64(63) and byte > np.uint64(1):
            return DOUBT, 0
        bits |= (byte & np.uint64(0x7F)) << shift
        if byte < np.uint64(0x80):
            return p, np.int64(bits >> np.uint64(1)) ^ -np.int64(bits & np.uint64(1))
        shift += np.uint64(7)
    return DOUBT, 0


@part
def past_text(buf: U8, p: int, end: int) -> int:
    """``end`` where [p, end) is UTF-8, else DOUBT."""
    while p < end:
        if p + WORD_BYTES <= end and eight_bytes(buf, p) & HIGHS == 0:
            p += WORD_BYTES
        elif buf[p] < 0x80:
            p += 1
        else:
            p = utf8_step(buf, p, end)
            if p < 0:
                return DOUBT
    return end


@part
def read_number(buf: U8, p: int, end: int, kind: int, a: int, b: int) -> tuple[int, Any]:
    """(past the value at ``p``, what its cell holds) of a step whose value begins with a number; or DOUBT."""
    p, number = read_long(buf, p, end)
    if p < 0 or ((kind in (INT, DATE) or (kind == REAL and a == 1)) and not -INT_END <= number < INT_END):
        return DOUBT, 0
    if kind == REAL:
        return p, np.float64(number).view(np.int64)
    if kind == STAMP:
        stamp = whole_to_ms(number, a)
        return (p if stamp != NOT_A_TIME else DOUBT), stamp
    if kind == DATE:
        stamp = whole_to_ms(number * b, a)
        return (p if stamp != NOT_A_TIME else DOUBT), stamp
    if kind == SCALED and a > b:
        factor = a // b
        if number > LONG_MAX // factor or number < -(LONG_MAX // factor):
            return DOUBT, 0
        return p, number * factor
    if kind == SCALED:
        return p, number // (b // a)
    return p, number


@part
def read_real(buf: U8, p: int, end: int, kind: int) -> tuple[int, Any]:
    """(past the double or float at ``p``, its bits as a double); DOUBT where it is not finite."""
    real: Any = 0.0
    if kind == DOUBLE:
        if p + 8 > end:
            return DOUBT, 0
        real = np.uint64(eight_bytes(buf, p)).view(np.float64)
        p += 8
    else:
        if p + 4 > end:
            return DOUBT, 0
        bits: Any = np.uint32(0)
        for k in range(4):
            bits = np.uint32(bits | (np.uint32(buf[p + k]) << np.uint32(8 * k)))
        real = np.float64(np.uint32(bits).view(np.float32))
        p += 4
    if not np.isfinite(real):
        return DOUBT, 0
    # Adding zero turns -0.0 into 0.0, so that equal numbers have equal bits.
    return p, np.float64(real + 0.0).view(np.int64)


@part
def read_decimal(buf: U8, p: int, end: int, size: int, scale: int) -> tuple[int, Any]:
    """(past the decimal at ``p``, the bits of its double); DOUBT where it has more digits than are surely held."""
    if size < 0:
        p, size = read_long(buf, p, end)
    if p < 0 or size < 1 or size > DECIMAL_BYTES_MAX or p + size > end:
        return DOUBT, 0
    number: Any = np.int64(buf[p])
    if number >= 0x80:
        number -= 0x100
    for k in range(1, size):
        number = (number << 8) | np.int64(buf[p + k])
    if not -DIGITS_END < number < DIGITS_END:
        return DOUBT, 0
    return p + size, np.float64(number / POWERS[scale] + 0.0).view(np.int64)


@part
def read_cell(buf: U8, p: int, end: int, kind: int, a: int, b: int, ends: I64) -> tuple[int, Any, int]:
    """(past the value of a step, what its cell holds, the cell's flag), or DOUBT."""
    if kind in (BYTES, TEXT, TEXT_STAMP):
        p, size = read_long(buf, p, end)
        if p < 0 or size < 0 or size > end - p:
            return DOUBT, 0, VALUE
        if kind == TEXT_STAMP:
            stamp = rfc3339_ms(buf, p, p + size)
            return (p + size if stamp != NOT_A_TIME else DOUBT), stamp, VALUE
        after = past_text(buf, p, p + size) if kind == TEXT else p + size
        return after, (p << 32) | size, VALUE
    if kind == FIXED:
        return (p + a if a <= end - p else DOUBT), 0, VALUE
    if kind == BOOL:
        if p >= end or buf[p] > 1:
            return DOUBT, 0, VALUE
        return p + 1, np.int64(buf[p]), VALUE
    if kind == ENUM:
        p, number = read_long(buf, p, end)
        if p < 0 or number < 0 or number >= a:
            return DOUBT, 0, VALUE
        if b < 0:
            return p, 0, VALUE
        return p, (ends[b + number] << 32) | (ends[b + number + 1] - ends[b + number]), EXTRA
    if kind == EMPTY:
        p, number = read_long(buf, p, end)
        return (p if number == 0 else DOUBT), 0, VALUE
    if kind in (DOUBLE, FLOAT):
        p, bits = read_real(buf, p, end, kind)
        return p, bits, VALUE
    if kind == DECIMAL:
        p, bits = read_decimal(buf, p, end, a, b)
        return p, bits, VALUE
    p, cell = read_number(buf, p, end, kind, a, b)
    return p, cell, VALUE


@part
def scan_value(buf: U8, p: int, end: int, row: int, steps: I64, ends: I64, values: I64, flags: U8, required: U8) -> int:
    """Take the steps over the record in [p, end) into row ``row``; what became of it."""
    step: Any = 0
    while True:
        kind, target, a, b = steps[step, 0], steps[step, 1], steps[step, 2], steps[step, 3]
        if kind == STOP:
            break
        if kind == DOUBTFUL:
            return SLOW
        if kind == JUMP:
            step = a
            continue
        if kind == BRANCH:
            p, number = read_long(buf, p, end)
            if p < 0 or number < 0 or number >= a:
                return SLOW
            step = steps[step + 1 + number, 2]
            continue
        p, cell, flag = read_cell(buf, p, end, kind, a, b, ends)
        if p < 0:
            return SLOW
        if target >= 0:
            values[target, row] = cell
            flags[target, row] = flag
        step += 1
    if p != end:
        return SLOW
    for column in range(len(required)):
        if required[column] and flags[column, row] < VALUE:
            return SLOW
    return GOOD


@kernel
def scan_values(
    buf: U8,
    starts: I64,
    stops: I64,
    rows: I64,
    steps: I64,
    ends: I64,
    values: I64,
    flags: U8,
    required: U8,
    status: U8,
) -> None:
    """``scan_value`` of each of the rows, whose records are [starts, stops)."""
    for row in rows:
        status[row] = scan_value(buf, starts[row], stops[row], row, steps, ends, values, flags, required)
