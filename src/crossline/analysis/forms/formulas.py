"""The numbers of a formula: what it holds something against."""

from __future__ import annotations

import re

_LINE = re.compile(
    r"""(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(?P<sign>>=|<=|==|!=|>|<)\s*(?P<number>-?\d[\d_.]*(?:e[+-]?\d+)?[a-z]*)""",
    re.VERBOSE,
)
_JOINS = re.compile(r"\b(?:and|or|not)\b|[(),]")


def lines_in(when: str) -> list[tuple[str, str]]:
    """What a formula holds against numbers: the words before each, and the number.

    >>> lines_in("senders >= 6 and received >= 150000 and name == 'a > 3'")
    [('senders >=', '6'), ('received >=', '150000')]
    """
    found = []
    for match in _LINE.finditer(when):
        if match["number"]:
            before = _JOINS.split(when[: match.start()])[-1]
            after = _JOINS.split(when[match.end() :])[0].strip()
            text = f"{before} {match['sign']}" + (f" … {after}" if after else "")
            found.append((" ".join(text.split()), match["number"]))
    return found


def line_spans(when: str) -> list[tuple[int, int]]:
    """The positions of these numbers in the text."""
    return [match.span("number") for match in _LINE.finditer(when) if match["number"]]
