"""Alerts as JSON text and back, exact: a sum of integers may be beyond 64 bits, and a sum of floats infinite.

JSON has integers of any size, so such a sum stands there with all its digits; it has no infinity, which stands there as
the text ``Infinity`` or ``-Infinity``. The quick reader and writer know 64 bits, so what goes beyond takes another way.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

import orjson

WORD = 2**63  # integers from here on are floats to the quick reader


def json_bytes(value: Any) -> bytes:
    """``value``, of JSON's types and with integers of any size, as compact JSON.

    Raises:
        TypeError: a value that JSON does not have.
    """
    try:
        return orjson.dumps(value)
    except TypeError:
        return orjson.dumps(_with_digits(value))


def _with_digits(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _with_digits(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_with_digits(item) for item in value]
    if isinstance(value, int) and not -WORD <= value < 2 * WORD:
        return orjson.Fragment(str(value))
    return value


_BETWEEN = b",\n"  # a line break stands in no text of JSON


def alerts_text(alerts: Iterable[Mapping[str, Any]]) -> bytes:
    """A list of alerts as JSON, a line each: ``alert_lines`` takes it apart without reading it."""
    return b"[" + _BETWEEN.join(map(json_bytes, alerts)) + b"]"


def alert_lines(raw: bytes) -> list[bytes]:
    """The alerts in what ``alerts_text`` wrote, each as JSON."""
    return raw[1:-1].split(_BETWEEN) if len(raw) > 2 else []


def read_alert(raw: bytes | str) -> dict[str, Any]:
    """The alert in ``raw``, which ``json_bytes`` wrote."""
    alert: dict[str, Any] = orjson.loads(raw)
    return json.loads(raw) if is_cut(alert) else alert


def read_alerts(raw: bytes | str) -> list[dict[str, Any]]:
    """The list of alerts in ``raw``."""
    alerts: list[dict[str, Any]] = orjson.loads(raw)
    return json.loads(raw) if any(is_cut(alert) for alert in alerts) else alerts


def is_cut(alert: Mapping[str, Any]) -> bool:
    """Whether a figure of an alert that the quick reader read may have been a longer integer.

    Figures are the only numbers of an alert that may be so large.
    """
    for name in ("value", "value_before"):
        value = alert.get(name)
        if isinstance(value, float) and abs(value) >= WORD:
            return True
    figures = (alert.get("evidence") or {}).get("figures")
    if not figures:  # mostly so
        return False
    read = (figure["value"] for figure in figures.values() if isinstance(figure, Mapping) and "value" in figure)
    return any(isinstance(value, float) and abs(value) >= WORD for value in read)


def json_value(value: float | None) -> float | str | None:
    """A figure as it stands in an alert."""
    if isinstance(value, float) and math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value


def read_quickly(value: Any) -> Any:
    """A figure of an alert as the quick reader reads it: an integer beyond 64 bits is the float nearest to it.

    >>> read_quickly(3), read_quickly(2**64)
    (3, 1.8446744073709552e+19)
    """
    whole = isinstance(value, int) and not isinstance(value, bool)
    return float(value) if whole and not -WORD <= value < 2 * WORD else value


def number_of(value: float | str | None) -> float | None:
    """The figure of an alert as an integer of 64 bits or a float, for places that hold no other."""
    if isinstance(value, str) or (isinstance(value, int) and not -WORD <= value < WORD):
        return float(value)
    return value
