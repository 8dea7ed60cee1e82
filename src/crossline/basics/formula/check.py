"""A formula checked: names that are there, kinds that fit, a whole that is what is wanted; or all that is wrong."""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping, Sequence
from typing import Literal

from crossline.basics.fields import FieldKind
from crossline.basics.formula.diagnostics import Report
from crossline.basics.formula.formula import Formula
from crossline.basics.formula.functions import DIGITS_MAX, SIGNATURES, Signature, kind_of_arithmetic, kind_of_call
from crossline.basics.formula.parse import DEPTH_MAX, Skeleton, parse
from crossline.basics.formula.tokens import LENGTH_MAX
from crossline.basics.formula.tree import (
    FAMILIES,
    Arithmetic,
    ArithmeticOperator,
    Call,
    Compare,
    ComparisonOperator,
    Constant,
    Family,
    Join,
    Membership,
    Name,
    Negate,
    Node,
    Not,
    Span,
)
from crossline.basics.formula.zones import zone_names
from crossline.basics.texts.problems import Finding, Path, nearest, shown
from crossline.basics.times import parse_instant_ms

Wanted = Literal["verdict", "value"]

_ARITHMETIC: dict[type[ast.operator], ArithmeticOperator] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
}
_COMPARISONS: dict[type[ast.cmpop], ComparisonOperator] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}
_KIND_NAMES: dict[Family, str] = {"number": "a number", "text": "a text", "boolean": "true or false"}


def check(text: object, names: Mapping[str, FieldKind], path: Path, wanted: Wanted) -> Formula | list[Finding]:
    """The formula that ``text`` writes over ``names`` (fields, dotted, and figures, with their kinds).

    Else all that is wrong with it, at ``path``, in the order of the text. ``wanted``: a verdict is true or false, a
    value is a number. Never raises, whatever the text.
    """
    unreadable = _unreadable(text, path)
    if unreadable is not None:
        return [unreadable]
    report = Report(str(text), path)
    skeleton = parse(names, report)
    if skeleton is not None:
        root = _Typing(skeleton, names, report).whole(wanted)
        if root is not None and not report:
            return Formula(report.text, root)
    return report.findings()


def check_form(text: object, path: Path) -> list[Finding]:
    """All that is wrong with ``text`` whatever names there are: that it cannot be read, or is no formula.

    For formulas that are read before the names are known; ``check`` finds the rest then.
    """
    unreadable = _unreadable(text, path)
    if unreadable is not None:
        return [unreadable]
    report = _Nameless(str(text), path)
    parse((), report)
    return report.findings()


class _Nameless(Report):
    """A report of a formula whose names are not known."""

    def unknown_name(self, name: str, span: Span, names: Collection[str]) -> None:
        """It may be there."""


def _unreadable(text: object, path: Path) -> Finding | None:
    if not isinstance(text, str):
        return Finding(path, shown(text), "a formula, as text")
    if len(text) > LENGTH_MAX:
        expected = f"a formula of at most {LENGTH_MAX:,} characters"
        return Finding(path, f"{len(text):,} characters", expected, "figures may take parts of it over")
    if not text.strip():
        return Finding(path, "nothing", "a formula", "for instance tries >= 6 and declines / tries > 0.5")
    half = next((number for number, char in enumerate(text) if "\ud800" <= char <= "\udfff"), None)
    if half is not None:
        return Finding(path, f"at character {half + 1}: <U+{ord(text[half]):04X}>", "text; this is half a character")
    return None


class _Typing:
    """Python's tree to ours. What is wrong gives None and is reported once; what holds it gives None without a word."""

    def __init__(self, skeleton: Skeleton, names: Mapping[str, FieldKind], report: Report) -> None:
        self.skeleton, self.names, self.report = skeleton, names, report

    def whole(self, wanted: Wanted) -> Node | None:
        root = self._node(self.skeleton.expression, 1)
        if root is None or FAMILIES[root.kind] == ("boolean" if wanted == "verdict" else "number"):
            return root
        if wanted == "verdict":
            hint = None if root.kind == "string" else "compare it, for instance with > 0"
            self._report(root, "true or false, for it is to say when", hint)
        else:
            self._report(root, "a number, for it is a value")
        return None

    def _report(self, node: Node, expected: str, hint: str | None = None) -> None:
        self.report.add(node.span, expected, hint, f", of type {node.kind}")

    def _node(self, at: ast.expr, depth: int) -> Node | None:  # noqa: PLR0911 - a table
        span = self.skeleton.span(at)
        if depth > DEPTH_MAX:
            hint = "brackets make it flatter: (a + b) + (c + d)"
            self.report.add(span, f"at most {DEPTH_MAX} operations within each other", hint)
            return None
        match at:
            case ast.Constant():
                return self._literal(at, span)
            case ast.Name():
                return self._name(self.skeleton.token(at).name, span)
            case ast.UnaryOp(ast.Not(), operand):
                part = self._needed(operand, depth, "boolean", "not")
                return None if part is None else Not(part, span)
            case ast.UnaryOp(sign, operand):
                return self._signed(isinstance(sign, ast.USub), operand, span, depth)
            case ast.BinOp(left, operator, right):
                return self._arithmetic(_ARITHMETIC[type(operator)], left, right, span, depth)
            case ast.BoolOp(operator, operands):
                return self._join("and" if isinstance(operator, ast.And) else "or", operands, span, depth)
            case ast.Compare(left, operators, others) if not any(
                isinstance(each, ast.In | ast.NotIn) for each in operators
            ):
                return self._compare([left, *others], [_COMPARISONS[type(each)] for each in operators], span, depth)
            case ast.Compare(left, [operator], [members]):
                return self._membership(left, members, isinstance(operator, ast.NotIn), span, depth)
            case ast.Compare():
                self.report.add(span, "in by itself", "join two comparisons with and")
            case ast.Call():
                return self._call(self.skeleton.token(at).name, at.args, span, depth)
            case _:
                self.report.add(span, "one value", "a list of values stands only after in")
        return None

    def _needed(self, at: ast.expr, depth: int, family: Family, purpose: str) -> Node | None:
        """The node, where it is of ``family``."""
        node = self._node(at, depth + 1)
        if node is None or FAMILIES[node.kind] == family:
            return node
        hint = "compare it, for instance with > 0" if (family, FAMILIES[node.kind]) == ("boolean", "number") else None
        self._report(node, f"{_KIND_NAMES[family]}, for {purpose}", hint)
        return None

    def _literal(self, at: ast.expr, span: Span) -> Constant | None:
        token = self.skeleton.token(at)
        return None if token.kind is None else self._bounded(Constant(token.value, token.kind, span))

    def _bounded(self, constant: Constant) -> Constant | None:
        """2**63 is read, since a minus may stand before it."""
        if constant.kind == "integer" and not -(2**63) <= constant.value < 2**63:  # type: ignore[operator]
            self.report.add(constant.span, "a whole number of at most 64 bits")
            return None
        return constant

    def _name(self, name: str, span: Span) -> Name | None:
        kind = self.names.get(name)
        if kind is None:
            self.report.unknown_name(name, span, self.names)
            return None
        return Name(name, kind, span)

    def _signed(self, minus: bool, at: ast.expr, span: Span, depth: int) -> Node | None:
        token = self.skeleton.token(at)
        if isinstance(at, ast.Constant) and token.kind == "integer":
            operand: Node | None = Constant(token.value, "integer", span)
        else:
            operand = self._needed(at, depth, "number", "a sign")
        if isinstance(operand, Constant):
            value = operand.value
            folded = -value if minus and value else value  # type: ignore[operator]
            return self._bounded(Constant(folded, operand.kind, span))
        if operand is None or not minus:
            return operand
        return Negate(operand, "number" if operand.kind == "number" else "integer", span)

    def _arithmetic(
        self, operator: ArithmeticOperator, at_left: ast.expr, at_right: ast.expr, span: Span, depth: int
    ) -> Node | None:
        left = self._needed(at_left, depth, "number", operator)
        right = self._needed(at_right, depth, "number", operator)
        if left is None or right is None:
            return None
        return Arithmetic(operator, left, right, kind_of_arithmetic(operator, left.kind, right.kind), span)

    def _join(self, word: Literal["and", "or"], parts: Sequence[ast.expr], span: Span, depth: int) -> Node | None:
        nodes = [self._needed(each, depth, "boolean", word) for each in parts]
        good = tuple(each for each in nodes if each is not None)
        return Join(word, good, span) if len(good) == len(nodes) else None

    def _compare(
        self, parts: Sequence[ast.expr], operators: Sequence[ComparisonOperator], span: Span, depth: int
    ) -> Node | None:
        operands = [self._node(each, depth + 1) for each in parts]
        good = tuple(each for each in operands if each is not None)
        fits = len(good) == len(operands)
        for left, operator, right in zip(operands, operators, operands[1:], strict=False):
            if left is not None and right is not None:
                fits = self._comparable(left, operator, right) and fits
        return Compare(good, tuple(operators), span) if fits else None

    def _comparable(self, left: Node, operator: str, right: Node) -> bool:
        if FAMILIES[left.kind] != FAMILIES[right.kind]:
            between = Span(left.span.start, right.span.end)
            expected = "two numbers, two texts, or true and false"
            self.report.add(between, expected, _quotes_hint(left, right), f", {left.kind} against {right.kind}")
            return False
        if left.kind == "boolean" and operator not in {"==", "!="}:
            self._report(left, f"a number or a text, for {operator}")
            return False
        return True

    def _membership(self, at: ast.expr, at_members: ast.expr, negated: bool, span: Span, depth: int) -> Node | None:
        operand = self._node(at, depth + 1)
        if not isinstance(at_members, ast.Tuple | ast.List):
            where = self.skeleton.span(at_members)
            hint = f"a comma makes a list of one value: ({self.report.written(where)},)"
            if not isinstance(at_members, ast.Constant):
                hint = "the values stand there themselves; a named list is looked up by a condition"
            self.report.add(where, "a list of values in brackets, after in", hint)
            return None
        members = [self._member(each, operand) for each in at_members.elts]
        good = tuple(each for each in members if each is not None)
        if operand is None or len(good) < len(members):
            return None
        return Membership(operand, good, negated, span)

    def _member(self, at: ast.expr, operand: Node | None) -> Constant | None:
        plain = isinstance(at, ast.Constant) or (isinstance(at, ast.UnaryOp) and isinstance(at.operand, ast.Constant))
        if not plain:
            hint = "a text stands in quotes" if isinstance(at, ast.Name) else None
            self.report.add(self.skeleton.span(at), "a plain value: a number, a text, true or false", hint)
            return None
        node = self._node(at, 1)
        if operand is not None and node is not None and FAMILIES[node.kind] != FAMILIES[operand.kind]:
            written = self.report.written(operand.span)
            self._report(node, f"{_KIND_NAMES[FAMILIES[operand.kind]]}, as {written} is", _quotes_hint(operand, node))
            return None
        return node if isinstance(node, Constant) else None

    def _call(self, name: str, parts: Sequence[ast.expr], span: Span, depth: int) -> Node | None:
        signature = SIGNATURES.get(name)
        if signature is None:
            self.report.unknown_function(name, Span(span.start, span.start + len(name)), self.names)
            for each in parts:
                self._node(each, depth + 1)
            return None
        if len(parts) < signature.least or (signature.most is not None and len(parts) > signature.most):
            many = f"{len(parts)} argument{'s' * (len(parts) != 1)}"
            self.report.add(span, signature.form, None, f", {many}")
            return None
        optional = signature.option is not None and len(parts) == signature.most
        option = self._option(signature, parts[-1]) if optional else None
        given = [self._argument(name, signature, each, depth) for each in (parts[:-1] if optional else parts)]
        arguments = [each for each in given if each is not None]
        if len(arguments) < len(given) or (optional and option is None):
            return None
        if signature.takes == "alike" and not self._alike(name, arguments):
            return None
        kind = kind_of_call(signature, [each.kind for each in arguments], digits=optional)
        return Call(name, (*arguments, *([option] if option is not None else [])), kind, span)

    def _argument(self, name: str, signature: Signature, at: ast.expr, depth: int) -> Node | None:
        if signature.takes == "numbers":
            return self._needed(at, depth, "number", name)
        node = self._node(at, depth + 1)
        if node is not None and signature.takes == "timestamp" and node.kind != "timestamp":
            self._report(node, f"a timestamp, for {name}", "declare the type of the field in stream.yaml")
            return None
        return node

    def _alike(self, name: str, arguments: Collection[Node]) -> bool:
        first, *others = arguments
        strange = [each for each in others if FAMILIES[each.kind] != FAMILIES[first.kind]]
        for each in strange:
            self._report(each, f"{_KIND_NAMES[FAMILIES[first.kind]]}, as the first argument of {name} is")
        return not strange

    def _option(self, signature: Signature, at: ast.expr) -> Constant | None:
        constant = self._literal(at, self.skeleton.span(at)) if isinstance(at, ast.Constant) else None
        value = constant.value if constant is not None else None
        if signature.option == "zone":
            if isinstance(value, str) and value in zone_names():
                return constant
            hint = nearest(value, zone_names()) if isinstance(value, str) else None
            self.report.add(self.skeleton.span(at), 'the name of a time zone, in quotes: "Europe/Berlin"', hint)
        else:
            if constant is not None and constant.kind == "integer" and 0 <= constant.value <= DIGITS_MAX:  # type: ignore[operator]
                return constant
            self.report.add(self.skeleton.span(at), f"how many digits, from 0 to {DIGITS_MAX}")
        return None


def _quotes_hint(left: Node, right: Node) -> str | None:
    """What to write in place of a text that is held against a number."""
    text, other = (left, right) if isinstance(left, Constant) and left.kind == "string" else (right, left)
    if not isinstance(text, Constant) or not isinstance(text.value, str) or FAMILIES[other.kind] != "number":
        return None
    try:
        return f"write epoch milliseconds: {parse_instant_ms(text.value)}"
    except ValueError:
        return "numbers and durations are written without quotes"
