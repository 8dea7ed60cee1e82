"""Claims about a record, as lint reasons about them: tests of single values, joined by and, or and not.

Conditions and formulas become claims (``conditions.py``, ``formulas.py``), which mean the same;
``satisfiability.py`` finds those that cannot hold. A ``Test`` holds if the value is present and passes. Its
negation holds if the value is missing, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

Relations = frozenset[str]  # of "<", "=", ">"
RELATIONS: dict[str, Relations] = {
    "<": frozenset("<"),
    "<=": frozenset("<="),
    "==": frozenset("="),
    "!=": frozenset("<>"),
    ">=": frozenset(">="),
    ">": frozenset(">"),
}
TURNED = {"<": ">", ">": "<", "=": "="}


@dataclass(frozen=True, slots=True)
class Test:
    """The named value is present, and ``operator`` holds with ``value``. ``in``, ``not_in``: a tuple of values."""

    __test__ = False  # no test of pytest's

    name: str
    operator: str
    value: Any
    kind: str = ""  # keeps true and 1 apart, which are equal in Python


@dataclass(frozen=True, slots=True)
class Present:
    """The named value is present."""

    name: str


@dataclass(frozen=True, slots=True)
class Relation:
    """Both values are there, and the first is to the second one of ``relations``."""

    left: str
    right: str
    relations: Relations


@dataclass(frozen=True, slots=True)
class Opaque:
    """An unanalysed condition ``text``: known is only whether it can be true, and whether it can be false."""

    text: str
    can_hold: bool = True
    can_fail: bool = True


@dataclass(frozen=True, slots=True)
class All:
    """Every part holds; with none, always."""

    parts: tuple[Claim, ...]


@dataclass(frozen=True, slots=True)
class Some:
    """At least one part holds; with none, never."""

    parts: tuple[Claim, ...]


@dataclass(frozen=True, slots=True)
class Denied:
    """The part does not hold."""

    part: Claim


Atom = Test | Present | Relation | Opaque
Claim = Atom | All | Some | Denied
Literal = tuple[Atom, bool]  # holds, or does not
ALWAYS, NEVER = All(()), Some(())
CASES_MAX = 256


def relation(left: str, operator: str, right: str) -> Relation:
    """``left operator right``, written in one way."""
    found = RELATIONS[operator]
    if left <= right:
        return Relation(left, right, found)
    return Relation(right, left, frozenset(TURNED[each] for each in found))


class TooManyError(Exception):
    """More cases than are looked at."""


def cases(claim: Claim) -> list[frozenset[Literal]]:
    """The ways in which ``claim`` can hold: in each of them all of its literals do. Raises TooManyError."""
    return list(dict.fromkeys(_cases(claim, holds=True)))


def _cases(claim: Claim, *, holds: bool) -> Iterator[frozenset[Literal]]:
    match claim:
        case Denied(part):
            yield from _cases(part, holds=not holds)
        case All(parts) if holds:
            yield from _joint(parts, holds=True)
        case Some(parts) if not holds:
            yield from _joint(parts, holds=False)
        case All(parts) | Some(parts):
            for part in parts:
                yield from _cases(part, holds=holds)
        case _:
            yield frozenset({(claim, holds)})


def _joint(parts: tuple[Claim, ...], *, holds: bool) -> list[frozenset[Literal]]:
    found: list[frozenset[Literal]] = [frozenset()]
    for part in parts:
        more = list(_cases(part, holds=holds))
        if len(found) * len(more) > CASES_MAX:
            raise TooManyError
        found = list(dict.fromkeys(a | b for a in found for b in more))
    return found
