"""What formulas may ask of sensitive fields: whether their tokens are equal to tokens of the same kind."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping

from crossline.basics.formula.formula import Formula
from crossline.basics.formula.tree import Call, Compare, Constant, Membership, Name, Node, walk
from crossline.basics.streams.schema import FieldSpec
from crossline.basics.streams.sensitive import TOKEN
from crossline.basics.texts.problems import Finding, Path

_GIVES_ONE = "coalesce"


def wrong_in(
    checked: Iterable[Formula | list[Finding]], columns: Mapping[str, FieldSpec], paths: Iterable[Path]
) -> list[Finding]:
    """What is wrong with formulas that were checked, each at its path; in good ones, what they ask of tokens."""
    return [
        found
        for each, path in zip(checked, paths, strict=False)
        for found in (token_findings(each.root, columns, path) if isinstance(each, Formula) else each)
    ]


def token_findings(root: Node, columns: Mapping[str, FieldSpec], path: Path) -> list[Finding]:
    """Comparisons of sensitive fields that never hold, or say nothing. Values are not shown."""
    return [Finding(path, *each, hidden=True) for node in walk(root) for each in _of(node, columns)]


def _of(node: Node, columns: Mapping[str, FieldSpec]) -> Iterator[tuple[str, str, str | None]]:
    if isinstance(node, Membership):
        for member in node.members:
            yield from _pair(node.operand, member, "==", columns)
    if isinstance(node, Compare):
        for (left, right), operator in zip(itertools.pairwise(node.operands), node.operators, strict=True):
            yield from _pair(left, right, operator, columns)


def _pair(
    left: Node, right: Node, operator: str, columns: Mapping[str, FieldSpec]
) -> Iterator[tuple[str, str, str | None]]:
    (mine, name), (other, other_name) = (_scope(each, columns) for each in (left, right))
    if not (mine or other):
        return
    named = name or other_name
    if operator not in {"==", "!="}:
        yield f"{operator} on {named}, which is sensitive", "== or !=", "tokens are equal or not, no more"
    tokens, constant = (left, right) if mine else (right, left)
    if isinstance(constant, Constant):
        given = isinstance(constant.value, str) and TOKEN.fullmatch(constant.value)
        if not given and constant.value not in _defaults(tokens):
            found = f"a value that is no token, since {named} is sensitive"
            yield found, "a token", "crossline tokens makes them"
    elif mine != other:
        yield f"{named}, which is sensitive, beside other values", f"tokens of {mine or other} on both sides", None


def _scope(node: Node, columns: Mapping[str, FieldSpec]) -> tuple[str, str]:
    """Whose tokens ``node`` is, and the field that has them; empty where it is none."""
    if isinstance(node, Call) and node.function == _GIVES_ONE:
        return next((each for part in node.arguments if (each := _scope(part, columns))[0]), ("", ""))
    spec = columns.get(node.name) if isinstance(node, Name) else None
    return ("", "") if spec is None else (spec.sensitive, node.name if isinstance(node, Name) else "")


def _defaults(node: Node) -> set[object]:
    """What stands in the place of a missing token."""
    parts = node.arguments if isinstance(node, Call) else ()
    return {each.value for each in parts if isinstance(each, Constant)}
