"""Whether a condition holds for one record: the naive twin of the column masks, plain enough to be seen to be right."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from crossline.basics.conditions.regex import finds
from crossline.basics.conditions.tree import AllOf, AnyOf, FieldRef, Leaf, ListRef, Node, Not, family

_ORDER: dict[str, Callable[[Any, Any], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}


def holds(condition: Node, record: Mapping[str, Any], lists: Mapping[str, Sequence[Any]] | None = None) -> bool:
    """Whether ``record`` (nested, or flat with dotted names) satisfies ``condition``."""
    match condition:
        case AllOf(parts):
            return all(holds(part, record, lists) for part in parts)
        case AnyOf(parts):
            return any(holds(part, record, lists) for part in parts)
        case Not(part):
            return not holds(part, record, lists)
        case Leaf():
            return _leaf(condition, record, lists or {})


def lookup(record: Mapping[str, Any], name: str) -> Any:
    """The value at the dotted ``name``; None where it is missing."""
    if name in record:
        return record[name]
    value: Any = record
    for step in name.split("."):
        value = value.get(step) if isinstance(value, Mapping) else None
    return value


def _leaf(leaf: Leaf, record: Mapping[str, Any], lists: Mapping[str, Sequence[Any]]) -> bool:
    left = lookup(record, leaf.field)
    right: Any = leaf.value
    if isinstance(right, FieldRef):
        right = lookup(record, right.name)
    elif isinstance(right, ListRef):
        right = lists[right.name]
    match leaf.operator:
        case "exists":
            return left is not None
        case "missing":
            return left is None
        case "!=":
            return not _equal(left, right)
        case "not_in":
            return not any(_equal(left, each) for each in right)
    return left is not None and right is not None and _positive(leaf.operator, left, right)


def _positive(name: str, left: Any, right: Any) -> bool:  # noqa: PLR0911 - a table
    match name:
        case "==":
            return _equal(left, right)
        case "in":
            return any(_equal(left, each) for each in right)
        case "between":
            return _ordered(">=", left, right[0]) and _ordered("<=", left, right[1])
        case "contains" if isinstance(left, list):
            return any(_equal(each, right) for each in left)
        case "contains":
            return isinstance(left, str) and isinstance(right, str) and right in left
        case "starts_with":
            return isinstance(left, str) and left.startswith(right)
        case "ends_with":
            return isinstance(left, str) and left.endswith(right)
        case "regex":
            return isinstance(left, str) and finds(right, left)
    return _ordered(name, left, right)


def _comparable(left: Any, right: Any) -> bool:
    scalars = isinstance(left, str | int | float) and isinstance(right, str | int | float)
    return scalars and family(left) == family(right)


def _equal(left: Any, right: Any) -> bool:
    return _comparable(left, right) and bool(left == right)


def _ordered(name: str, left: Any, right: Any) -> bool:
    return _comparable(left, right) and family(left) != "boolean" and _ORDER[name](left, right)
