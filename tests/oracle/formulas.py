"""The formulas of the strategies, each with what it means in plain Python: None is missing."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

Values = Mapping[str, Any]


def _above(left: Any, right: Any) -> bool:
    return left is not None and right is not None and left > right


def _reckoned(value: Any) -> Any:
    """What there is to reckon with: nothing missing, nothing infinite."""
    return None if value is None or not math.isfinite(value) else value


def _share(v: Values) -> float | None:
    above, below = _reckoned(v["f0"]), _reckoned(v["f1"])
    return _reckoned(above / below) if above is not None and below else None


def _inverse(v: Values) -> float | None:
    below = _reckoned(v["f0"])
    return _reckoned(1 / below) if below else None


def _least(v: Values) -> float | None:
    value = _reckoned(v["f0"])
    return None if value is None else min(float(value), 1.5)


def _of_both(v: Values) -> int | float | None:
    first, second = _reckoned(v["f0"]), _reckoned(v["f1"])
    return None if first is None or second is None else _reckoned(first - second)


WHENS: dict[str, Callable[[Values], bool]] = {
    "f0 >= 2": lambda v: v["f0"] is not None and v["f0"] >= 2,
    "f0 > f1": lambda v: _above(v["f0"], v["f1"]),
    "f0 / f1 > 0.5": lambda v: _above(_share(v), 0.5),
    "1 / f0 < 0.5 or missing(-f1)": lambda v: _above(0.5, _inverse(v)) or _reckoned(v["f1"]) is None,
    "not f0 > 1 or missing(amount)": lambda v: not _above(v["f0"], 1) or v["amount"] is None,
    'missing(f1) and kind in ("CSH", "été")': lambda v: v["f1"] is None and v["kind"] in {"CSH", "été"},
    "amount > f0 and f1 == f1": lambda v: _above(v["amount"], v["f0"]) and v["f1"] is not None,
    "flag == true or price < 0.3 and place.city != 'Rome'": lambda v: (
        v["flag"] is True or (_above(0.3, v["price"]) and v["place.city"] not in {None, "Rome"})
    ),
    "seen >= 3 and large / seen > 0.5": lambda v: v["seen"] >= 3 and v["large"] / v["seen"] > 0.5,  # docs/semantics.md
}
VALUES: dict[str, Callable[[Values], Any]] = {
    "f0": lambda v: v["f0"],
    "f0 - f1": _of_both,
    "large": lambda v: v["large"],
    "1 / f0": _inverse,
    "min(f0, 1.5)": _least,
    "coalesce(f1, 7.5)": lambda v: 7.5 if v["f1"] is None else float(v["f1"]),
}
DRAWN = [when for when in WHENS if "f0" in when or "f1" in when or "flag" in when]
DRAWN_VALUES = [value for value in VALUES if value != "large"]
# What an alert shows without a value: the left side of the first comparison, where that is a number.
FIRST: dict[str, Callable[[Values], Any]] = {
    "f0 >= 2": VALUES["f0"],
    "f0 > f1": VALUES["f0"],
    "f0 / f1 > 0.5": _share,
    "1 / f0 < 0.5 or missing(-f1)": _inverse,
    "not f0 > 1 or missing(amount)": VALUES["f0"],
    'missing(f1) and kind in ("CSH", "été")': lambda _: None,
    "amount > f0 and f1 == f1": lambda v: v["amount"],
    "flag == true or price < 0.3 and place.city != 'Rome'": lambda _: None,
}
FLOATS = ("price",)  # fields that are declared as numbers, not as integers
FIELDS = ("amount", "price", "kind", "flag", "place.city")
