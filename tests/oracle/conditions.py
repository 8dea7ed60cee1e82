"""Conditions of a rule, walked one record at a time."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

Lists = Mapping[str, Collection[Any]]

ORDERINGS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}

COMPARISONS: dict[str, Callable[[Any, Any], object]] = {
    **ORDERINGS,
    "in": lambda value, wanted: value in wanted,
    "not_in": lambda value, wanted: value not in wanted,
    "contains": lambda value, wanted: wanted in value,
    "starts_with": lambda value, wanted: value.startswith(wanted),
    "ends_with": lambda value, wanted: value.endswith(wanted),
    "regex": lambda value, wanted: re.search(wanted, value),
    "between": lambda value, wanted: wanted[0] <= value <= wanted[1],
}


def field_value(record: Mapping[str, Any], name: str) -> Any:
    """The value of a field, written dotted in the record or nested in it; None where it is missing or null."""
    if name in record:
        return record[name]
    value: Any = record
    for part in name.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return None
        value = value[part]
    return value


def holds(conditions: Any, record: Mapping[str, Any], lists: Lists) -> bool:
    """Whether a record passes: a list is AND, ``all``/``any``/``not`` nest, anything else is a leaf."""
    if conditions is None:
        return True
    if isinstance(conditions, list):
        return all(holds(part, record, lists) for part in conditions)
    if "all" in conditions:
        return all(holds(part, record, lists) for part in conditions["all"])
    if "any" in conditions:
        return any(holds(part, record, lists) for part in conditions["any"])
    if "not" in conditions:
        return not holds(conditions["not"], record, lists)
    return _leaf_holds(conditions, record, lists)


def _leaf_holds(leaf: Mapping[str, Any], record: Mapping[str, Any], lists: Lists) -> bool:
    value, name = field_value(record, leaf["field"]), leaf["operator"]
    if name == "exists":
        return value is not None
    if name == "missing":
        return value is None
    wanted = leaf["value"]
    if isinstance(wanted, Mapping):
        wanted = field_value(record, wanted["field"]) if "field" in wanted else lists[wanted["list"]]
    if value is None or wanted is None:
        return name in {"!=", "not_in"}
    return bool(COMPARISONS[name](value, wanted))
