"""Formulas compiled to columns: every distinct part is computed once for all rows; branches are evaluated here."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crossline.basics.conditions.membership import Mask, as_mask
from crossline.basics.fields import FieldKind
from crossline.basics.formula.calls import DISTANCE, function_of, least_distance_km, operands_of
from crossline.basics.formula.formula import Formula
from crossline.basics.formula.tree import (
    Arithmetic,
    Call,
    Compare,
    ComparisonOperator,
    Constant,
    Join,
    Membership,
    Name,
    Negate,
    Node,
    Not,
    children,
)
from crossline.basics.formula.vectors import (
    I64_MAX,
    Vector,
    both,
    compare,
    compute,
    integers,
    negate,
    settled,
    texts,
    there,
)


class Zeroed(NamedTuple):
    """Numpy values that are zero where they are missing, and where they are not."""

    values: Any
    valid: Mask


# By name an Arrow array with nulls, or numpy values and where they are not missing (None: everywhere).
Column = Any | tuple[Any, Mask | None] | Zeroed
Inputs = Mapping[str, Column]
Result = tuple[Any, Mask]
_Step = Callable[[Inputs, int, "_Parts"], Vector]

_NOWHERE = Vector(np.zeros(1, dtype=np.bool_), None)

_TEXT: dict[str, Callable[[Any, Any], Any]] = {
    "==": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
_FURTHEST: dict[ComparisonOperator, Literal["min", "max"]] = {"<": "min", "<=": "min", ">": "max", ">=": "max"}
_HOLDS: dict[ComparisonOperator, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_DTYPES: dict[FieldKind, tuple[str, type[Any]]] = {
    "integer": ("iu", np.int64),
    "timestamp": ("iu", np.int64),
    "number": ("fiu", np.float64),
    "boolean": ("b", np.bool_),
}


class FormulaProgram:
    """Several formulas over one batch; what they share is computed once. Immutable; ``names``: the columns it reads.

    A part is computed when a formula asks for it: of what ``and`` joins, nothing behind a part that holds nowhere.
    """

    def __init__(self, formulas: Sequence[Formula]) -> None:
        self.names = tuple(dict.fromkeys(name for formula in formulas for name in formula.names))
        self._steps: list[_Step] = []
        self._parts: list[list[int]] = []
        self._numbers: dict[Node, int] = {}
        self._distance: list[int] = []  # the parts of the last distance, and itself: the next looks at it, too
        self._least_km = least_distance_km([formula.root for formula in formulas])
        self._results = [self._number(formula.root) for formula in formulas]
        self._over = self._done_with()

    def _done_with(self) -> list[list[int]]:
        """By result the parts that no later one reads: of many formulas, few parts are needed at once."""
        last = {part: number for number, parts in enumerate(self._parts) for part in parts}
        ends = np.maximum.accumulate(self._results) if self._results else np.zeros(0, dtype=np.int64)
        over: list[list[int]] = [[] for _ in self._results]
        for part in set(last) - set(self._results):
            over[int(np.searchsorted(ends, last[part]))].append(part)
        return over

    def run(self, columns: Inputs, rows: int) -> list[Result]:
        """Of each formula its values and where they are not missing, each of length ``rows``; do not write to them.

        Values are bool, int64 or float64, 0 or False where missing. A column that is absent is all missing.
        Raises TypeError where a column is not of the kind that its name was declared with.
        """
        with np.errstate(all="ignore"):
            return [_result(each, rows) for each in self._computed(columns, rows)]

    def truths(self, columns: Inputs, rows: int) -> list[Mask]:
        """Of each formula, all of them boolean, where it holds: one truth for each row, or a single one for all.

        As of ``run``, without a copy.
        """
        with np.errstate(all="ignore"):
            found = self._computed(columns, rows)
        return [each.values if each.valid is None else np.logical_and(each.values, each.valid) for each in found]

    def _computed(self, columns: Inputs, rows: int) -> list[Vector]:
        parts, found = _Parts(self._steps, columns, rows), []
        for result, over in zip(self._results, self._over, strict=True):
            found.append(parts[result])
            parts.forget(over)
        return found

    def _number(self, node: Node) -> int:
        known = self._numbers.get(node)
        if known is None:
            parts = [self._number(each) for each in _operands(node)]
            if isinstance(node, Call) and node.function == DISTANCE:
                parts, self._distance = [*parts, *self._distance], [*parts, len(self._steps)]
            self._steps.append(_step(node, parts, self._least_km))
            self._parts.append(parts)
            known = self._numbers[node] = len(self._steps) - 1
        return known


class _Parts:
    """The parts of a program over one batch, each computed when it is first asked for."""

    def __init__(self, steps: Sequence[_Step], columns: Inputs, rows: int) -> None:
        self._steps, self._columns, self._rows = steps, columns, rows
        self._done: dict[int, Vector] = {}
        self._furthest: dict[tuple[int, str], int | float] = {}

    def __getitem__(self, number: int) -> Vector:
        found = self._done.get(number)
        if found is None:
            found = self._done[number] = self._steps[number](self._columns, self._rows, self)
        return found

    def furthest(self, number: int, name: Literal["min", "max"]) -> int | float | None:
        """The least or greatest of a part's numbers, with a zero for those that are missing; None: there are none."""
        found = self._furthest.get((number, name))
        if found is None:
            values = self[number].values
            if not values.size:
                return None
            found = self._furthest[number, name] = getattr(values, name)()
            found = self._furthest[number, name] = found.item() if isinstance(found, np.generic) else found
        return found

    def forget(self, numbers: Sequence[int]) -> None:
        """Let go of parts that are not asked for again."""
        for number in numbers:
            self._done.pop(number, None)


def compile_formula(formula: Formula) -> Callable[[Inputs, int], Result]:
    """A function of (columns by name, number of rows) to the values of ``formula`` and where they are not missing."""
    program = FormulaProgram([formula])
    return lambda columns, rows: program.run(columns, rows)[0]


def _operands(node: Node) -> tuple[Node, ...]:
    """What is computed before ``node``."""
    match node:
        case Membership(operand):
            return (operand,)
        case Call(_, arguments):
            return arguments[: operands_of(node)]
    return children(node)


def _step(node: Node, parts: list[int], least_km: float) -> _Step:  # noqa: PLR0911 - a table
    match node:
        case Constant(value, kind):
            constant = _constant(value, kind)
            return lambda _columns, _rows, _done: constant
        case Name(name, kind):
            return lambda columns, rows, _done: _read(name, kind, columns.get(name), rows)
        case Negate():
            return lambda _columns, _rows, done: negate(done[parts[0]])
        case Not():
            return lambda _columns, _rows, done: Vector(np.logical_not(done[parts[0]].values), None)
        case Arithmetic(sign):
            return lambda _columns, _rows, done: compute(sign, done[parts[0]], done[parts[1]])
        case Join(word):
            return _all_of(parts) if word == "and" else _any_of(parts)
        case Compare(operands, operators):
            if operands[0].kind != "string" and len(parts) == 2 and isinstance(operands[1], Constant):
                return _against(operators[0], parts, operands[1].value)
            return _chain(_text_mask if operands[0].kind == "string" else compare, parts, operators)
        case Call():
            function = function_of(node, least_km)
            return lambda _columns, _rows, done: function([done[part] for part in parts])
        case Membership(operand, members, negated):
            return _membership(_members(operand.kind, [each.value for each in members]), parts[0], negated)
    assert_never(node)


def _all_of(parts: list[int]) -> _Step:
    def join(_columns: Inputs, _rows: int, done: _Parts) -> Vector:
        mask = done[parts[0]].values
        for part in parts[1:]:
            if mask is _NOWHERE.values or not np.count_nonzero(mask):
                return _NOWHERE
            mask = np.logical_and(mask, done[part].values)
        return Vector(mask, None)

    return join


def _any_of(parts: list[int]) -> _Step:
    def join(_columns: Inputs, _rows: int, done: _Parts) -> Vector:
        mask = _NOWHERE.values
        for part in parts:
            held = done[part].values
            if held is not _NOWHERE.values:
                mask = held if mask is _NOWHERE.values else np.logical_or(mask, held)
        return Vector(mask, None)

    return join


def _chain(holds: Callable[[str, Vector, Vector], Mask], parts: list[int], operators: Sequence[str]) -> _Step:
    links = list(zip(parts, operators, parts[1:], strict=False))

    def chain(_columns: Inputs, _rows: int, done: _Parts) -> Vector:
        first, *others = [holds(sign, done[left], done[right]) for left, sign, right in links]
        for each in others:
            first = np.logical_and(first, each)
        return Vector(first, None)

    return chain


def _against(sign: ComparisonOperator, parts: list[int], value: Any) -> _Step:
    """A comparison with a constant. Rules differ in these: one look at the greatest value answers most of them."""
    known, holds = _FURTHEST.get(sign), _HOLDS.get(sign)

    def against(_columns: Inputs, _rows: int, done: _Parts) -> Vector:
        left, right = parts
        if known is not None and holds is not None:
            furthest = done.furthest(left, known)
            if furthest is not None and not holds(furthest, value):
                return _NOWHERE
        return Vector(compare(sign, done[left], done[right]), None)

    return against


def _membership(stands: Callable[[Vector], Mask], operand: int, negated: bool) -> _Step:
    def look(_columns: Inputs, _rows: int, done: _Parts) -> Vector:
        found, valid = stands(done[operand]), done[operand].valid
        found = np.logical_not(found) if negated else found
        return Vector(found if valid is None else np.logical_and(found, valid), None)

    return look


def _text_mask(operator: str, left: Vector, right: Vector) -> Mask:
    return _truths(_TEXT[operator](left.values, right.values))


def _truths(found: Any) -> Mask:
    return np.array([bool(found.as_py())]) if isinstance(found, pa.Scalar) else as_mask(found)


def _members(kind: FieldKind, members: Sequence[Any]) -> Callable[[Vector], Mask]:
    """Which values are one of ``members``, whatever is missing."""
    if kind == "string":
        wanted = pa.array(members, pa.string())
        return lambda vector: _truths(pc.is_in(vector.values, value_set=wanted))
    exact = frozenset(members)
    whole = np.array([int(each) for each in exact if each == int(each) and -(2**63) <= each < 2**63], dtype=np.int64)
    doubles = np.array([float(each) for each in exact if float(each) == each], dtype=np.float64)

    def stands(vector: Vector) -> Mask:
        if vector.wide:
            found = [each in exact for each in vector.values.tolist()]
            return np.array(found, dtype=np.bool_)
        return np.isin(vector.values, whole if vector.values.dtype.kind == "i" else doubles)

    return stands


def _constant(value: Any, kind: FieldKind) -> Vector:
    if kind == "string":
        return Vector(pa.scalar(value, pa.string()), None)
    return Vector(np.array([value], dtype=_DTYPES[kind][1]), None, abs(value) if kind == "integer" else 0)


def _read(name: str, kind: FieldKind, column: Column | None, rows: int) -> Vector:
    if kind == "string":
        text = pa.nulls(rows, pa.string()) if column is None else column
        if not isinstance(text, pa.Array | pa.ChunkedArray):
            raise TypeError(f"column {name} is {type(text).__name__}; expected an Arrow array of texts")
        whole = text.combine_chunks() if isinstance(text, pa.ChunkedArray) else text
        return texts(whole if whole.type == pa.string() else whole.cast(pa.string()))
    accepted, dtype = _DTYPES[kind]
    if column is None:
        return Vector(np.zeros(rows, dtype=dtype), np.zeros(rows, dtype=np.bool_))
    values, valid = column if isinstance(column, tuple) else _unpacked(column)
    if values.dtype.kind not in accepted:
        raise TypeError(f"column {name} has values of {values.dtype}; expected those of kind {kind}")
    values = values.astype(dtype, copy=False)
    if isinstance(column, Zeroed) and values.size:
        if kind == "integer":
            return Vector(values, None if valid.all() else valid, max(-int(values.min()), int(values.max())))
        if kind == "number" and not np.isnan(values).any():
            return Vector(values, None if valid.all() else valid)
    if kind == "number":
        return there(values, valid)
    return settled(values, valid) if kind == "boolean" else integers(values, valid)


def _unpacked(column: Any) -> tuple[Any, Mask | None]:
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if not whole.null_count:
        return whole.to_numpy(zero_copy_only=False), None
    zero = pa.scalar(False if pa.types.is_boolean(whole.type) else 0, whole.type)
    return whole.fill_null(zero).to_numpy(zero_copy_only=False), as_mask(whole.is_valid())


def _result(vector: Vector, rows: int) -> Result:
    values, valid = vector.values, vector.valid
    if vector.wide:
        fits = np.logical_and(values >= -I64_MAX - 1, values <= I64_MAX)
        values, valid = np.where(fits, values, 0).astype(np.int64), both(valid, fits)
    return np.broadcast_to(values, rows), np.broadcast_to(True if valid is None else valid, rows)
