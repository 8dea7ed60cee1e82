"""Risk scores as figures: the scores of the hits at an entity, each halved every half life.

As figures they are of the hits of several rules, and of a decayed sum. Here is what is written, and what may not stand
beside it; what a source of several rules' hits is stands in ``streams/inputs.py`` and ``composition.py``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from crossline.basics.streams.inputs import hits_of
from crossline.basics.texts.problems import Finding
from crossline.basics.texts.validation import refusal
from crossline.basics.times import format_duration

DAY_MS = 86_400_000
LEAST_MS = 1000  # of a half life
KEPT = 20  # half lives; what is older is worth less than a millionth of what it was
MOST_KEPT = 100  # half lives: beyond, the oldest is lost beside the latest
# What hits have of their rules, or what a sum over them has no use for.
_NOTHING_BESIDE = ("source_topic", "conditions", "bounds", "include_current", "delay", "resolution")
_ID = re.compile(r"[a-z0-9_.-]{1,64}", re.ASCII)


def check_risk(value: Any) -> Any:
    """Validator of ``risk``."""
    if value is None or value is True:
        return value
    ids = value if isinstance(value, list | tuple) else ()
    if not ids or not all(isinstance(each, str) and _ID.fullmatch(each) for each in ids):
        raise refusal("true for the hits of all rules, or a list of ids of rules, such as [card_testing, new_device]")
    if len(set(ids)) < len(ids):
        raise refusal("each rule once")
    return tuple(ids)


def risk_findings(
    given: Mapping[str, Any], half_life_ms: int | None, window_ms: int | None, *, alone: bool
) -> Iterator[Finding]:
    """What is wrong beside ``risk``. ``given``: the fields that are written; ``alone``: it is a shared figure."""
    for name in _NOTHING_BESIDE:
        if given.get(name) is not None and not (alone and name == "source_topic"):
            expected = f"no {name}: a risk score is of hits as they are; the rules that it is of say more"
            yield Finding((name,), f"{name} beside risk", expected)
    half_ms = DAY_MS if half_life_ms is None else half_life_ms
    if half_ms < LEAST_MS:
        yield Finding(("half_life",), format_duration(half_ms), f"at least {format_duration(LEAST_MS)}")
    elif window_ms is not None and window_ms > MOST_KEPT * half_ms:
        most = f"at most {MOST_KEPT} half lives, which is {format_duration(MOST_KEPT * half_ms)}"
        yield Finding(("window",), format_duration(window_ms), most, f"without one it is {KEPT} half lives")


def without_risk(half_life_ms: int | None) -> Iterator[Finding]:
    """What is wrong where there is no ``risk``."""
    if half_life_ms is not None:
        found = f"a half_life of {format_duration(half_life_ms)} without risk"
        yield Finding(("half_life",), found, "risk beside it: true, or a list of rules")


def beside_panes(figures: Mapping[str, Any]) -> Iterator[Finding]:
    """What is wrong where some figures of a rule have panes, and others are risk scores."""
    if any(each.resolution is not None for each in figures.values()):
        for name, each in figures.items():
            if each.risk is not None:
                expected = "a rule of its own for it: beside figures of panes, the records of hits are not kept"
                found = "a risk score beside figures with a resolution"
                yield Finding(("figures", name, "risk"), found, expected)


def risk_written(figure: Any) -> str | None:
    """The source that a figure is of which is written with ``risk``, whatever else is wrong with it."""
    risk = figure.get("risk") if isinstance(figure, dict) else None
    if risk is True:
        return hits_of(())
    ids = tuple(each for each in risk if isinstance(each, str)) if isinstance(risk, list | tuple) else ()
    return hits_of(ids) if ids else None
