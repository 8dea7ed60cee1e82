"""What would not have fired, as a page shows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from crossline.backtest.investigation.parameters import plain
from crossline.basics.times import parse_instant_ms
from crossline.serve.console.charts.words import Wording, duration


@dataclass(frozen=True, slots=True)
class CounterfactualRow:
    """A change under which the verdict turns. ``sooner``: the rule would have fired sooner with it."""

    what: str
    was: str
    turns: str
    then: str
    sooner: bool


@dataclass(frozen=True, slots=True)
class CounterfactualTable:
    """``share``: how far the search is, 0 to 1; None: it is over. ``why_none``: why nothing was looked for."""

    rows: tuple[CounterfactualRow, ...] = ()
    left: tuple[str, ...] = ()
    why_none: str = ""
    share: float | None = None
    runs: int = 0


def changes_of(status: int, body: Mapping[str, Any], words: Wording, money: str | None) -> CounterfactualTable:
    """The answer of the API in words."""
    if status == 202:
        return CounterfactualTable(share=float((body.get("progress") or {}).get("share") or 0.0))
    rows = tuple(
        CounterfactualRow(
            _subject_of(each["what"], each["unit"], words, money),
            _value(each["was"], each["unit"], words, money),
            _value(each["turns_at"], each["unit"], words, money),
            each["then"],
            bool(each["sooner"]),
        )
        for each in body["rows"]
    )
    left = tuple(f"{each['what']}: {each['why']}" for each in body["not_found"])
    return CounterfactualTable(rows, left, body.get("why_none") or "", None, int(body.get("runs") or 0))


def _subject_of(text: str, unit: str, words: Wording, money: str | None) -> str:
    """What is changed; an amount is not called by the field of its minor units, since it is not shown in them."""
    if not money or unit != money or words.amount(money) == money:
        return text
    named = text.replace(money, words.amount(money))
    return named[:1].upper() + named[1:]


def _value(value: Any, unit: str, words: Wording, money: str | None) -> str:
    if value is None:
        return ""
    if unit == "instant":
        return words.clock(parse_instant_ms(value))
    if unit == "ms":
        return duration(value, 4)  # to the millisecond: one less, and the verdict does not turn
    return words.money(value) if unit and unit == money else f"{plain(value):,}"
