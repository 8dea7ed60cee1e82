"""Numbers as people read them, and what they are held against."""

from __future__ import annotations

from typing import Any

DASH = "\N{EN DASH}"
_OPERATORS = {">=": "at least", ">": "over", "<=": "at most", "<": "under", "==": "exactly", "!=": "other than"}


def number(value: Any) -> str:
    """A number with its digits grouped; a dash where there is none.

    >>> number(12345), number(0.74), number(2375.5)
    ('12,345', '0.74', '2,375.5')
    """
    if value is None:
        return DASH
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.6g}" if abs(value) < 1e6 else f"{value:,.2f}"


def held_against(operator: str | None, threshold: Any) -> str:
    """``at least 6``; nothing where it is held against nothing.

    >>> held_against(">=", 6), held_against(None, None)
    ('at least 6', '')
    """
    return "" if operator is None or threshold is None else f"{_OPERATORS.get(operator, operator)} {number(threshold)}"


def counted(count: int, one: str, several: str = "") -> str:
    """``1 record``, ``13 records``.

    >>> counted(1, "alert"), counted(1300, "alert"), counted(2, "entry", "entries")
    ('1 alert', '1,300 alerts', '2 entries')
    """
    return f"{count:,} {one if count == 1 else several or one + 's'}"
