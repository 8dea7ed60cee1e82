"""Figures of a run as people read them."""

from __future__ import annotations

from crossline.basics.times import rounded_duration

_SOURCES = {"objective": "objective", "setting": "limit", "alert": "alert above"}


def value_text(value: float, unit: str) -> str:
    """A value with its unit.

    >>> [value_text(*one) for one in ((212.4, "ms"), (5_000, "ms"), (0.0031, "share"), (2_004, "per_s"))]
    ['212 ms', '5 s', '0.31 %', '2,004']
    """
    if unit == "ms":
        return rounded_duration(value)
    if unit == "share":
        return f"{100 * value:.3g} %"
    return f"{value:,.0f}" if value >= 100 or float(value).is_integer() else f"{value:.2g}"


def limit_text(limit: float | None, source: str, unit: str) -> str:
    """The limit of a value, with its source; empty if there is none.

    >>> limit_text(5_000, "objective", "ms"), limit_text(None, "", "ms")
    ('objective 5 s', '')
    """
    return "" if limit is None else f"{_SOURCES[source]} {value_text(limit, unit)}"
