"""The typed tree of a formula. Every node knows its kind and where in the text it was written; it is never run as code.

Kinds are those of fields. ``integer`` is exact at any size, ``number`` is a double, ``timestamp`` is an integer of
epoch milliseconds. Nodes are equal when they mean the same: where they stand does not count.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from crossline.basics.fields import FieldKind

Family = Literal["number", "text", "boolean"]
ArithmeticOperator = Literal["+", "-", "*", "/", "//", "%"]
ComparisonOperator = Literal["==", "!=", "<", "<=", ">", ">="]

FAMILIES: dict[FieldKind, Family] = {
    "integer": "number",
    "number": "number",
    "timestamp": "number",
    "string": "text",
    "boolean": "boolean",
}


class Span(NamedTuple):
    """Where something stands in the text: characters from ``start``, counted from 0, to before ``end``."""

    start: int
    end: int


_NOWHERE = Span(0, 0)


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal. A duration is an integer of milliseconds. ``kind`` keeps apart 1, 1.0 and true, equal in Python."""

    value: int | float | str | bool
    kind: FieldKind
    span: Span = field(default=_NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Name:
    """The value of a field (dotted) or figure."""

    name: str
    kind: FieldKind
    span: Span = field(default=_NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Negate:
    """``-operand``."""

    operand: Node
    kind: FieldKind
    span: Span = field(default=_NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """``left operator right``, of two numbers."""

    operator: ArithmeticOperator
    left: Node
    right: Node
    kind: FieldKind
    span: Span = field(default=_NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Compare:
    """``operands[0] operators[0] operands[1] …``: true where each of them holds. One operator less than operands."""

    operands: tuple[Node, ...]
    operators: tuple[ComparisonOperator, ...]
    span: Span = field(default=_NOWHERE, compare=False, repr=False)
    kind: FieldKind = "boolean"


@dataclass(frozen=True, slots=True)
class Membership:
    """``operand in (members)``; ``negated``: ``not in``."""

    operand: Node
    members: tuple[Constant, ...]
    negated: bool
    span: Span = field(default=_NOWHERE, compare=False, repr=False)
    kind: FieldKind = "boolean"


@dataclass(frozen=True, slots=True)
class Not:
    """``not operand``."""

    operand: Node
    span: Span = field(default=_NOWHERE, compare=False, repr=False)
    kind: FieldKind = "boolean"


@dataclass(frozen=True, slots=True)
class Join:
    """Its ``parts``, two or more, joined by ``word``."""

    word: Literal["and", "or"]
    parts: tuple[Node, ...]
    span: Span = field(default=_NOWHERE, compare=False, repr=False)
    kind: FieldKind = "boolean"


@dataclass(frozen=True, slots=True)
class Call:
    """``function(arguments)``; a time zone and the digits of ``round`` are constants among them."""

    function: str
    arguments: tuple[Node, ...]
    kind: FieldKind
    span: Span = field(default=_NOWHERE, compare=False, repr=False)


Node = Constant | Name | Negate | Arithmetic | Compare | Membership | Not | Join | Call


def children(node: Node) -> tuple[Node, ...]:  # noqa: PLR0911 - a table
    """The nodes right below ``node``, in the order written."""
    match node:
        case Negate(operand) | Not(operand):
            return (operand,)
        case Arithmetic(_, left, right):
            return (left, right)
        case Compare(operands):
            return operands
        case Membership(operand, members):
            return (operand, *members)
        case Join(_, parts):
            return parts
        case Call(_, arguments):
            return arguments
    return ()


def walk(node: Node) -> Iterator[Node]:
    """``node`` and all below it, each before what is below it, in the order written."""
    yield node
    for each in children(node):
        yield from walk(each)


def renamed(node: Node, names: Mapping[str, str]) -> Node:  # noqa: PLR0911 - a table
    """``node`` with what it reads called by ``names``; what is not among them keeps its name."""
    match node:
        case Name(name):
            return replace(node, name=names.get(name, name))
        case Negate(operand) | Not(operand) | Membership(operand):
            return replace(node, operand=renamed(operand, names))
        case Arithmetic(_, left, right):
            return replace(node, left=renamed(left, names), right=renamed(right, names))
        case Compare(operands):
            return replace(node, operands=tuple(renamed(each, names) for each in operands))
        case Join(_, parts):
            return replace(node, parts=tuple(renamed(each, names) for each in parts))
        case Call(_, arguments):
            return replace(node, arguments=tuple(renamed(each, names) for each in arguments))
    return node
