"""Conditions compiled to column masks: every distinct node of a rule set's conditions is computed once per batch."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from crossline.core.conditions.tree import (
    ORDERING,
    AllOf,
    AnyOf,
    Family,
    FieldRef,
    Leaf,
    ListRef,
    Literal,
    Node,
    Not,
    family,
    literal,
    node_fields,
)

Mask = npt.NDArray[np.bool_]
Fields = Mapping[str, Any]  # dotted name -> pa.Array
Lists = Mapping[str, Sequence[Any]]
_Column = Callable[[Any, int], Mask]
_Step = Callable[[Fields, int, list[Mask]], Mask]

_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "==": pc.equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
    "<": pc.less,
    "<=": pc.less_equal,
}
_TEXT: dict[str, Callable[[Any, str], Any]] = {
    "contains": pc.match_substring,
    "starts_with": pc.starts_with,
    "ends_with": pc.ends_with,
    "regex": pc.match_substring_regex,
}


class MaskProgram:
    """Masks of several conditions over one batch. Immutable; ``fields`` are the names of the columns it reads."""

    def __init__(self, conditions: Sequence[Node], lists: Lists | None = None) -> None:
        self.fields = frozenset(name for condition in conditions for name in node_fields(condition))
        self._nodes: list[_Step] = []
        self._numbers: dict[Node, int] = {}
        self._lists = lists or {}
        self._results = [self._number(condition) for condition in conditions]

    def run(self, fields: Fields, rows: int) -> list[Mask]:
        """The mask of each condition, in their order; do not write to them. A column that is absent is all missing."""
        done: list[Mask] = []
        for node in self._nodes:
            done.append(node(fields, rows, done))
        return [done[number] for number in self._results]

    def _number(self, condition: Node) -> int:
        known = self._numbers.get(condition)
        if known is not None:
            return known
        node: _Step
        match condition:
            case Leaf():
                node = _leaf(condition, self._lists)
            case Not(part):
                node = _negation(self._number(part))
            case AllOf(parts):
                node = _join(np.logical_and, True, [self._number(part) for part in parts])
            case AnyOf(parts):
                node = _join(np.logical_or, False, [self._number(part) for part in parts])
        self._nodes.append(node)
        self._numbers[condition] = len(self._nodes) - 1
        return len(self._nodes) - 1


def compile_mask(condition: Node, lists: Lists | None = None) -> Callable[[Fields, int], Mask]:
    """A function of (columns by dotted name, number of rows) to the mask of the rows where ``condition`` holds."""
    program = MaskProgram([condition], lists)
    return lambda fields, rows: program.run(fields, rows)[0]


def _negation(part: int) -> _Step:
    return lambda _fields, _rows, done: np.logical_not(done[part])


def _join(ufunc: np.ufunc, start: bool, parts: list[int]) -> _Step:
    def join(_fields: Fields, rows: int, done: list[Mask]) -> Mask:
        mask = np.full(rows, start)
        for part in parts:
            ufunc(mask, done[part], out=mask)
        return mask

    return join


def _leaf(leaf: Leaf, lists: Lists) -> _Step:
    name, value = leaf.field, leaf.value
    negate = leaf.operator in {"!=", "not_in", "missing"}
    if isinstance(value, FieldRef):
        other, compare = value.name, _COMPARE["==" if negate else leaf.operator]
        ordering = leaf.operator in ORDERING

        def pair(fields: Fields, rows: int, _done: list[Mask]) -> Mask:
            mask = _compare_columns(compare, ordering, fields.get(name), fields.get(other), rows)
            return np.logical_not(mask) if negate else mask

        return pair
    judge = _judge(leaf, lists)

    def single(fields: Fields, rows: int, _done: list[Mask]) -> Mask:
        column = fields.get(name)
        mask = np.zeros(rows, dtype=np.bool_) if column is None else judge(column, rows)
        return np.logical_not(mask) if negate else mask

    return single


def _judge(leaf: Leaf, lists: Lists) -> _Column:
    """The leaf on its column, as if it were not negated: missing values are False."""
    value: Any = leaf.value
    match leaf.operator:
        case "exists" | "missing":
            return lambda column, _rows: _numpy(column.is_valid())
        case "in" | "not_in":
            return _membership(lists[value.name] if isinstance(value, ListRef) else value)
        case "between":
            low, high = _comparison(">=", value[0]), _comparison("<=", value[1])
            return lambda column, rows: np.logical_and(low(column, rows), high(column, rows))
        case "contains":
            return _containment(value)
        case "starts_with" | "ends_with" | "regex" as name:
            return _text(name, value)
        case name:
            return _comparison("==" if name == "!=" else name, value)


def _numpy(array: Any) -> Mask:
    """Arrow booleans as numpy's, null as False."""
    if array.null_count:
        array = pc.fill_null(array, False)
    mask: Mask = array.to_numpy(zero_copy_only=False)
    return mask


def _family(column: Any) -> Family | None:
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return "number"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return "string"
    return "boolean" if pa.types.is_boolean(kind) else None


def _never(rows: int) -> Mask:
    return np.zeros(rows, dtype=np.bool_)


def _comparison(name: str, value: Literal) -> _Column:
    wanted = family(value)
    if not isinstance(value, int | float) or isinstance(value, bool):

        def compare(column: Any, rows: int) -> Mask:
            return _numpy(_COMPARE[name](column, value)) if _family(column) == wanted else _never(rows)

        return compare
    on_whole, on_double = _whole_line(name, value), _double_line(name, value)

    def compare_number(column: Any, rows: int) -> Mask:
        if _family(column) != "number":
            return _never(rows)
        line = on_whole if pa.types.is_integer(column.type) else on_double
        if isinstance(line, bool):
            return _numpy(column.is_valid()) if line else _never(rows)
        return _numpy(_COMPARE[line[0]](column, pa.scalar(line[1], column.type)))

    return compare_number


def _whole_line(name: str, value: float) -> tuple[str, int] | bool:
    """The comparison of 64-bit integers that means exactly ``name value``; or always, or never."""
    if isinstance(value, int):
        return name, value
    if name == "==":
        return False
    upward = name in {">", ">="}
    if abs(value) >= 2**63:
        return upward == (value < 0)
    return (">=", math.ceil(value)) if upward else ("<=", math.floor(value))


def _double_line(name: str, value: float) -> tuple[str, float] | bool:
    """The comparison of doubles that means exactly ``name value``; or never, where the value is no double."""
    double = float(value)
    if double == value:
        return name, double
    if name == "==":
        return False
    # No double lies between the value and its nearest one, so the line moves there.
    if name in {">", ">="}:
        return (">=" if double > value else ">"), double
    return ("<" if double > value else "<="), double


def _compare_columns(compare: Callable[[Any, Any], Any], ordering: bool, left: Any, right: Any, rows: int) -> Mask:
    if left is None or right is None:
        return _never(rows)
    kind = _family(left)
    if kind is None or kind != _family(right) or (ordering and kind == "boolean"):
        return _never(rows)
    if kind == "number" and pa.types.is_integer(left.type) != pa.types.is_integer(right.type):
        left, right = (pc.cast(column, pa.float64(), safe=False) for column in (left, right))
    return _numpy(compare(left, right))


def _membership(members: Sequence[Any]) -> _Column:
    values = [each for each in map(literal, members) if each is not None]
    numbers = [each for each in values if isinstance(each, int | float) and not isinstance(each, bool)]
    texts: Any = pa.array([each for each in values if isinstance(each, str)], pa.string())
    flags: Any = pa.array([each for each in values if isinstance(each, bool)], pa.bool_())
    whole: Any = pa.array([each for each in numbers if isinstance(each, int)], pa.int64())
    doubles: Any = pa.array([float(each) for each in numbers if float(each) == each], pa.float64())
    by_family: dict[Family, Any] = {"string": texts, "boolean": flags, "number": doubles}

    def member(column: Any, rows: int) -> Mask:
        kind = _family(column)
        if kind is None:
            return _never(rows)
        known = whole if pa.types.is_integer(column.type) else by_family[kind]
        return _numpy(pc.is_in(column, value_set=known.cast(column.type)))

    return member


def _text(name: str, value: str) -> _Column:
    find = _TEXT[name]
    return lambda column, rows: _numpy(find(column, value)) if _family(column) == "string" else _never(rows)


def _containment(value: Literal) -> _Column:
    equal = _comparison("==", value)
    in_text = _text("contains", value) if isinstance(value, str) else None

    def contains(column: Any, rows: int) -> Mask:
        if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
            items = pc.list_flatten(column)
            mask = _never(rows)
            mask[pc.list_parent_indices(column).to_numpy()[equal(items, len(items))]] = True
            return mask
        return in_text(column, rows) if in_text else _never(rows)

    return contains
