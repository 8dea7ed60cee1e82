"""A checked formula as a value: what it reads, how it is written plainly, what an alert shows of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from crossline.basics.formula.canonical import canonical
from crossline.basics.formula.tree import Compare, ComparisonOperator, Constant, Membership, Name, Node, renamed, walk

TURNED: dict[ComparisonOperator, ComparisonOperator] = {
    "==": "==",
    "!=": "!=",
    "<": ">",
    "<=": ">=",
    ">": "<",
    ">=": "<=",
}


@dataclass(frozen=True, slots=True)
class Formula:
    """``text`` as it was written, and its tree. Formulas are equal when they mean the same, however they are spaced.

    ``root.kind`` is ``boolean`` for a verdict, ``integer``, ``number`` or ``timestamp`` for a value. ``names``: the
    fields and figures that it reads, each once, in the order of the text.
    """

    text: str = dataclasses.field(compare=False)
    root: Node
    names: tuple[str, ...] = dataclasses.field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        # Asked for at every hit, and a walk of the whole tree.
        names = tuple(dict.fromkeys(node.name for node in walk(self.root) if isinstance(node, Name)))
        object.__setattr__(self, "names", names)

    def renamed(self, names: Mapping[str, str]) -> Formula:
        """The same of other names: of those that ``names`` has."""
        return Formula(self.text, renamed(self.root, names))

    @property
    def canonical(self) -> str:
        """The formula in one way of writing; equal formulas have the same."""
        return canonical(self.root)

    def first_comparison_left(self) -> Node | None:
        """The left side of the first comparison in the text, which an alert shows; None where nothing is compared."""
        for node in walk(self.root):
            if isinstance(node, Compare):
                return node.operands[0]
            if isinstance(node, Membership):
                return node.operand
        return None


class ComparedValue(NamedTuple):
    """A formula that is no more than ``name operator threshold``."""

    name: str
    operator: ComparisonOperator
    threshold: int | float


def as_comparison(formula: Formula) -> ComparedValue | None:
    """The threshold that ``formula`` has for one name, on either side; None if it is no such comparison."""
    match formula.root:
        case Compare((Name(name), Constant(int() | float() as value, "integer" | "number")), (operator,)):
            return ComparedValue(name, operator, value)
        case Compare((Constant(int() | float() as value, "integer" | "number"), Name(name)), (operator,)):
            return ComparedValue(name, TURNED[operator], value)
    return None
