"""The formulas of the strategies, each with what it means in plain Python: None is missing."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

Values = Mapping[str, Any]


def _above(left: Any, right: Any) -> bool:
    return left is not None and right is not None and left > right


def _share(v: Values) -> float | None:
    share = v["f0"] / v["f1"] if v["f0"] is not None and v["f1"] else None
    return share if share is None or math.isfinite(share) else None


def _of_both(v: Values) -> int | float | None:
    less = None if v["f0"] is None or v["f1"] is None else v["f0"] - v["f1"]
    return less if less is None or math.isfinite(less) else None


WHENS: dict[str, Callable[[Values], bool]] = {
    "f0 >= 2": lambda v: v["f0"] is not None and v["f0"] >= 2,
    "f0 > f1": lambda v: _above(v["f0"], v["f1"]),
    "f0 / f1 > 0.5": lambda v: _above(_share(v), 0.5),
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
    "coalesce(f1, 7.5)": lambda v: 7.5 if v["f1"] is None else float(v["f1"]),
}
DRAWN = [when for when in WHENS if "f0" in when or "f1" in when or "flag" in when]
DRAWN_VALUES = [value for value in VALUES if value != "large"]
# What an alert shows without a value: the left side of the first comparison, where that is a number.
FIRST: dict[str, Callable[[Values], Any]] = {
    "f0 >= 2": VALUES["f0"],
    "f0 > f1": VALUES["f0"],
    "f0 / f1 > 0.5": _share,
    "not f0 > 1 or missing(amount)": VALUES["f0"],
    'missing(f1) and kind in ("CSH", "été")': lambda _: None,
    "amount > f0 and f1 == f1": lambda v: v["amount"],
    "flag == true or price < 0.3 and place.city != 'Rome'": lambda _: None,
}
FLOATS = ("price",)  # fields that are declared as numbers, not as integers
FIELDS = ("amount", "price", "kind", "flag", "place.city")
