"""Conditions of a rule, walked one record at a time."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

# Each content of a list as published: from when it holds, and its values, each with its end (None: it has none).
Contents = Sequence[tuple[float, Sequence[tuple[Any, float | None]]]]


@dataclass(frozen=True)
class Timed:
    """A list with times: the last published of the contents whose time has come, without what has ended."""

    contents: Contents

    def at(self, ingest_ms: float) -> list[Any]:
        found: Sequence[tuple[Any, float | None]] = ()
        for from_ms, values in self.contents:
            if from_ms <= ingest_ms:
                found = values
        return [value for value, until_ms in found if until_ms is None or ingest_ms < until_ms]


Lists = Mapping[str, Collection[Any] | Timed]


def lists_at(lists: Lists, ingest_ms: float) -> dict[str, Collection[Any]]:
    """What stands in each list for a record of that ingest time."""
    return {name: each.at(ingest_ms) if isinstance(each, Timed) else each for name, each in lists.items()}


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
    "in": lambda value, wanted: any(_same(value, each) for each in wanted),
    "not_in": lambda value, wanted: not any(_same(value, each) for each in wanted),
    "contains": lambda value, wanted: wanted in value,
    "starts_with": lambda value, wanted: value.startswith(wanted),
    "ends_with": lambda value, wanted: value.endswith(wanted),
    "regex": lambda value, wanted: re.search(wanted, value),
    "between": lambda value, wanted: wanted[0] <= value <= wanted[1],
}


def _same(value: Any, other: Any) -> bool:
    """True is not 1."""
    return isinstance(value, bool) == isinstance(other, bool) and bool(value == other)


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
