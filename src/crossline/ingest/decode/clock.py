"""Times as records write them, turned into epoch milliseconds (always rounded down), and the range that is believed."""

# ruff: noqa: PLR0911 - kernels are flat: many plain arguments, and a way out at each doubt

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from crossline.basics.values import F64, I32, I64, U8
from crossline.ingest.decode.jit import kernel, part
from crossline.ingest.decode.json_numbers import DOT, MINUS, NINE, PLUS, ZERO
from crossline.ingest.decode.json_scan import COLON

# Units in the order of their codes: what one of them is in nanoseconds.
UNIT_CODES = {"ms": 0, "s": 1, "us": 2, "ns": 3}
NANOS = np.array([1_000_000, 1_000_000_000, 1_000, 1], np.int64)
MS_NANOS = 1_000_000

# What an event or ingest time may be: 1970-01-01 up to, not including, 2200-01-01.
TIME_MS_MIN = 0
TIME_MS_END = 7_258_118_400_000
# What any other timestamp may be: years 1 to 9999.
STAMP_MS_MIN = -62_135_596_800_000
STAMP_MS_MAX = 253_402_300_799_999
NOT_A_TIME = np.iinfo(np.int64).min


@kernel
def whole_to_ms(value: int, unit: int) -> Any:
    """A whole number of units as epoch ms, or NOT_A_TIME where that is outside years 1 to 9999."""
    nanos: Any = NANOS[unit]
    if nanos > MS_NANOS:
        factor = nanos // MS_NANOS
        if value > STAMP_MS_MAX // factor or value < STAMP_MS_MIN // factor:
            return NOT_A_TIME
        return value * factor
    ms = value // (MS_NANOS // nanos)
    return ms if STAMP_MS_MIN <= ms <= STAMP_MS_MAX else NOT_A_TIME


@kernel
def real_to_ms(value: float, unit: int) -> Any:
    """A number of units as epoch ms: to the nearest microsecond first, as 0.123 s in binary lies just below 123 ms."""
    micros: Any = np.rint(value * (NANOS[unit] / 1_000))
    if not (STAMP_MS_MIN * 1_000.0 <= micros < (STAMP_MS_MAX + 1) * 1_000.0):
        return NOT_A_TIME
    whole: Any = np.int64(micros)
    return whole // 1_000


@part
def digits(buf: U8, p: int, size: int) -> Any:
    """The number of ``size`` digits at ``p``, or a negative one where another byte stands among them."""
    value: Any = 0
    for k in range(p, p + size):
        if buf[k] < ZERO or buf[k] > NINE:
            return -1_000_000
        value = value * 10 + (np.int64(buf[k]) - ZERO)
    return value


@part
def days_from_civil(year: int, month: int, day: int) -> int:
    """Days from 1970-01-01 to a date of the proleptic Gregorian calendar (Hinnant's algorithm)."""
    year -= month <= 2
    era = year // 400
    of_era = year - era * 400
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468


@part
def read_offset(buf: U8, p: int, end: int) -> Any:
    """Minutes east of UTC that ``Z`` or ``+hh:mm`` at ``p`` means at the end of the text; else NOT_A_TIME."""
    if p + 1 == end and buf[p] in (90, 122):
        return 0
    if p + 6 != end or (buf[p] != PLUS and buf[p] != MINUS) or buf[p + 3] != COLON:
        return NOT_A_TIME
    hours, minutes = digits(buf, p + 1, 2), digits(buf, p + 4, 2)
    if hours < 0 or hours > 23 or minutes < 0 or minutes > 59:
        return NOT_A_TIME
    east = hours * 60 + minutes
    return -east if buf[p] == MINUS else east


@kernel
def rfc3339_ms(buf: U8, p: int, end: int) -> Any:
    """The instant that an RFC 3339 text writes, as epoch ms; NOT_A_TIME for any other text.

    The offset from UTC is required: without it the text names no instant. Leap seconds (:60) are not known.
    """
    if end - p < 20 or buf[p + 4] != MINUS or buf[p + 7] != MINUS or buf[p + 13] != COLON or buf[p + 16] != COLON:
        return NOT_A_TIME
    if buf[p + 10] not in (84, 116, 32):
        return NOT_A_TIME
    year, month, day = digits(buf, p, 4), digits(buf, p + 5, 2), digits(buf, p + 8, 2)
    hour, minute, second = digits(buf, p + 11, 2), digits(buf, p + 14, 2), digits(buf, p + 17, 2)
    if year < 1 or month < 1 or month > 12 or day < 1 or hour < 0 or minute < 0 or second < 0:
        return NOT_A_TIME
    next_month = days_from_civil(year + month // 12, month % 12 + 1, 1)
    date = days_from_civil(year, month, day)
    if date >= next_month or hour > 23 or minute > 59 or second > 59:
        return NOT_A_TIME
    p += 19
    ms: Any = 0
    if buf[p] == DOT:
        p += 1
        first = p
        while p < end and ZERO <= buf[p] <= NINE:
            if p < first + 3:
                ms = ms * 10 + (np.int64(buf[p]) - ZERO)
            p += 1
        if p == first:
            return NOT_A_TIME
        for _ in range(p, first + 3):
            ms *= 10
    east = read_offset(buf, p, end)
    if east == NOT_A_TIME:
        return NOT_A_TIME
    stamp = (((date * 24 + hour) * 60 + minute - east) * 60 + second) * 1_000 + ms
    return stamp if STAMP_MS_MIN <= stamp <= STAMP_MS_MAX else NOT_A_TIME


def whole_column_ms(values: I64, unit: int) -> I64:
    """``whole_to_ms`` of each."""
    out = np.empty(len(values), np.int64)
    put_whole_ms(values, unit, out)
    return out


def real_column_ms(values: F64, unit: int) -> I64:
    """``real_to_ms`` of each; NaN and infinities are NOT_A_TIME."""
    out = np.empty(len(values), np.int64)
    put_real_ms(values, unit, out)
    return out


@kernel
def put_whole_ms(values: I64, unit: int, out: I64) -> None:
    """``whole_to_ms`` of each, into ``out``."""
    for row in range(len(values)):
        out[row] = whole_to_ms(values[row], unit)


@kernel
def put_real_ms(values: F64, unit: int, out: I64) -> None:
    """``real_to_ms`` of each, into ``out``."""
    for row in range(len(values)):
        out[row] = real_to_ms(values[row], unit)


def in_range(stamps: I64) -> npt.NDArray[np.bool_]:
    """Which are believable event and ingest times."""
    return np.asarray((stamps >= TIME_MS_MIN) & (stamps < TIME_MS_END))


@kernel
def text_column_ms(buf: U8, bounds: I32, stamps: I64) -> None:
    """``rfc3339_ms`` of each text [bounds[k], bounds[k + 1])."""
    for row in range(len(stamps)):
        stamps[row] = rfc3339_ms(buf, bounds[row], bounds[row + 1])
