"""Plans whose formulas are far more than their thresholds: one row may emit all of them."""

from __future__ import annotations

import dataclasses

import pytest

from crossline.basics.formula.check import check
from crossline.basics.formula.formula import Formula
from crossline.plan.spaces import FormulaPlan, KeySpacePlan
from crossline.programs.program import FormulaPredicate
from crossline.state.windows.store import KeySpaceState

from .naive import FOREVER, Naive, Row, batch_of, count_plan, line, plain


def formula(number: int, when: str) -> FormulaPlan:
    """A formula over the count of the only window."""
    read = check(when, {"n": "integer"}, (), "verdict")
    assert isinstance(read, Formula), read
    return FormulaPlan(
        rule_id=f"f{number}",
        version=1,
        filter=0,
        figures=(("n", 0, 0),),
        verdict=FormulaPredicate(("n",), read, None),
        rearm_ms=100,
        emit_every=number % 2 == 0,
        cooldown_ms=0,
        spans=(FOREVER,),
        judge_lateness_ms=None,
    )


def with_formulas(plan: KeySpacePlan, formulas: int) -> KeySpacePlan:
    whens = ("n >= 1", "n >= 2", "n > 3 or n == 1", "n + 1 > 2 * n", "missing(n)")
    made = tuple(formula(number, whens[number % len(whens)]) for number in range(formulas))
    return dataclasses.replace(plan, formulas=made)


@pytest.mark.timeout(120)
@pytest.mark.parametrize(("lines", "formulas"), [(0, 63), (0, 65), (0, 200), (1, 66), (70, 3)])
def test_all_formulas_may_emit_at_one_row(lines: int, formulas: int) -> None:
    plan = with_formulas(count_plan(100, *(line(0, ">=", 1, rule_id=f"r{i}") for i in range(lines))), formulas)
    naive, state = Naive(plan), KeySpaceState(plan)
    for start in range(0, 12, 4):
        rows = [Row("ab"[i % 2], f"n{i}", i * 10) for i in range(start, start + 4)]
        found = state.judge(batch_of(plan, rows))
        assert plain(found) == naive.judge(rows)[0]
        assert len(found) >= formulas
