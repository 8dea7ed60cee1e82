"""Durations and instants as people write them, to and from whole milliseconds."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from functools import lru_cache

DURATION_FORM = "a duration such as 45s, 10 min, 200ms or 24h"
INSTANT_FORM = "an instant such as 2026-01-31T09:30:00Z, or epoch milliseconds"
YEAR_1_MS = -62_135_596_800_000
YEAR_10000_MS = 253_402_300_800_000
# Before and after every instant.
BEGINNING_MS = -(2**62)
FOREVER_MS = 2**62
_EARLIEST, _LATEST = "0001-01-01T00:00:00.000Z", "9999-12-31T23:59:59.999Z"
DURATION_MS_MAX = 100 * 365 * 86_400_000
# How far ingest times may go back, or partitions lag, unless a pipeline or a caller of ``detect`` sets it.
PARTITION_LAG_MS = 60_000

_UNIT_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_NAMES = {
    "ms": ("ms", "msec", "msecs", "milli", "millis", "millisecond", "milliseconds"),
    "s": ("s", "sec", "secs", "second", "seconds"),
    "m": ("m", "min", "mins", "minute", "minutes"),
    "h": ("h", "hr", "hrs", "hour", "hours"),
    "d": ("d", "day", "days"),
}
UNIT_MS_BY_NAME = {name: _UNIT_MS[unit] for unit, names in _NAMES.items() for name in names}

_PART = re.compile(r"\s*(\d{1,18}(?:\.\d{1,9})?)\s*([A-Za-z]+)", re.ASCII)
_INSTANT = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:[Zz]|[+-]\d\d:\d\d)", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_NAIVE = datetime(1970, 1, 1)  # noqa: DTZ001 - formatting appends the Z itself
_MILLISECOND = timedelta(milliseconds=1)


def parse_duration_ms(value: object, *, bare_seconds: bool = False) -> int:
    """``value`` in milliseconds: ``45s``, ``1h 30m``, ``2 min``; with ``bare_seconds`` also a plain number of seconds.

    Raises ValueError where the text is no duration, is not a whole number of milliseconds, or is longer than 100 years.
    """
    if bare_seconds and isinstance(value, int | float) and not isinstance(value, bool):
        return _whole_ms(_seconds_ms(value), str(value))
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not {DURATION_FORM}")  # noqa: TRY004 - pydantic reports ValueError
    total_ms, end = Fraction(0), 0
    while end < len(value.rstrip()):
        part = _PART.match(value, end)
        unit_ms = UNIT_MS_BY_NAME.get(part[2].lower()) if part else None
        if part is None or unit_ms is None:
            raise ValueError(f'"{value}" is not {DURATION_FORM}')
        total_ms += Fraction(part[1]) * unit_ms
        end = part.end()
    if end == 0:
        raise ValueError(f'"{value}" is not {DURATION_FORM}')
    return _whole_ms(total_ms, value)


def _seconds_ms(value: float) -> Fraction:
    try:
        # Through the shortest decimal, so that 0.1 means a tenth and not its nearest double.
        seconds = Fraction(str(value))
    except ValueError:
        raise ValueError(f"{value} is not {DURATION_FORM}") from None
    if seconds < 0:
        raise ValueError(f"{value} is negative: expected {DURATION_FORM}")
    return seconds * 1000


def _whole_ms(total_ms: Fraction, text: str) -> int:
    if total_ms.denominator != 1:
        raise ValueError(f'"{text}" is not a whole number of milliseconds')
    if total_ms > DURATION_MS_MAX:
        raise ValueError(f'"{text}" is longer than 100 years')
    return int(total_ms)


def format_duration(ms: int) -> str:
    """``ms`` as people read it: the largest unit that divides it and counts at least two of it (60 s, 10 min, 24 h)."""
    if ms < 0:
        return "-" + format_duration(-ms)
    for unit, name in (("d", "d"), ("h", "h"), ("m", "min")):
        if ms >= 2 * _UNIT_MS[unit] and ms % _UNIT_MS[unit] == 0:
            return f"{ms // _UNIT_MS[unit]} {name}"
    return f"{ms} ms" if ms % 1000 else f"{ms // 1000} s"


def rounded_duration(ms: float) -> str:
    """``ms`` to three digits in the unit that fits, for computed times: 93 days, 3.5 h, 1.5 s."""
    for unit, name, least in (("d", "days", 2), ("h", "h", 2), ("m", "min", 2), ("s", "s", 1)):
        if abs(ms) >= least * _UNIT_MS[unit]:
            count = ms / _UNIT_MS[unit]
            return f"{count:,.0f} {name}" if abs(count) >= 100 else f"{count:.3g} {name}"
    return f"{ms:.3g} ms"


def parse_instant_ms(value: object) -> int:
    """Epoch milliseconds of an RFC 3339 instant, or of whole epoch milliseconds; finer digits are cut off.

    Raises ValueError where it is neither, or where the text has no offset from UTC.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        if abs(value) >= 2**62:
            raise ValueError(f"{value} is out of range for epoch milliseconds")
        return value
    if not isinstance(value, str) or not _INSTANT.fullmatch(value.strip()):
        raise ValueError(f"{value!r} is not {INSTANT_FORM}")
    try:
        instant = datetime.fromisoformat(value.strip().upper())
        return (instant - _EPOCH) // _MILLISECOND
    except (ValueError, OverflowError) as error:
        raise ValueError(f'"{value}" is not {INSTANT_FORM}: {error}') from None


def format_instant(ms: int) -> str:
    """``ms`` of the epoch as RFC 3339 UTC with milliseconds; raises OverflowError outside the years 1 to 9999."""
    return (_EPOCH_NAIVE + timedelta(milliseconds=ms)).isoformat(timespec="milliseconds") + "Z"


@lru_cache(maxsize=16_384)
def _second(second: int) -> str:
    """``2026-01-01T09:30:05.``; raises OverflowError outside the years 1 to 9999."""
    return format_instant(second * 1000)[:20]


_MILLISECONDS = tuple(f"{ms:03d}Z" for ms in range(1000))


def instant_text(ms: int) -> str:
    """As ``format_instant``, at a fifth of its cost, since what is reported comes close together in time.

    What lies outside the years 1 to 9999 (the start of a long window on an old record) stops there.
    """
    try:
        return _second(ms // 1000) + _MILLISECONDS[ms % 1000]
    except OverflowError:
        return _EARLIEST if ms < 0 else _LATEST
