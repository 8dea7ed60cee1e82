"""Names with their kinds, rows that have them, and random formulas over them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from crossline.basics.fields import FieldKind
from crossline.basics.formula.check import Wanted, check
from crossline.basics.formula.columns import compile_formula
from crossline.basics.formula.formula import Formula
from crossline.basics.formula.functions import kind_of_arithmetic, widest
from crossline.basics.formula.tree import Arithmetic, Call, Compare, Constant, Join, Membership, Name, Negate, Node, Not
from crossline.basics.texts.problems import Finding
from crossline.basics.times import YEAR_1_MS, YEAR_10000_MS

Row = Mapping[str, Any]

NAMES: dict[str, FieldKind] = {
    "tries": "integer",
    "declines": "integer",
    "amount_cents": "integer",
    "usual": "number",
    "location.lat": "number",
    "event_time": "timestamp",
    "status": "string",
    "device_id": "string",
    "card.present": "boolean",
    "größer": "boolean",
}
TYPES = {
    "integer": pa.int64(),
    "timestamp": pa.int64(),
    "number": pa.float64(),
    "string": pa.string(),
    "boolean": pa.bool_(),
}
EDGES = [0, 1, -1, 2, 3, 7, 2**31, 2**53 - 1, 2**53, 2**53 + 1, -(2**53) - 1, 2**62, 2**63 - 1, -(2**63), -(2**63) + 1]
INTEGERS = st.sampled_from(EDGES) | st.integers(-20, 20) | st.integers(-(2**63), 2**63 - 1)
DOUBLES = (
    st.sampled_from([0.0, 0.5, 1.5, 2.5, -0.5, 2.0**53, 2.0**63, -(2.0**63), 1e308, -1e308, 5e-324, 1e22, 89.5])
    | st.floats(-100, 100)
    | st.floats(allow_nan=False, allow_infinity=False)
)
TEXTS = st.sampled_from(["", "declined", "d1", 'a "b" \\ c', "ü\n\t", "\U0001f4b3", "￿"]) | st.text(max_size=3)
INSTANTS = (
    st.integers(1_700_000_000_000, 1_800_000_000_000)
    | st.integers(YEAR_1_MS - 2 * 86_400_000, YEAR_1_MS + 3 * 86_400_000)
    | st.integers(YEAR_10000_MS - 3 * 86_400_000, YEAR_10000_MS + 2 * 86_400_000)
    | st.integers(YEAR_1_MS, YEAR_10000_MS)
    | INTEGERS
)
OF_KIND: dict[FieldKind, st.SearchStrategy[Any]] = {
    "integer": INTEGERS,
    "number": DOUBLES | st.just(-0.0),
    "timestamp": INSTANTS,
    "string": TEXTS.filter(str.isprintable) | TEXTS,
    "boolean": st.booleans(),
}
FOUND = OF_KIND | {"number": OF_KIND["number"] | st.sampled_from([math.inf, -math.inf])}  # a sum may be infinite
ROWS = st.lists(
    st.fixed_dictionaries({name: st.none() | FOUND[kind] for name, kind in NAMES.items()}), min_size=0, max_size=8
)
ZONES = ["Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "UTC", "Pacific/Apia"]


def formula(text: str, wanted: Wanted = "verdict", names: Mapping[str, FieldKind] = NAMES) -> Formula:
    found = check(text, names, ("when",), wanted)
    assert isinstance(found, Formula), as_text(found)
    return found


def refused(text: object, wanted: Wanted = "verdict", names: Mapping[str, FieldKind] = NAMES) -> list[Finding]:
    found = check(text, names, ("when",), wanted)
    assert not isinstance(found, Formula), found.canonical
    assert found
    return found


def as_text(findings: Sequence[Finding]) -> str:
    lines = []
    for each in findings:
        lines.append(f"found {each.found}; expected {each.expected}")
        lines += [f"  {each.hint}"] if each.hint else []
    return "\n".join(lines)


def columns_of(rows: Sequence[Row]) -> dict[str, Any]:
    return {name: pa.array([row.get(name) for row in rows], TYPES[kind]) for name, kind in NAMES.items()}


def by_columns(of: Formula, rows: Sequence[Row]) -> list[Any]:
    """What the columns give, as the twin says it: None where missing."""
    values, valid = compile_formula(of)(columns_of(rows), len(rows))
    assert len(values) == len(valid) == len(rows)
    assert not any(value for value, there in zip(values.tolist(), valid.tolist(), strict=True) if not there)
    return [value if there else None for value, there in zip(values.tolist(), valid.tolist(), strict=True)]


def _names(*kinds: FieldKind) -> st.SearchStrategy[Node]:
    return st.sampled_from([Name(name, kind) for name, kind in NAMES.items() if kind in kinds])


def constants(kind: FieldKind) -> st.SearchStrategy[Constant]:
    return OF_KIND[kind].map(lambda value: Constant(value or abs(value) if kind == "number" else value, kind))


_NUMBER_LEAVES = _names("integer", "number", "timestamp") | constants("integer") | constants("number")
_TIMES = _names("timestamp") | st.builds(
    lambda by, sign: Arithmetic(sign, Name("event_time", "timestamp"), by, "timestamp"),
    constants("integer"),
    st.sampled_from(["+", "-"]),
)
_TEXT_LEAVES = _names("string") | constants("string")
_TEXT_NODES = _TEXT_LEAVES | st.lists(_TEXT_LEAVES, min_size=2, max_size=3).map(
    lambda parts: Call("coalesce", tuple(parts), "string")
)


def _arithmetic(operator: Any, left: Node, right: Node) -> Node:
    return Arithmetic(operator, left, right, kind_of_arithmetic(operator, left.kind, right.kind))


def _negated(node: Node) -> Node:
    return node if isinstance(node, Constant) else Negate(node, "number" if node.kind == "number" else "integer")


def _absolute(node: Node) -> Node:
    return Call("abs", (node,), "number" if node.kind == "number" else "integer")


def _rounded(node: Node, digits: int | None) -> Node:
    if digits is None:
        return Call("round", (node,), "integer")
    kind: FieldKind = "number" if node.kind == "number" else "integer"
    return Call("round", (node, Constant(digits, "integer")), kind)


def _of_several(function: str, parts: list[Node]) -> Node:
    return Call(function, tuple(parts), widest(each.kind for each in parts))


def _clock(function: str, time: Node, zone: str | None) -> Node:
    return Call(function, (time,) if zone is None else (time, Constant(zone, "string")), "integer")


def _numbers(inner: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    return st.one_of(
        st.builds(_arithmetic, st.sampled_from(["+", "-", "*", "/", "//", "%"]), inner, inner),
        st.builds(_negated, inner),
        st.builds(_absolute, inner),
        st.builds(_rounded, inner, st.none() | st.integers(0, 15)),
        st.builds(_of_several, st.sampled_from(["min", "max", "coalesce"]), st.lists(inner, min_size=2, max_size=3)),
        st.builds(lambda name, node: Call(name, (node,), "number"), st.sampled_from(["log", "sqrt"]), inner),
        st.builds(lambda *parts: Call("haversine_km", parts, "number"), inner, inner, inner, inner),
        st.builds(_clock, st.sampled_from(["hour", "weekday"]), _TIMES, st.none() | st.sampled_from(ZONES)),
    )


NUMBER_NODES: st.SearchStrategy[Node] = st.recursive(_NUMBER_LEAVES, _numbers, max_leaves=8)


def _chained(nodes: st.SearchStrategy[Node], *operators: str) -> st.SearchStrategy[Node]:
    def chain(parts: list[Node], signs: list[Any]) -> Node:
        return Compare(tuple(parts), tuple(signs[: len(parts) - 1]))

    signs = st.lists(st.sampled_from(operators), min_size=2, max_size=2)
    return st.builds(chain, st.lists(nodes, min_size=2, max_size=3), signs)


def _within(nodes: st.SearchStrategy[Node], *kinds: FieldKind) -> st.SearchStrategy[Node]:
    members = st.lists(st.one_of(*(constants(kind) for kind in kinds)), min_size=1, max_size=4).map(tuple)
    return st.builds(Membership, nodes, members, st.booleans())


_ALL = ("==", "!=", "<", "<=", ">", ">=")
_TRUTHS = (
    _names("boolean")
    | constants("boolean")
    | _chained(NUMBER_NODES, *_ALL)
    | _chained(_TEXT_NODES, *_ALL)
    | _within(NUMBER_NODES, "integer", "number")
    | _within(_TEXT_NODES, "string")
    | st.builds(lambda node: Call("missing", (node,), "boolean"), NUMBER_NODES | _TEXT_NODES | _names("boolean"))
)


def _joined(inner: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    return st.one_of(
        st.builds(Not, inner),
        st.builds(Join, st.sampled_from(["and", "or"]), st.lists(inner, min_size=2, max_size=3).map(tuple)),
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: Call("coalesce", tuple(parts), "boolean")),
        _chained(inner, "==", "!="),
        _within(inner, "boolean"),
        st.builds(lambda node: Call("missing", (node,), "boolean"), inner),
    )


TRUTH_NODES: st.SearchStrategy[Node] = st.recursive(_TRUTHS, _joined, max_leaves=6)
