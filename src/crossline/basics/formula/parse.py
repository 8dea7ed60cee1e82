"""From the words of a formula to Python's syntax tree, with each node's place in the text; or what stands in its way.

Words that cannot follow each other are all found in one pass, with a sentence for each, before Python's parser is asked
for the one thing it is needed for: what binds how strongly.
"""

from __future__ import annotations

import ast
from collections.abc import Collection
from typing import NamedTuple

from crossline.basics.formula.diagnostics import Report
from crossline.basics.formula.functions import SIGNATURES
from crossline.basics.formula.tokens import Token, lex
from crossline.basics.formula.tree import Span
from crossline.basics.times import UNIT_MS_BY_NAME

DEPTH_MAX = 64
OPERATORS_MAX = 500

_VALUE = "a value: a field, a figure, a number, a text in quotes"
_CLOSING = {"(": ")", "[": "]"}


class Skeleton(NamedTuple):
    """Python's tree over one plain word for each token; nodes begin and end where tokens do."""

    expression: ast.expr
    starts: dict[int, Token]
    ends: dict[int, Token]

    def token(self, node: ast.expr) -> Token:
        """The first word of ``node``."""
        return self.starts[node.col_offset]

    def span(self, node: ast.expr) -> Span:
        """Where ``node`` stands in the text."""
        return Span(self.token(node).span.start, self.ends[node.end_col_offset or 0].span.end)


def parse(names: Collection[str], report: Report) -> Skeleton | None:
    """The skeleton of the text of ``report``, which collects all that keeps it from being a formula.

    ``names``: the fields and figures there are. Where there is no skeleton, unknown names are reported as well.
    """
    tokens, whole = lex(names, report)
    if whole and _Order(report).fits(tokens):
        skeleton = _skeleton(tokens)
        if isinstance(skeleton, Skeleton):
            return skeleton
        report.add(skeleton, f"{_VALUE}; and brackets around what begins with not")
    for token, following in zip(tokens, [*tokens[1:], None], strict=False):
        if not token.name or report.has_finding_at(token.span):
            continue
        if following is not None and following.text == "(":
            if token.name not in SIGNATURES:
                report.unknown_function(token.name, token.span, names)
        elif token.name not in names:
            report.unknown_name(token.name, token.span, names)
    return None


def _skeleton(tokens: list[Token]) -> Skeleton | Span:
    """The skeleton, or where Python's grammar does not take it."""
    starts, ends, column = {}, {}, 0
    for token in tokens:
        starts[column] = token
        column += len(token.skeleton)
        ends[column] = token
        column += 1
    try:
        expression = ast.parse(" ".join(token.skeleton for token in tokens), mode="eval").body
    except SyntaxError as error:
        at = max((start for start in starts if start < (error.offset or 1)), default=0)
        return starts[at].span
    return Skeleton(expression, starts, ends)


class _Order:
    """Which word may follow which. ``brackets``: those that are open, with the prefixes that stand before each."""

    def __init__(self, report: Report) -> None:
        self.report = report
        self.brackets: list[tuple[Token, int, bool]] = []
        self.prefixes = 0
        self.depth = 0
        self.before: Token | None = None
        self.good = True

    def fits(self, tokens: list[Token]) -> bool:
        """Whether the words can follow each other; reports those that cannot, up to the limits of a formula."""
        operators = [token for token in tokens if token.sort in {"binary", "sign", "prefix", "open"}]
        if len(operators) > OPERATORS_MAX:
            more = f" and all that follows: {len(operators):,} operators and brackets"
            self._find(operators[OPERATORS_MAX], f"at most {OPERATORS_MAX} of them", None, more)
            return False
        for token in tokens:
            self._follow(token)
            self.before = token
            if self.depth > DEPTH_MAX:
                self._find(token, f"at most {DEPTH_MAX} brackets and signs within each other")
                return False
        self._end()
        return self.good

    def _find(self, token: Token, expected: str, hint: str | None = None, more: str = "") -> None:
        self.good = False
        self.report.add(token.span, expected, hint, more)

    @property
    def _wants_value(self) -> bool:
        return self.before is None or self.before.sort not in {"value", "close"}

    def _follow(self, token: Token) -> None:
        match token.sort:
            case "value":
                if not self._wants_value:
                    self._side_by_side(token)
            case "prefix" | "sign" if self._wants_value:
                self.prefixes += 1
                self.depth += 1
            case "prefix":
                self._find(token, f"an operator between {self._last()} and not", "for instance and not")
            case "open":
                self._open(token)
            case "close":
                self._close(token)
            case "comma":
                self._comma(token)
            case _:
                if self._wants_value:
                    self._find(token, f"{_VALUE}, before {token.text}")
                self._part_ends()

    def _part_ends(self) -> None:
        self.depth -= self.prefixes
        self.prefixes = 0

    def _last(self) -> str:
        return self.before.text if self.before is not None and len(self.before.text) < 20 else "what stands before"

    def _side_by_side(self, token: Token) -> None:
        hint, last = None, self.before
        if last is not None and last.kind == "integer" and token.name.lower() in UNIT_MS_BY_NAME:
            hint = f"a duration is written without a space: {last.text}{token.name}"
        elif last is not None and last.kind == token.kind == "string":
            hint = "a quote within a text is written \\' or \\\""
        self._find(token, f"an operator between {self._last()} and this", hint)

    def _open(self, token: Token) -> None:
        last = self.before
        called = last is not None and bool(last.name) and token.text == "("
        if not self._wants_value and not called:
            if token.text == "[":
                self._find(token, "an operator", "there are no subscripts: a nested field has dots: location.lat")
            else:
                self._find(token, f"an operator between {self._last()} and the bracket")
        self.brackets.append((token, self.prefixes, called))
        self.prefixes = 0
        self.depth += 1

    def _close(self, token: Token) -> None:
        if not self.brackets:
            self._find(token, "no bracket here: none is open")
            return
        opened, prefixes, called = self.brackets.pop()
        empty = self.before is opened
        if token.text != _CLOSING[opened.text]:
            self._find(token, f"{_CLOSING[opened.text]}, which closes {self.report.quote(opened.span)}")
        elif empty and not called:
            self._find(token, "at least one value between the brackets")
        elif self._wants_value and not empty and self.before is not None and self.before.sort != "comma":
            self._find(token, f"{_VALUE}, after {self._last()}")
        self._part_ends()
        self.depth -= 1
        self.prefixes = prefixes

    def _comma(self, token: Token) -> None:
        if not self.brackets:
            self._find(token, "one expression", "join two with and")
        elif self._wants_value:
            self._find(token, f"{_VALUE}, before the comma")
        self._part_ends()

    def _end(self) -> None:
        for opened, _, _ in self.brackets:
            self._find(opened, f"a {_CLOSING[opened.text]} that closes it")
        if self.before is not None and self._wants_value and self.before.sort not in {"open", "comma"}:
            self._find(self.before, f"{_VALUE}, after it")
