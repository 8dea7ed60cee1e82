"""Types of rule fields: how they are written, and how an error names the expected ones."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer

from crossline.basics.share import SHARE_FORM, read_share
from crossline.basics.texts.problems import nearest
from crossline.basics.texts.validation import refusal
from crossline.basics.times import DURATION_FORM, INSTANT_FORM, UNIT_MS_BY_NAME, parse_duration_ms, parse_instant_ms

_RULE_ID = re.compile(r"[a-z0-9_.-]{1,64}", re.ASCII)


def _duration(value: Any) -> int | None:
    if value is None:
        return None
    try:
        return parse_duration_ms(value)
    except ValueError as error:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        hint = f"write the unit: {value}s for seconds" if is_number else None
        raise refusal(_reason(error, DURATION_FORM), hint) from None


def _seconds(value: Any) -> int | None:
    if value is None:
        return None
    try:
        return parse_duration_ms(value, bare_seconds=True)
    except ValueError as error:
        raise refusal(_reason(error, f"{DURATION_FORM}, or a number of seconds")) from None


def _reason(error: ValueError, form: str) -> str:
    text = str(error)
    return form if DURATION_FORM in text else f"{form} ({text.split(' is ', 1)[-1]})"


def _instant(value: Any) -> int | None:
    if value is None:
        return None
    try:
        return parse_instant_ms(value)
    except ValueError:
        raise refusal(INSTANT_FORM) from None


def _rule_id(value: Any) -> str:
    if isinstance(value, str) and _RULE_ID.fullmatch(value):
        return value
    better = re.sub(r"[^a-z0-9_.-]+", "_", value.lower())[:64] if isinstance(value, str) and value else None
    raise refusal("a name of 1 to 64 characters out of a-z 0-9 _ . -", f"for instance {better}" if better else None)


def _number(value: Any) -> int | float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise refusal("a number")
    if not math.isfinite(value) or (isinstance(value, int) and not -(2**63) <= value < 2**63):
        raise refusal("a finite number of at most 64 bits")
    return value


def _names(value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    names = (value,) if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) and name for name in names):
        raise refusal("the name of a field, or a list of names")
    if len(set(names)) < len(names):
        raise refusal("each name once")
    return tuple(names)


def _record(value: Any) -> str | tuple[str, ...] | None:
    if value is None:
        return None
    if value == "none" or value == "all":  # noqa: PLR1714 - so that it is known to be a text
        return str(value)
    form = "none, all, or a list of fields"
    if isinstance(value, str):
        raise refusal(form, nearest(value, ("none", "all")) or f"for one field [{value}]")
    if not isinstance(value, list | tuple) or not value or not all(isinstance(name, str) and name for name in value):
        raise refusal(form)
    if len(set(value)) < len(value):
        raise refusal("each field once")
    return tuple(value)


def _as_list(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(text, str) for text in value):
        raise refusal("a list of texts")
    return tuple(value)


def _share(value: Any) -> str | None:
    if value is None:
        return None
    try:
        return read_share(value if isinstance(value, str) else "")
    except ValueError:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        raise refusal(SHARE_FORM, f"did you mean {value}%?" if number and 0 <= value <= 100 else None) from None


def _unit(value: Any) -> str | None:
    if value is None or (isinstance(value, str) and value.lower() in UNIT_MS_BY_NAME):
        return value
    names = ("ms", "s", "m", "h", "d", "seconds", "minutes", "hours", "days")
    raise refusal("a unit: ms, s, m, h, d or its long name", nearest(value, names))


def not_yet(expected: str) -> Callable[[Any], Any]:
    """A validator of a field that belongs to the contract and is not carried out by this version."""

    def refuse(value: Any) -> Any:
        if value is None:
            return None
        raise refusal(expected)

    return refuse


def _as_text(ms: int | None) -> str | None:
    return None if ms is None else f"{ms}ms"


Duration = Annotated[int, BeforeValidator(_duration), PlainSerializer(_as_text)]
OptionalDuration = Annotated[int | None, BeforeValidator(_duration), PlainSerializer(_as_text)]
OptionalSeconds = Annotated[int | None, BeforeValidator(_seconds), PlainSerializer(_as_text)]
OptionalInstant = Annotated[int | None, BeforeValidator(_instant)]
OptionalShare = Annotated[str | None, BeforeValidator(_share)]
RuleId = Annotated[str, BeforeValidator(_rule_id)]
Number = Annotated[int | float, BeforeValidator(_number)]
OptionalNumber = Annotated[int | float | None, BeforeValidator(_number)]
Names = Annotated[tuple[str, ...], BeforeValidator(_names), PlainSerializer(list)]
Texts = Annotated[tuple[str, ...], BeforeValidator(_texts), PlainSerializer(list)]
RecordAsked = str | tuple[str, ...]  # none, all, or fields
GivenRecord = Annotated[RecordAsked, BeforeValidator(_record), PlainSerializer(_as_list)]
OptionalRecord = Annotated[RecordAsked | None, BeforeValidator(_record), PlainSerializer(_as_list)]
Unit = Annotated[str | None, BeforeValidator(_unit)]
