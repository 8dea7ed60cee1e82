"""The words of a formula, and what Python would see in their place.

Python's parser is never given the text itself, only one plain word for each of ours: a name, a number, an operator. So
durations, dotted fields and ``true`` are what they are here, and no odd character reaches it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from crossline.basics.fields import FieldKind
from crossline.basics.formula.diagnostics import Report
from crossline.basics.formula.tree import Span
from crossline.basics.texts.problems import nearest
from crossline.basics.times import UNIT_MS_BY_NAME, parse_duration_ms

LENGTH_MAX = 4_000

_DIGITS_MAX = 30

_D = r"[0-9]+(?:_[0-9]+)*"
_WORDS = re.compile(
    rf"""(?P<space>\s+)
    |(?P<prefixed>[bBfFrRuU]{{1,2}}(?=["']))
    |(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    |(?P<open>["'])
    |(?P<number>(?P<digits>(?:{_D}(?:\.(?:{_D})?)?|\.{_D})(?:[eE][+-]?[0-9]+)?)(?P<unit>\w*))
    |(?P<name>[^\W\d]\w*(?:\.[^\W\d]\w*)*)
    |(?P<symbol>===|!==|<<|>>|\*\*|//|==|!=|<=|>=|<>|=>|=<|&&|\|\||:=|->|[-+*/%<>(),=!&|^~@\[\].:;{{}}?])
    |(?P<odd>[^-\s\w"'+*/%<>(),=!&|^~@\[\].:;{{}}?]+|.)""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED = {"\\": "\\", "'": "'", '"': '"', "n": "\n", "t": "\t", "r": "\r"}

Sort = Literal["value", "binary", "prefix", "sign", "open", "close", "comma"]
_SORTS: dict[str, Sort] = {
    **dict.fromkeys(("*", "/", "//", "%", "==", "!=", "<", "<=", ">", ">=", "and", "or", "in", "not in"), "binary"),
    **dict.fromkeys(("+", "-"), "sign"),
    **dict.fromkeys(("(", "["), "open"),
    **dict.fromkeys((")", "]"), "close"),
    ",": "comma",
    "not": "prefix",
}
# What people write who come from elsewhere, and what it is here.
_SLIPS = {
    "=": ("==", "two signs compare: =="),
    "===": ("==", "two signs are enough: =="),
    "!==": ("!=", "write !="),
    "<>": ("!=", "write !="),
    "=>": (">=", "write >="),
    "=<": ("<=", "write <="),
    "&&": ("and", "write and"),
    "||": ("or", "write or"),
    "!": ("not", "write not"),
}
_REFUSED = {
    **dict.fromkeys(("&", "|", "^", "~", "<<", ">>"), "numbers have no bits here: write and, or, not"),
    **dict.fromkeys(("{", "}"), "a list of values is written in round brackets: in (1, 2)"),
    "**": "there are no powers: write x * x, or sqrt(x)",
    "@": "numbers are multiplied by *",
    ":=": "a formula gives no names: make it a figure, or write it twice",
    ":": "there are no slices and no mappings in a formula",
    ".": "a dot stands inside a name or number: location.lat, 0.5",
    ";": "a formula is one expression: join two with and",
    "?": "there is no choice by ? and :; two rules, or and and or, say the same",
    "->": "what is meant may be >=, or a - b",
}
_CHOICE = "there is no if: say it with and and or, or in two rules"
_LOOP = "there are no loops: a figure counts or sums over records"
_NULL = "missing(x) asks whether x has no value"
_REFUSED_WORDS = {
    **dict.fromkeys(("if", "else"), _CHOICE),
    **dict.fromkeys(("for", "async", "await", "yield"), _LOOP),
    **dict.fromkeys(("None", "none", "null", "NULL", "Null", "nil", "undefined"), _NULL),
    "lambda": "there are no functions of your own in a formula",
    "is": "== compares, and missing(x) asks whether x has no value",
}
_TRUTHS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_KEYWORDS = ("and", "or", "not", "in")
_QUOTES = frozenset("`\u00b4\u2018\u2019\u201c\u201d\u201e\u00ab\u00bb")


@dataclass(frozen=True, slots=True)
class Token:
    """One word. ``skeleton``: what Python sees in its place. ``kind``: of a literal, whose ``value`` it has.

    ``name``: of a field, figure or function.
    """

    text: str
    span: Span
    sort: Sort
    skeleton: str
    value: int | float | str | bool = 0
    kind: FieldKind | None = None
    name: str = ""


def lex(names: Collection[str], report: Report) -> tuple[list[Token], bool]:
    """The words of the text of ``report``, which has at most LENGTH_MAX characters; errors go there.

    What is in ``names`` is a name, also where it looks odd. Second: whether that is all, and nothing was left out.
    """
    lexer = _Lexer(names, report)
    for match in _WORDS.finditer(report.text):
        lexer.take(match)
        if match.lastgroup == "open":
            break
    return lexer.tokens, lexer.whole


class _Lexer:
    def __init__(self, names: Collection[str], report: Report) -> None:
        self.names, self.report, self.text = names, report, report.text
        self.tokens: list[Token] = []
        self.whole = True

    def take(self, match: re.Match[str]) -> None:
        span, written = Span(*match.span()), match[0]
        match match.lastgroup:
            case "prefixed":
                self._refuse(span, "a plain text in quotes", "there are no f, r or b texts here: leave the letter out")
            case "text":
                self._text(written, span)
            case "open":
                self._refuse(Span(span.start, len(self.text)), f"a closing {written}")
            case "number" | "unit":
                self._number(match["digits"], match["unit"], span)
            case "name":
                self._word(written, span)
            case "symbol":
                self._symbol(written, span)
            case "odd":
                hint = "a text stands in ' or in \"" if _QUOTES & set(written) else None
                self._refuse(span, "what a formula is made of: names, numbers, texts, operators", hint)

    def _refuse(self, span: Span, expected: str, hint: str | None = None) -> None:
        self.whole = False
        self.report.add(span, expected, hint)

    def _add(self, span: Span, word: str) -> None:
        before = self.tokens[-1] if self.tokens else None
        if word == "in" and before is not None and before.skeleton == "not":
            self.tokens.pop()
            span, word = Span(before.span.start, span.end), "not in"
        self.tokens.append(Token(self.text[span.start : span.end], span, _SORTS[word], word))

    def _value(self, span: Span, value: float | str | bool, kind: FieldKind) -> None:
        skeleton = "''" if kind == "string" else "1"
        self.tokens.append(Token(self.text[span.start : span.end], span, "value", skeleton, value, kind))

    def _text(self, written: str, span: Span) -> None:
        for escape in _ESCAPE.finditer(written):
            if escape[1] not in _ESCAPED:
                at = Span(span.start + escape.start(), span.start + escape.end())
                self.report.add(at, r"one of \\ \' \" \n \r \t", r"a backslash itself is written \\")
        self._value(span, _ESCAPE.sub(lambda found: _ESCAPED.get(found[1], ""), written[1:-1]), "string")

    def _number(self, digits: str, unit: str, span: Span) -> None:
        value: int | float = 0
        if unit:
            value = self._duration(digits, unit, span)
        elif digits.replace("_", "").isdigit():
            value = int(digits) if len(digits) <= _DIGITS_MAX else 2**64
            if value > 2**63:
                self.report.add(span, "a whole number of at most 64 bits", "with .0 behind it, it is a real number")
                value = 0
        else:
            value = float(digits)
            if not math.isfinite(value):
                self.report.add(span, "a finite number")
                value = 0.0
        self._value(span, value, "number" if isinstance(value, float) else "integer")

    def _duration(self, digits: str, unit: str, span: Span) -> int:
        expected = "a number, or a duration: 200ms, 30s, 10m, 24h, 7d"
        hint = None
        if unit in UNIT_MS_BY_NAME or (unit.isascii() and unit.lower() == unit):
            try:
                return parse_duration_ms(digits.replace("_", "") + unit)
            except ValueError as error:
                reason = str(error).rpartition('" is ')[2]
                expected = expected if "a duration" in reason else f"{expected} ({reason})"
                hint = None if unit in UNIT_MS_BY_NAME else nearest(unit, UNIT_MS_BY_NAME)
        elif unit.lower() in UNIT_MS_BY_NAME:
            hint = f"units are small letters: {digits}{unit.lower()}"
        self.report.add(span, expected, hint)
        return 0

    def _word(self, word: str, span: Span) -> None:
        if word in _KEYWORDS:
            self._add(span, word)
        elif word in _TRUTHS:
            self._value(span, _TRUTHS[word], "boolean")
        elif word in self.names or (word.lower() not in _KEYWORDS and word not in _REFUSED_WORDS):
            self.tokens.append(Token(word, span, "value", "n", name=word))
        elif word in _REFUSED_WORDS:
            self._refuse(span, "a name, a value, or one of and, or, not, in", _REFUSED_WORDS[word])
        else:
            self.report.add(span, word.lower(), f"write {word.lower()}")
            self._add(span, word.lower())

    def _symbol(self, symbol: str, span: Span) -> None:
        if symbol in _SORTS:
            self._add(span, symbol)
        elif symbol in _SLIPS:
            meant, hint = _SLIPS[symbol]
            self.report.add(span, meant, hint)
            self._add(span, meant)
        else:
            self._refuse(span, "an operator: + - * / // % == != < <= > >= and or not in", _REFUSED[symbol])
