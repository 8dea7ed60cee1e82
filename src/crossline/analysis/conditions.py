"""Conditions as claims, and what the fields of a stream may be."""

from __future__ import annotations

from collections.abc import Mapping

from crossline.analysis.claims import All, Claim, Denied, Opaque, Present, Some, Test, relation
from crossline.analysis.satisfiability import ValueRange
from crossline.basics.conditions.tree import AllOf, AnyOf, FieldRef, Leaf, ListRef, Node, Not
from crossline.basics.streams.schema import FieldSpec, StreamSpec

_WORD = 2**63


def fields_of(spec: StreamSpec) -> dict[str, ValueRange]:
    """The possible values of each field of the stream in a decoded record."""
    return {name: _values(each) for name, each in spec.columns.items()}


def _values(field: FieldSpec) -> ValueRange:
    if field.is_list:
        return ValueRange("list", field.optional)
    if field.kind in {"integer", "timestamp"}:
        return ValueRange(field.kind, field.optional, -_WORD, _WORD - 1)
    return ValueRange(field.kind, field.optional)


def claim_of(node: Node, fields: Mapping[str, FieldSpec]) -> Claim:
    """``node`` as a claim about a record of a stream with these ``fields``."""
    match node:
        case AllOf(parts):
            return All(tuple(claim_of(each, fields) for each in parts))
        case AnyOf(parts):
            return Some(tuple(claim_of(each, fields) for each in parts))
        case Not(part):
            return Denied(claim_of(part, fields))
        case Leaf():
            return _leaf(node, fields)


def _leaf(leaf: Leaf, fields: Mapping[str, FieldSpec]) -> Claim:  # noqa: PLR0911 - a table
    name, value = leaf.field, leaf.value
    match leaf.operator:
        case "exists":
            return Present(name)
        case "missing":
            return Denied(Present(name))
        case "!=":
            return Denied(_positive(leaf, "=="))
        case "not_in":
            return Denied(_positive(leaf, "in"))
        case "between" if isinstance(value, tuple):
            return All((Test(name, ">=", value[0]), Test(name, "<=", value[1])))
        case "contains" if fields[name].is_list:
            return All((Present(name), Opaque(f"{name} contains {value!r}")))
    return _positive(leaf, leaf.operator)


def _positive(leaf: Leaf, operator: str) -> Claim:
    """The claim that the field is present and the operator holds."""
    match leaf.value:
        case FieldRef(other):
            return relation(leaf.field, operator, other)
        case ListRef(name):
            return All((Present(leaf.field), Opaque(f"{leaf.field} in list {name}")))
    return Test(leaf.field, operator, leaf.value, "".join(leaf.families))
