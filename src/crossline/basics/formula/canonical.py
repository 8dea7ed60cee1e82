"""A tree written plainly: one space around operators, brackets only where needed, durations in milliseconds."""

from __future__ import annotations

from typing import assert_never

from crossline.basics.formula.tree import Arithmetic, Call, Compare, Constant, Join, Membership, Name, Negate, Node, Not

# How strongly what is written binds, from the weakest.
_OR, _AND, _NOT, _COMPARE, _SUM, _PRODUCT, _SIGN, _ATOM = range(8)
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"})


def canonical(node: Node) -> str:
    """``node`` as text that is read as an equal tree."""
    return _written(node)[0]


def _written(node: Node) -> tuple[str, int]:  # noqa: PLR0911 - a table
    """The text, and how strongly it binds."""
    match node:
        case Constant(value):
            return _literal(value), _ATOM
        case Name(name):
            return name, _ATOM
        case Negate(operand):
            return f"-{_within(operand, _SIGN)}", _SIGN
        case Not(operand):
            return f"not {_within(operand, _NOT)}", _NOT
        case Arithmetic(operator, left, right):
            binds = _SUM if operator in {"+", "-"} else _PRODUCT
            return f"{_within(left, binds)} {operator} {_within(right, binds + 1)}", binds
        case Compare(operands, operators):
            first, *others = [_within(each, _COMPARE + 1) for each in operands]
            return " ".join(
                (first, *(f"{sign} {each}" for sign, each in zip(operators, others, strict=True)))
            ), _COMPARE
        case Membership(operand, members, negated):
            written = ", ".join(_literal(each.value) for each in members)
            inside = f"({written},)" if len(members) == 1 else f"({written})"
            return f"{_within(operand, _COMPARE + 1)} {'not in' if negated else 'in'} {inside}", _COMPARE
        case Join(word, parts):
            binds = _AND if word == "and" else _OR
            return f" {word} ".join(_within(each, binds + 1) for each in parts), binds
        case Call(function, arguments):
            return f"{function}({', '.join(canonical(each) for each in arguments)})", _ATOM
    assert_never(node)


def _within(node: Node, binds: int) -> str:
    text, strength = _written(node)
    return text if strength >= binds else f"({text})"


def _literal(value: float | str | bool) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return f'"{value.translate(_ESCAPES)}"'
        case _:
            return repr(value)
