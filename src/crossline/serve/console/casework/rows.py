"""A case as a row of a list: its sentence with the entity apart, what it is about, money, decision, age."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from crossline.basics.texts.money import amount_text, with_code
from crossline.basics.times import parse_instant_ms
from crossline.serve.console.casework.address import QueueQuery
from crossline.serve.console.layout.moments import Moment
from crossline.serve.console.layout.shell import initials
from crossline.serve.console.request import PageRequest

LONG_ID = 14  # characters; longer ids are cut in their middle


@dataclass(frozen=True, slots=True)
class TextPiece:
    """A part of a sentence. ``whole``: of an id, which may be cut; empty: it is text."""

    text: str
    whole: str = ""
    path: str = ""


@dataclass(frozen=True, slots=True)
class CaseRow:
    """A row.

    ``meta``: the second line; ``amounts``: of all currencies, where there are several; ``who``: who has it,
    ``mark``: the initials; ``quiet``: it is another person's; ``fresh``: it is new; ``name``: what else it is called
    for who listens.
    """

    number: str
    address: str
    severity: str
    sentence: tuple[TextPiece, ...]
    meta: str
    money: str
    amounts: str
    decision: str
    who: str
    mark: str
    at: Moment
    age: str
    quiet: bool
    fresh: bool
    name: str


def row_of(
    asked: PageRequest,
    case: Mapping[str, Any],
    wanted: QueueQuery,
    linked: int = 0,
    seen: int | None = None,
    code: str = "",
) -> CaseRow:
    """A case as a row. ``seen``: cases opened after that number are new; ``code``: the currency in the header."""
    last_ms = parse_instant_ms(case["last_at"])
    who = case["escalated_to"] if case["status"] == "escalated" else case["assignee"]
    decision = case["decision"] or {}
    money = money_text(case["money"], code)
    age = asked.times.age(last_ms)
    lines = [f"at risk {money}" if money else ""]
    lines += [str(decision.get("standing", "")).replace("_", " "), f"{age} ago"]
    return CaseRow(
        number=case["number"],
        address=wanted.address(f"/cases/{case['number']}"),
        severity=case["severity"] or "info",
        sentence=pieces(case["sentence"], (each["value"] for each in case["entities"])),
        meta=" · ".join(_meta(case, linked)),
        money=_first(case["money"], code),
        amounts=money if len(case["money"] or ()) > 1 else "",
        decision=str(decision.get("standing", "")),
        who=who or "",
        mark=initials(who) if who else "+",
        at=asked.times.moment(last_ms),
        age=age,
        quiet=bool(who) and who != asked.who.name,
        fresh=seen is not None and number_of(case) > seen,
        name=", ".join(each for each in lines if each),
    )


def number_of(case: Mapping[str, Any]) -> int:
    """Of C-2041 the 2041."""
    return int(str(case["number"]).rpartition("-")[2])


def _meta(case: Mapping[str, Any], linked: int) -> Iterable[str]:
    yield case["number"]
    rules = list(dict.fromkeys(each["rule_id"] for each in case["rules"]))
    if rules:
        more = len(rules) - 1
        yield rules[0] + (f" +{more} {'rule' if more == 1 else 'rules'}" if more else "")
    if case["alert_count"] > 1:
        yield f"{case['alert_count']} alerts"
    if linked:
        yield f"{linked} linked"
    if case["retracted"]:
        yield "retracted"
    if case["status"] == "resolved":
        yield f"resolved as {case['label']}" if case["label"] else "resolved"
    elif case["status"] in {"snoozed", "escalated"}:
        yield case["status"]


def pieces(sentence: str, ids: Iterable[str]) -> tuple[TextPiece, ...]:
    """A sentence in its parts, ids of it apart; those that are part of a longer word are none.

    >>> [each.text for each in pieces("card 25e92bb506fa9863 paid", ["25e92bb506fa9863"])]
    ['card ', '25e92bb5…9863', ' paid']
    """
    found = [TextPiece(sentence)]
    for each in sorted({one for one in ids if len(one) > 1}, key=len, reverse=True):
        parts: list[TextPiece] = []
        for piece in found:
            if piece.whole:
                parts.append(piece)
                continue
            texts = re.split(rf"(?<!\w){re.escape(each)}(?!\w)", piece.text)
            for number, text in enumerate(texts):
                if number:
                    parts.append(TextPiece(short(each), each))
                if text:
                    parts.append(TextPiece(text))
        found = parts
    return tuple(found)


def short(value: str) -> str:
    """A long id, cut in its middle: 8 characters and 4."""
    return value if len(value) <= LONG_ID else f"{value[:8]}…{value[-4:]}"


def money_text(money: Sequence[Mapping[str, Any]] | None, code: str = "") -> str:
    """Amounts by currency: ``EUR 2,683.67``; without the code where the header has it."""
    if not money:
        return ""
    return ", ".join(_amount(each, code) for each in money)


def _first(money: Sequence[Mapping[str, Any]] | None, code: str) -> str:
    """The largest amount, and how many others there are in other currencies."""
    if not money:
        return ""
    largest = max(money, key=lambda each: Decimal(each["amount"]))
    return _amount(largest, code) + (f" +{len(money) - 1}" if len(money) > 1 else "")


def _amount(given: Mapping[str, Any], code: str) -> str:
    amount, currency = given["amount"], given["currency"]
    return amount_text(amount, currency) if currency in {"", code} else with_code(amount, currency)


def one_code(cases: Iterable[Mapping[str, Any]]) -> str:
    """The currency of all of them; empty if there are several, or none."""
    found = {each["currency"] for case in cases for each in case["money"] or ()}
    return next(iter(found)) if len(found) == 1 else ""


def sums(cases: Iterable[Mapping[str, Any]]) -> str:
    """What is at risk in all of them, by currency."""
    found: dict[str, Decimal] = {}
    for case in cases:
        for each in case["money"] or ():
            found[each["currency"]] = found.get(each["currency"], Decimal()) + Decimal(each["amount"])
    return money_text([{"currency": name, "amount": f"{value:f}"} for name, value in sorted(found.items())])
