"""Lines are of doubles: the examples of docs/semantics.md, from one record and from columns."""

from __future__ import annotations

import pytest

from crossline.basics.formula.naive import value_of

from .formulakit import by_columns, formula

EXAMPLES = {
    "usual - 1.0 > 0.02": ({"usual": 1.02}, True),
    "usual * 3 == 0.3": ({"usual": 0.1}, False),
    "(amount_cents - 100) / 100 > 0.02": ({"amount_cents": 102}, False),
    "(amount_cents - 100) / 100 >= 0.02": ({"amount_cents": 102}, True),
    "abs(usual / 1.0 - 1) > 0.02": ({"usual": 1.02}, True),
    "abs(amount_cents / 100 - 1) > 0.02": ({"amount_cents": 102}, True),
    "abs(amount_cents / 100 - 1) > 0.0200001": ({"amount_cents": 102}, False),
}


@pytest.mark.parametrize("text", EXAMPLES)
def test_a_line_is_compared_with_the_double_that_came_out(text: str) -> None:
    record, holds = EXAMPLES[text]
    of = formula(text)
    assert by_columns(of, [record]) == [holds]
    assert value_of(of.root, record) is holds
