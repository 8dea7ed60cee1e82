"""Conditions: parsed from the rule's YAML into a frozen tree, checked against a stream's fields; never run as code.

A list is AND; ``all``, ``any`` and ``not`` nest; a leaf is ``{field, operator, value}``. ``mask_program.py`` turns
the tree into column masks; ``evaluation.py`` walks it record by record and is the naive twin.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, get_args
from typing import Literal as Lit

from crossline.basics.conditions.regex import why_not_regex
from crossline.basics.streams.schema import FieldSpec, check_field
from crossline.basics.streams.sensitive import TOKEN
from crossline.basics.texts.problems import Finding, Path, nearest, one_of, shown
from crossline.basics.times import INSTANT_FORM, parse_instant_ms

Literal = str | int | float | bool
Family = Lit["string", "number", "boolean"]
ConditionOperator = Lit[
    "==",
    "!=",
    ">",
    ">=",
    "<",
    "<=",
    "in",
    "not_in",
    "contains",
    "starts_with",
    "ends_with",
    "regex",
    "between",
    "exists",
    "missing",
]

OPERATORS: tuple[str, ...] = get_args(ConditionOperator)
ORDERING = frozenset({">", ">=", "<", "<="})
TEXT_ONLY = frozenset({"starts_with", "ends_with", "regex"})
_SYNONYMS = {
    synonym: name
    for name, synonyms in {
        "==": "= === eq equals is",
        "!=": "<> ne neq",
        ">": "gt",
        ">=": "gte ge",
        "<": "lt",
        "<=": "lte le",
        "regex": "matches like re",
        "not_in": "nin notin",
        "missing": "is_null null",
        "exists": "not_null is_not_null",
    }.items()
    for synonym in synonyms.split()
}
_FAMILY_OF_KIND: dict[str, Family] = {
    "string": "string",
    "integer": "number",
    "number": "number",
    "timestamp": "number",
    "boolean": "boolean",
}
_FAMILY_NAMES = {"string": "text", "number": "a number", "boolean": "true or false"}


@dataclass(frozen=True, slots=True)
class FieldRef:
    """The value of another field of the same record."""

    name: str


@dataclass(frozen=True, slots=True)
class ListRef:
    """The members of a named list."""

    name: str


Operand = Literal | tuple[Literal, ...] | FieldRef | ListRef | None


@dataclass(frozen=True, slots=True)
class Leaf:
    """One comparison. ``families`` keeps apart 1 and true, equal in Python; ``path`` is where it was written."""

    field: str
    operator: ConditionOperator
    value: Operand = None
    path: Path = dataclasses.field(default=(), compare=False, repr=False)
    families: tuple[Family, ...] = dataclasses.field(init=False, repr=False)

    def __post_init__(self) -> None:
        literals = self.value if isinstance(self.value, tuple) else (self.value,)
        families = tuple(family(each) for each in literals if isinstance(each, str | int | float))
        object.__setattr__(self, "families", families)


@dataclass(frozen=True, slots=True)
class AllOf:
    """True where every part is; with no part, always."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """True where at least one part is."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """True where the part is false."""

    part: Node


Node = Leaf | AllOf | AnyOf | Not
EVERYTHING = AllOf(())


def family(value: Literal) -> Family:
    """Which values a literal may equal or be ordered with."""
    if isinstance(value, bool):
        return "boolean"
    return "string" if isinstance(value, str) else "number"


def leaves(node: Node) -> Iterator[Leaf]:
    """Every leaf of the tree, in the order written."""
    match node:
        case Leaf():
            yield node
        case Not(part):
            yield from leaves(part)
        case AllOf(parts) | AnyOf(parts):
            for part in parts:
                yield from leaves(part)


def node_fields(node: Node) -> frozenset[str]:
    """The dotted names of the fields that the condition reads."""
    found = {leaf.field for leaf in leaves(node)}
    return frozenset(found | {leaf.value.name for leaf in leaves(node) if isinstance(leaf.value, FieldRef)})


def node_lists(node: Node) -> frozenset[str]:
    """The names of the lists that the condition reads."""
    return frozenset(leaf.value.name for leaf in leaves(node) if isinstance(leaf.value, ListRef))


def parse_conditions(raw: Any, path: Path = ("conditions",)) -> tuple[Node, list[Finding]]:
    """The tree that ``raw`` writes, and all that is wrong with it (the tree is then good for nothing)."""
    findings: list[Finding] = []
    if raw is None or raw == []:
        return EVERYTHING, findings
    return _parse(raw, path, findings), findings


def _parse(raw: Any, path: Path, findings: list[Finding]) -> Node:  # noqa: PLR0911 - a table
    if isinstance(raw, list):
        return AllOf(tuple(_parse(each, (*path, number), findings) for number, each in enumerate(raw)))
    if not isinstance(raw, dict):
        findings.append(Finding(path, shown(raw), "a condition: {field, operator, value}, or all, any, not"))
        return EVERYTHING
    joins = [key for key in ("all", "any", "not") if key in raw]
    if not joins:
        return _parse_leaf(raw, path, findings)
    if len(raw) > 1:
        findings.append(Finding(path, ", ".join(raw), f"{joins[0]} alone", "join several with all: [...]"))
        return EVERYTHING
    join, inner, below = joins[0], raw[joins[0]], (*path, joins[0])
    if join == "not":
        return Not(_parse(inner, below, findings))
    if not isinstance(inner, list) or not inner:
        findings.append(Finding(below, shown(inner), "a list of one or more conditions"))
        return EVERYTHING
    parts = tuple(_parse(each, (*below, number), findings) for number, each in enumerate(inner))
    return AllOf(parts) if join == "all" else AnyOf(parts)


_KEYS = ("field", "operator", "value")


def _parse_leaf(raw: Mapping[str, Any], path: Path, findings: list[Finding]) -> Node:
    before = len(findings)
    for key in raw:
        if key not in _KEYS:
            hint = nearest(key, (*_KEYS, "all", "any", "not"))
            findings.append(Finding((*path, key), f"unknown field {key}", one_of((*_KEYS, "all", "any", "not")), hint))
    name, operator = raw.get("field"), raw.get("operator")
    if not isinstance(name, str) or not name:
        found = shown(name) if "field" in raw else "nothing"
        findings.append(Finding((*path, "field"), found, "the name of a field of the record"))
    if operator not in OPERATORS:
        synonym = _SYNONYMS.get(operator) if isinstance(operator, str) else None
        hint = f"did you mean {synonym}?" if synonym else nearest(operator, OPERATORS)
        found = shown(operator) if "operator" in raw else "nothing"
        findings.append(Finding((*path, "operator"), found, one_of(OPERATORS, 20), hint))
    if len(findings) > before:
        return EVERYTHING
    value, finding = _operand(operator, raw)
    if finding is not None:
        findings.append(Finding((*path, "value"), finding.found, finding.expected, finding.hint))
        return EVERYTHING
    return Leaf(str(name), operator, value, path)  # type: ignore[arg-type]


def _operand(operator: Any, raw: Mapping[str, Any]) -> tuple[Operand, Finding | None]:  # noqa: PLR0911 - a table
    given = raw.get("value")
    if operator in {"exists", "missing"}:
        other = "missing" if operator == "exists" else "exists"
        bad = "value" in raw and given is not True
        return None, Finding((), shown(given), "no value", f"for the contrary use {other}") if bad else None
    if given is None:
        hint = (
            {"==": "use the operator missing", "!=": "use the operator exists"}.get(operator)
            if "value" in raw
            else None
        )
        return None, Finding((), "null" if "value" in raw else "nothing", f"a value for {operator}", hint)
    if isinstance(given, dict):
        return _reference(operator, given)
    if operator in {"in", "not_in", "between"}:
        return _members(operator, given)
    value = literal(given)
    if value is None:
        return None, Finding((), shown(given), "text, a finite number up to 64 bits, true or false")
    if operator in TEXT_ONLY and not isinstance(value, str):
        return None, Finding((), shown(given), f"text, for {operator}")
    if operator in ORDERING and isinstance(value, bool):
        return None, Finding((), shown(given), f"a number or text, for {operator}")
    if operator == "regex" and (problem := why_not_regex(str(value))):
        return None, Finding((), shown(given), f"a regular expression in RE2 syntax ({problem})")
    return value, None


def _reference(operator: str, given: Mapping[str, Any]) -> tuple[Operand, Finding | None]:
    wanted = "list" if operator in {"in", "not_in"} else "field"
    if operator in {"between", "contains", *TEXT_ONLY}:
        return None, Finding((), shown(given), "[low, high]" if operator == "between" else "a plain value")
    if list(given) != [wanted] or not isinstance(given[wanted], str) or not given[wanted]:
        return None, Finding((), shown(given), f"{{{wanted}: name}}, for {operator}")
    return (ListRef if wanted == "list" else FieldRef)(given[wanted]), None


def _members(operator: str, given: Any) -> tuple[Operand, Finding | None]:
    expected = "[low, high]: two numbers or two texts, the lower first" if operator == "between" else "a list of values"
    hint = None if operator == "between" else "or {list: name}, for a named list"
    values = [literal(each) for each in given] if isinstance(given, list) else []
    members = tuple(each for each in values if each is not None)
    good = bool(members) and len(members) == len(values)
    if good and operator == "between":
        families = {family(each) for each in members}
        good = len(members) == 2 and len(families) == 1 and "boolean" not in families and members[0] <= members[1]  # type: ignore[operator]
    return (members, None) if good else (None, Finding((), shown(given), expected, hint))


def literal(value: Any) -> Literal | None:
    """``value`` as a literal (a whole float as the integer it is); None for what cannot be compared with."""
    if isinstance(value, bool | str):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        return int(value) if value.is_integer() and abs(value) < 2**63 else value
    return value if isinstance(value, int) and -(2**63) <= value < 2**63 else None


def check_conditions(
    node: Node, columns: Mapping[str, FieldSpec], stream: str, lists: Iterable[str] | None = None
) -> list[Finding]:
    """What does not fit the stream's ``columns``: unknown fields and lists (where ``lists`` is given), unlike types."""
    names = None if lists is None else list(lists)
    return [finding for leaf in leaves(node) if (finding := _check_leaf(leaf, columns, stream, names))]


def _check_leaf(  # noqa: PLR0911 - a table
    leaf: Leaf, columns: Mapping[str, FieldSpec], stream: str, lists: list[str] | None
) -> Finding | None:
    unknown = check_field(leaf.field, columns, stream, (*leaf.path, "field"))
    if unknown:
        return unknown
    spec, value, at = columns[leaf.field], leaf.value, (*leaf.path, "value")
    misfit = _operator_misfit(leaf.operator, spec)
    if spec.sensitive and not (isinstance(value, FieldRef | ListRef) or value is None) and misfit is None:
        return _token_misfit(leaf)
    if misfit:
        return Finding((*leaf.path, "operator"), f"{leaf.operator} on {leaf.field}, of type {spec}", misfit)
    if isinstance(value, ListRef):
        if spec.sensitive and value.name not in spec.token_lists:
            expected = f"a list with {tokens_text(spec)}"
            hint = f"declare it in the stream file: tokens: {{lists: {{{value.name}: {spec.sensitive}}}}}"
            return Finding(at, f"list {value.name}, of values as they came", expected, hint)
        if lists is None or value.name in lists:
            return None
        return Finding(
            at, shown(value.name), f"the name of a list: {one_of(lists) or 'there is none'}", nearest(value.name, lists)
        )
    if isinstance(value, FieldRef):
        return check_field(value.name, columns, stream, at) or _check_pair(leaf, spec, columns[value.name], value.name)
    wanted = _FAMILY_OF_KIND[spec.kind]
    for each in value if isinstance(value, tuple) else (value,):
        if each is not None and family(each) != wanted:
            reason = f"{_FAMILY_NAMES[wanted]}, since {leaf.field} is of type {spec}"
            return Finding(at, f"{_FAMILY_NAMES[family(each)]} ({shown(each)})", reason, _unit_hint(spec, each))
    return None


def tokens_text(spec: FieldSpec) -> str:
    """What a field has, as far as its values may be tokens."""
    return f"tokens of {spec.sensitive}" if spec.sensitive else "values as they came"


_ON_TOKENS = frozenset({"==", "!=", "in", "not_in"})


def _token_misfit(leaf: Leaf) -> Finding | None:
    """Values that are no tokens; they are not shown, as they may be what is sensitive."""
    values = leaf.value if isinstance(leaf.value, tuple) else (leaf.value,)
    if all(isinstance(each, str) and TOKEN.fullmatch(each) for each in values):
        return None
    found = f"a value that is no token, since {leaf.field} is sensitive"
    return Finding(
        (*leaf.path, "value"), found, "a token, or a list of tokens", "crossline tokens makes them", hidden=True
    )


def _operator_misfit(operator: str, spec: FieldSpec) -> str | None:
    if operator in {"exists", "missing"}:
        return None
    if spec.sensitive and operator not in _ON_TOKENS:
        return f"{', '.join(sorted(_ON_TOKENS))}, exists or missing: tokens are equal or not, and say nothing else"
    if spec.is_list:
        return None if operator == "contains" else "contains, exists or missing, on a list"
    if operator in TEXT_ONLY or operator == "contains":
        return (
            None
            if spec.kind == "string"
            else "a field of type string" + (" or a list" if operator == "contains" else "")
        )
    if spec.kind == "boolean" and (operator in ORDERING or operator == "between"):
        return "==, !=, in or not_in, on true and false"
    return None


def _check_pair(leaf: Leaf, spec: FieldSpec, other: FieldSpec, name: str) -> Finding | None:
    if other.is_list or _FAMILY_OF_KIND[other.kind] != _FAMILY_OF_KIND[spec.kind]:
        expected = f"a field that compares with {leaf.field}, of type {spec}"
        return Finding((*leaf.path, "value"), f"{name}, of type {other}", expected)
    if other.sensitive != spec.sensitive:
        expected = f"a field that may be equal to {leaf.field}, which has {tokens_text(spec)}"
        return Finding((*leaf.path, "value"), f"{name}, which has {tokens_text(other)}", expected)
    return None


def _unit_hint(spec: FieldSpec, value: Literal) -> str | None:
    if spec.kind != "timestamp":
        return None
    try:
        return f"write epoch milliseconds: {parse_instant_ms(value)}"
    except ValueError:
        return f"a timestamp is compared as epoch milliseconds of {INSTANT_FORM.split(',')[0]}"
