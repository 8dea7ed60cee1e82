"""Amounts have the digits of their currency: as ISO 4217 publishes them, checked by hand."""

from __future__ import annotations

from decimal import Decimal

import pytest

from crossline.basics.texts.money import amount_text, digits_of, sums_text, with_code


@pytest.mark.parametrize(
    ("currency", "digits"),
    [("EUR", 2), ("USD", 2), ("JPY", 0), ("KRW", 0), ("ISK", 0), ("HUF", 2), ("BHD", 3), ("TND", 3), ("CLF", 4)],
)
def test_digits_are_those_of_the_standard(currency: str, digits: int) -> None:
    assert digits_of(currency) == digits


@pytest.mark.parametrize(
    ("amount", "currency", "text"),
    [
        ("98000", "JPY", "JPY 98,000"),
        ("98000.00", "JPY", "JPY 98,000"),
        (98000.0, "JPY", "JPY 98,000"),
        (Decimal("1E+5"), "JPY", "JPY 100,000"),
        ("12.3456", "KWD", "KWD 12.346"),
        ("12", "KWD", "KWD 12.000"),
        ("2683.67", "EUR", "EUR 2,683.67"),
        (0.1 + 0.2, "EUR", "EUR 0.30"),
        ("-5", "EUR", "EUR -5.00"),
        ("12.5", "", "12.5"),
    ],
)
def test_an_amount_is_stated_with_them(amount: Decimal | float | str, currency: str, text: str) -> None:
    assert with_code(amount, currency) == text


def test_an_amount_of_any_size_is_stated() -> None:
    assert amount_text("9" * 90, "EUR") == ",".join(["999"] * 30) + ".00"
    assert amount_text("1E-30", "EUR") == "0.00"


def test_sums_are_joined() -> None:
    assert sums_text([("EUR", "1"), ("JPY", "1")]) == "EUR 1.00, JPY 1"
