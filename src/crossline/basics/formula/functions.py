"""The functions of formulas: how they are written, what they take and what they give."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from crossline.basics.fields import FieldKind

DIGITS_MAX = 15

Takes = Literal["numbers", "timestamp", "alike", "anything"]
Gives = Literal["the widest", "absolute", "integer", "number", "boolean"]

_WIDTH: dict[FieldKind, int] = {"integer": 0, "timestamp": 1, "number": 2}


@dataclass(frozen=True, slots=True)
class Signature:
    """``form``: how a call is written. It has from ``least`` to ``most`` arguments (None: any number).

    ``option``: what the last of ``most`` is, a literal that may be left out.
    """

    form: str
    takes: Takes
    gives: Gives
    least: int = 1
    most: int | None = 1
    option: Literal["digits", "zone"] | None = None


SIGNATURES = {
    "abs": Signature("abs(x)", "numbers", "absolute"),
    "min": Signature("min(a, b, …)", "numbers", "the widest", 2, None),
    "max": Signature("max(a, b, …)", "numbers", "the widest", 2, None),
    "round": Signature("round(x) or round(x, digits)", "numbers", "integer", 1, 2, "digits"),
    "log": Signature("log(x)", "numbers", "number"),
    "sqrt": Signature("sqrt(x)", "numbers", "number"),
    "hour": Signature('hour(t) or hour(t, "Europe/Berlin")', "timestamp", "integer", 1, 2, "zone"),
    "weekday": Signature('weekday(t) or weekday(t, "Europe/Berlin")', "timestamp", "integer", 1, 2, "zone"),
    "haversine_km": Signature("haversine_km(lat, lon, lat, lon)", "numbers", "number", 4, 4),
    "coalesce": Signature("coalesce(a, b, …)", "alike", "the widest", 2, None),
    "missing": Signature("missing(x)", "anything", "boolean"),
}


def widest(kinds: Iterable[FieldKind]) -> FieldKind:
    """The kind that has the values of all ``kinds``, which are of one family."""
    return max(kinds, key=lambda kind: _WIDTH.get(kind, 0))


def kind_of_call(signature: Signature, kinds: list[FieldKind], *, digits: bool) -> FieldKind:
    """What a call gives whose arguments, but for the option, are of ``kinds``. ``digits``: it has that option."""
    match signature.gives:
        case "the widest":
            return widest(kinds)
        case "absolute":
            return "number" if kinds[0] == "number" else "integer"
        case "integer":
            return "number" if digits and kinds[0] == "number" else "integer"
        case "number" | "boolean" as given:
            return given


def kind_of_arithmetic(operator: str, left: FieldKind, right: FieldKind) -> FieldKind:
    """What ``left operator right`` gives: a timestamp moved by an integer stays one, and `/` is real."""
    if operator == "/" or "number" in {left, right}:
        return "number"
    moved = (left, right) == ("timestamp", "integer") and operator in {"+", "-"}
    moved = moved or ((left, right) == ("integer", "timestamp") and operator == "+")
    return "timestamp" if moved else "integer"
