"""Objectives as text, for a terminal and a page."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from math import floor
from typing import Any

NONE = "unknown"
SECOND_MS = 999.5  # from here on in seconds


def percent(share: float) -> str:
    """A share in percent, cut and not rounded: what is not kept must not look as if it were.

    >>> percent(0.99996), percent(1.0), percent(0.5), percent(0.9995)
    ('99.99 %', '100 %', '50 %', '99.95 %')
    """
    cut = floor(Fraction(str(share)) * 10_000)
    return f"{cut / 100:g} %" if cut % 100 else f"{cut // 100} %"


def share_text(window: Mapping[str, Any]) -> str:
    """How much was good in a window, and whether that keeps the promise.

    >>> share_text({"share": 0.9994, "kept": False})
    '99.94 %, missed'
    """
    share, kept = window["share"], window["kept"]
    if share is None:
        return "nothing counted" if window["known_minutes"] else NONE
    return f"{percent(share)}, {'not known' if kept is None else 'kept' if kept else 'missed'}"


def value_text(objective: Mapping[str, Any], window: Mapping[str, Any]) -> str:
    """The value at the percentile that is promised; empty where there is none.

    >>> value_text({"measure": "ms"}, {"value": 212.4}), value_text({"measure": "ms"}, {"value": 90_500.0})
    ('212 ms', '90.5 s')
    >>> value_text({"measure": "share"}, {"value": 0.0831}), value_text({"measure": "ms"}, {"value": None})
    ('8.31 %', '')
    """
    value = window["value"]
    if value is None or not objective["measure"]:
        return ""
    if objective["measure"] == "share":
        return f"{100 * value:.3g} %"
    return f"{value:.3g} ms" if value < SECOND_MS else f"{value / 1_000:,.3f}"[:-1].rstrip("0").rstrip(".") + " s"


def percentile_text(objective: Mapping[str, Any]) -> str:
    """What the value is of.

    >>> percentile_text({"target": 0.999})
    'p99.9'
    """
    return f"p{100 * objective['target']:g}"


def budget_text(window: Mapping[str, Any]) -> str:
    """What is left of a budget; overspending is shown as such."""
    left = window["budget_left"]
    if left is None:
        return NONE
    return percent(left) if left >= 0 else f"none, {percent(-left)} over"


def unknown_text(window: Mapping[str, Any]) -> str:
    """For how long nothing is known, in days, hours and minutes.

    >>> unknown_text({"unknown_minutes": 1_505})
    '1 d 1 h 5 min'
    """
    minutes = window["unknown_minutes"]
    parts = ((minutes // 1440, "d"), (minutes // 60 % 24, "h"), (minutes % 60, "min"))
    return " ".join(f"{count} {unit}" for count, unit in parts if count) or "0 min"


def burn_rate_text(objective: Mapping[str, Any]) -> str:
    """How fast the budget burns, where that is worth a word."""
    burning = objective["burning"]
    if burning:
        worst = burning[0]
        rate = f"{worst['long_burn_rate']:.3g} times as fast as it may, over {worst['long']}"
        return f"{worst['severity']}: burns {rate}"
    return "" if objective["used_up_at"] is None else f"used up {objective['used_up_at'][:16].replace('T', ' ')}"
