"""Conditions compiled to column masks: every distinct node of a rule set's conditions is computed once per batch."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crossline.basics.conditions.lists import Lists
from crossline.basics.conditions.membership import Mask, Members, as_mask, family_of
from crossline.basics.conditions.tree import (
    ORDERING,
    AllOf,
    AnyOf,
    FieldRef,
    Leaf,
    ListRef,
    Literal,
    Node,
    Not,
    family,
    node_fields,
)
from crossline.basics.times import FOREVER_MS
from crossline.basics.values import I64

Fields = Mapping[str, Any]  # dotted name -> pa.Array
_Column = Callable[[Any, int], Mask]
_Step = Callable[[Fields, int, I64 | None, list[Mask]], Mask]

_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "==": pc.equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
    "<": pc.less,
    "<=": pc.less_equal,
}
_COMPARE_NUMBERS: dict[str, Callable[[Any, Any], Any]] = {
    "==": np.equal,
    ">": np.greater,
    ">=": np.greater_equal,
    "<": np.less,
    "<=": np.less_equal,
}
_OF_64_BITS = (pa.int64(), pa.float64())
_TEXT: dict[str, Callable[[Any, str], Any]] = {
    "contains": pc.match_substring,
    "starts_with": pc.starts_with,
    "ends_with": pc.ends_with,
    "regex": pc.match_substring_regex,
}


@dataclass(frozen=True, slots=True)
class Turns:
    """Where and when the answers of a condition turn: of row ``rows[i]`` at ``instants_ms[i]``."""

    rows: I64
    instants_ms: I64


class MaskProgram:
    """Masks of several conditions over one batch. Immutable; ``fields`` are the names of the columns it reads.

    ``lists`` are read at the ingest times of ``stream``.
    """

    def __init__(self, conditions: Sequence[Node], lists: Lists | None = None, stream: str = "") -> None:
        self.fields = frozenset(name for condition in conditions for name in node_fields(condition))
        self._nodes: list[_Step] = []
        self._numbers: dict[Node, int] = {}
        self._members = {name: each.members(stream) for name, each in (lists or {}).items()}
        self._timed: list[tuple[str, Members]] = []  # fields, and the lists that they are looked for in
        self._results = [self._number(condition) for condition in conditions]

    def run(self, fields: Fields, rows: int, at_ms: I64 | None = None) -> list[Mask]:
        """The mask of each condition, in their order; do not write to them. A column that is absent is all missing.

        ``at_ms``: the ingest time of each row, needed where values of lists come and go.
        """
        done: list[Mask] = []
        for node in self._nodes:
            done.append(node(fields, rows, at_ms, done))
        return [done[number] for number in self._results]

    def turns(self, fields: Fields, rows: int, after_ms: I64) -> list[Turns]:
        """For each condition, where its mask at ``after_ms`` turns at a later ingest time, and when: in time order."""
        found: list[list[tuple[I64, I64]]] = [[] for _ in self._results]
        here, now_ms, known = np.arange(rows), after_ms, self.run(fields, rows, after_ms) if self._timed else []
        while len(here) and self._timed:
            soonest_ms = self._next_ms(fields, now_ms)
            go_on = np.flatnonzero(soonest_ms < FOREVER_MS)
            here, now_ms = here[go_on], soonest_ms[go_on]
            fields = {name: fields[name].take(pa.array(go_on)) for name in self.fields if fields.get(name) is not None}
            masks = self.run(fields, len(here), now_ms)
            for each, before, mask in zip(found, known, masks, strict=True):
                turned = np.flatnonzero(mask != before[go_on])
                each.append((here[turned], now_ms[turned]))
            known = masks
        return [_joined(each) for each in found]

    def _next_ms(self, fields: Fields, now_ms: I64) -> I64:
        soonest_ms: I64 = np.full(len(now_ms), FOREVER_MS, dtype=np.int64)
        for name, members in self._timed:
            if fields.get(name) is not None:
                np.minimum(soonest_ms, members.next_ms(fields[name], now_ms), out=soonest_ms)
        return soonest_ms

    def _number(self, condition: Node) -> int:
        known = self._numbers.get(condition)
        if known is not None:
            return known
        node: _Step
        match condition:
            case Leaf():
                node = self._leaf(condition)
            case Not(part):
                node = _negation(self._number(part))
            case AllOf(parts):
                node = _join(np.logical_and, np.ones, [self._number(part) for part in parts])
            case AnyOf(parts):
                node = _join(np.logical_or, np.zeros, [self._number(part) for part in parts])
        self._nodes.append(node)
        self._numbers[condition] = len(self._nodes) - 1
        return len(self._nodes) - 1

    def _leaf(self, leaf: Leaf) -> _Step:
        if not isinstance(leaf.value, ListRef):
            return _leaf(leaf)
        members = self._members[leaf.value.name]
        if members.timed:
            self._timed.append((leaf.field, members))
        return _listed(leaf, members)


def compile_mask(condition: Node, lists: Lists | None = None) -> Callable[[Fields, int], Mask]:
    """A function of (columns by dotted name, number of rows) to the mask of the rows where ``condition`` holds.

    Of lists whose values do not come and go.
    """
    program = MaskProgram([condition], lists)
    return lambda fields, rows: program.run(fields, rows)[0]


def _joined(turns: list[tuple[I64, I64]]) -> Turns:
    none: I64 = np.empty(0, dtype=np.int64)
    rows, instants_ms = zip(*turns, strict=True) if turns else ([none], [none])
    return Turns(np.concatenate(rows), np.concatenate(instants_ms))


def _negation(part: int) -> _Step:
    return lambda _fields, _rows, _at_ms, done: np.logical_not(done[part])


def _join(ufunc: np.ufunc, of_none: Callable[..., Mask], parts: list[int]) -> _Step:
    def join(_fields: Fields, rows: int, _at_ms: I64 | None, done: list[Mask]) -> Mask:
        mask = done[parts[0]] if parts else of_none(rows, np.bool_)
        for part in parts[1:]:
            mask = ufunc(mask, done[part])
        return mask

    return join


def _listed(leaf: Leaf, members: Members) -> _Step:
    name, negate = leaf.field, leaf.operator == "not_in"

    def listed(fields: Fields, rows: int, at_ms: I64 | None, _done: list[Mask]) -> Mask:
        column = fields.get(name)
        mask = _never(rows) if column is None else members.holds(column, rows, at_ms)
        return np.logical_not(mask) if negate else mask

    return listed


def _leaf(leaf: Leaf) -> _Step:
    name, value = leaf.field, leaf.value
    negate = leaf.operator in {"!=", "not_in", "missing"}
    if isinstance(value, FieldRef):
        other, compare = value.name, _COMPARE["==" if negate else leaf.operator]
        ordering = leaf.operator in ORDERING

        def pair(fields: Fields, rows: int, _at_ms: I64 | None, _done: list[Mask]) -> Mask:
            mask = _compare_columns(compare, ordering, fields.get(name), fields.get(other), rows)
            return np.logical_not(mask) if negate else mask

        return pair
    judge = _judge(leaf)

    def single(fields: Fields, rows: int, _at_ms: I64 | None, _done: list[Mask]) -> Mask:
        column = fields.get(name)
        mask = np.zeros(rows, dtype=np.bool_) if column is None else judge(column, rows)
        return np.logical_not(mask) if negate else mask

    return single


def _judge(leaf: Leaf) -> _Column:
    """The leaf on its column, as if it were not negated: missing values are False."""
    value: Any = leaf.value
    match leaf.operator:
        case "exists" | "missing":
            return lambda column, _rows: as_mask(column.is_valid())
        case "in" | "not_in":
            return _membership(value)
        case "between":
            low, high = _comparison(">=", value[0]), _comparison("<=", value[1])
            return lambda column, rows: np.logical_and(low(column, rows), high(column, rows))
        case "contains":
            return _containment(value)
        case "starts_with" | "ends_with" | "regex" as name:
            return _text(name, value)
        case name:
            return _comparison("==" if name == "!=" else name, value)


def _never(rows: int) -> Mask:
    return np.zeros(rows, dtype=np.bool_)


def _comparison(name: str, value: Literal) -> _Column:
    wanted = family(value)
    if not isinstance(value, int | float) or isinstance(value, bool):

        def compare(column: Any, rows: int) -> Mask:
            return as_mask(_COMPARE[name](column, value)) if family_of(column) == wanted else _never(rows)

        return compare
    on_whole, on_double = _whole_line(name, value), _double_line(name, value)

    def compare_number(column: Any, rows: int) -> Mask:
        if family_of(column) != "number":
            return _never(rows)
        line = on_whole if pa.types.is_integer(column.type) else on_double
        if isinstance(line, bool):
            return as_mask(column.is_valid()) if line else _never(rows)
        if not column.null_count and column.type in _OF_64_BITS:  # as they stand, without a bitmap
            return np.asarray(_COMPARE_NUMBERS[line[0]](column.to_numpy(), line[1]))
        return as_mask(_COMPARE[line[0]](column, pa.scalar(line[1], column.type)))

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
    kind = family_of(left)
    if kind is None or kind != family_of(right) or (ordering and kind == "boolean"):
        return _never(rows)
    if kind == "number" and pa.types.is_integer(left.type) != pa.types.is_integer(right.type):
        left, right = (pc.cast(column, pa.float64(), safe=False) for column in (left, right))
    return as_mask(compare(left, right))


def _membership(values: Sequence[Literal]) -> _Column:
    members = Members(values)
    return lambda column, rows: members.holds(column, rows, None)


def _text(name: str, value: str) -> _Column:
    find = _TEXT[name]
    return lambda column, rows: as_mask(find(column, value)) if family_of(column) == "string" else _never(rows)


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
