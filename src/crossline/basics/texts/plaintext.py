"""Texts from outside made safe to show: what came in with a record must not steer a terminal or a spreadsheet."""

from __future__ import annotations

import json
import re

# What a spreadsheet takes as the start of a formula, in its plain and its full-width form.
_FORMULA_STARTS = frozenset("=+-@\uff1d\uff0b\uff0d\uff20")
_PLAIN_NUMBER = re.compile(r"-?\d+(\.\d+)?", re.ASCII)


def printable(text: str) -> str:
    r"""``text`` with what does not print written out, such as ``\x1b`` or ``\u202e``.

    That is control characters, marks that turn the reading direction, and halves of surrogate pairs.
    """
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def printable_lines(text: str) -> str:
    """As ``printable``, line by line: its line breaks are our own."""
    return "\n".join(map(printable, text.split("\n")))


def printable_json(text: str) -> str:
    """The JSON document ``text``, which stays the same document, with what does not print written as JSON does."""
    return text if text.isprintable() else "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)


def spreadsheet_cell(text: str) -> str:
    """``text`` as a cell that no spreadsheet runs: printable, and an apostrophe before what reads as a formula.

    A plain number such as -12.50 stays what it is.
    """
    shown = printable(text)
    formula = shown.lstrip()[:1] in _FORMULA_STARTS and not _PLAIN_NUMBER.fullmatch(shown)
    return f"'{shown}" if formula else shown
