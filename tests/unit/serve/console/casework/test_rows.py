"""Money in rows of cases, in charts and in sums, with the digits of its currency."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from crossline.serve.cases.statistics import queries
from crossline.serve.console.casework.rows import _first, money_text, sums
from crossline.serve.console.charts.words import Wording
from crossline.serve.console.pages.entities.consequence import Stopped


def money(**amounts: str) -> list[dict[str, Any]]:
    return [{"currency": name, "amount": amount} for name, amount in amounts.items()]


def test_a_row_says_yen_without_decimals() -> None:
    assert money_text(money(JPY="98000.00")) == "JPY 98,000"
    assert money_text(money(JPY="98000.00"), "JPY") == "98,000"
    assert money_text(money(EUR="7.5", JPY="98000", KWD="1.2345")) == "EUR 7.50, JPY 98,000, KWD 1.234"
    assert _first(money(EUR="7.5", JPY="98000"), "") == "JPY 98,000 +1"
    assert sums([{"money": money(JPY="1000")}, {"money": money(JPY="500", EUR="1")}]) == "EUR 1.00, JPY 1,500"


def test_amounts_without_a_currency_stand_as_they_are() -> None:
    assert money_text([{"currency": "", "amount": "1204.5"}]) == "1,204.5"


def test_rules_entities_and_charts_say_the_same() -> None:
    assert queries.money_text({"JPY": 98_000.0, "EUR": 0.004, "BHD": 0.004}) == "BHD 0.004, JPY 98,000"
    caption = "".join(text for text, _ in Stopped(2, {"EUR": Decimal("7.5"), "JPY": Decimal(98_000)}).caption())
    assert "2 records that raised alerts, EUR 7.50 and JPY 98,000." in caption
    assert Wording(currency="JPY").money(98_000, code=True) == "JPY 98,000"
    assert Wording(currency="JPY", minor=100).money(9_800_000) == "98,000"
    assert Wording(currency="KWD", minor=1_000).money(98_000) == "98.000"
    assert Wording(minor=100).money(98_000) == "980.00"
