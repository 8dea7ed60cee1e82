"""Amounts of money as people read them: each with the digits of its currency."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import ROUND_HALF_EVEN, Decimal, localcontext

# Currencies whose minor unit is not a hundredth: ISO 4217, list one (active codes), column "minor unit", as of 2025.
_DIGITS: Mapping[str, int] = {
    **dict.fromkeys(("BIF", "CLP", "DJF", "GNF", "ISK", "JPY", "KMF", "KRW", "PYG", "RWF", "UGX", "UYI", "VND"), 0),
    **dict.fromkeys(("VUV", "XAF", "XOF", "XPF"), 0),
    **dict.fromkeys(("BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND"), 3),
    **dict.fromkeys(("CLF", "UYW"), 4),
}
_USUAL = 2
_PRECISION = 60


def digits_of(currency: str) -> int:
    """How many digits its amounts have behind the point; of a code that is none here, two.

    >>> digits_of("EUR"), digits_of("jpy"), digits_of("KWD"), digits_of("")
    (2, 0, 3, 2)
    """
    return _DIGITS.get(currency.strip().upper(), _USUAL)


def amount_text(amount: Decimal | float | str, currency: str) -> str:
    """An amount, its thousands marked, rounded to the digits of ``currency``; where that is "", with all it has.

    >>> amount_text("2683.67", "EUR"), amount_text(Decimal("150000"), "JPY"), amount_text("7.5", "KWD")
    ('2,683.67', '150,000', '7.500')
    >>> amount_text("7.5", "")
    '7.5'
    """
    value = Decimal(str(amount)) if isinstance(amount, float) else Decimal(amount)
    if not currency:
        return f"{value:,f}"
    with localcontext(prec=max(_PRECISION, value.adjusted() + _PRECISION)):
        rounded = value.quantize(Decimal(1).scaleb(-digits_of(currency)), rounding=ROUND_HALF_EVEN)
    return f"{rounded:,f}"


def with_code(amount: Decimal | float | str, currency: str) -> str:
    """The same behind the code.

    >>> with_code(1204.5, "EUR"), with_code("12", "")
    ('EUR 1,204.50', '12')
    """
    return f"{currency} {amount_text(amount, currency)}".lstrip()


def sums_text(amounts: Iterable[tuple[str, Decimal | float | str]], between: str = ", ") -> str:
    """Sums by currency.

    >>> sums_text([("EUR", Decimal("1204.5")), ("JPY", 98000)], " and ")
    'EUR 1,204.50 and JPY 98,000'
    """
    return between.join(with_code(amount, currency) for currency, amount in amounts)
