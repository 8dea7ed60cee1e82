"""Both evaluators give the same to the last bit, and what is written plainly is read as the same tree."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from crossline.basics.formula.canonical import canonical
from crossline.basics.formula.columns import FormulaProgram, compile_formula
from crossline.basics.formula.formula import Formula
from crossline.basics.formula.naive import evaluate, value_of
from crossline.basics.formula.tree import Node

from .formulakit import NUMBER_NODES, ROWS, TRUTH_NODES, Row, by_columns, columns_of, formula


def exactly(values: list[Any]) -> list[tuple[type, str]]:
    """A value in which 1, 1.0 and true differ, and -0.0 and 0.0."""
    return [(type(value), repr(value)) for value in values]


@given(NUMBER_NODES, ROWS)
def test_values_are_those_of_the_twin(node: Node, rows: list[Row]) -> None:
    expected = [value_of(node, row) for row in rows]
    assert exactly(by_columns(Formula("", node), rows)) == exactly(expected)


@given(TRUTH_NODES, ROWS)
def test_verdicts_are_those_of_the_twin(node: Node, rows: list[Row]) -> None:
    assert exactly(by_columns(Formula("", node), rows)) == exactly([evaluate(node, row) for row in rows])


@given(st.lists(NUMBER_NODES | TRUTH_NODES, min_size=2, max_size=4), ROWS)
def test_formulas_judged_together_are_judged_as_alone(nodes: list[Node], rows: list[Row]) -> None:
    formulas = [Formula("", node) for node in nodes]
    found = FormulaProgram(formulas).run(columns_of(rows), len(rows))
    together = [
        [value if there else None for value, there in zip(values.tolist(), valid.tolist(), strict=True)]
        for values, valid in found
    ]
    assert [exactly(each) for each in together] == [exactly(by_columns(each, rows)) for each in formulas]


@given(NUMBER_NODES | TRUTH_NODES, ROWS)
def test_of_other_names_it_says_the_same(node: Node, rows: list[Row]) -> None:
    given = Formula("", node)
    called = {name: f"\x1f{number}" for number, name in enumerate(columns_of([])) if number % 2}
    columns = {called.get(name, name): column for name, column in columns_of(rows).items()}
    other = given.renamed(called)
    assert set(other.names) == {called.get(name, name) for name in given.names}
    values, valid = compile_formula(other)(columns, len(rows))
    found = [value if there else None for value, there in zip(values.tolist(), valid.tolist(), strict=True)]
    assert exactly(found) == exactly(by_columns(given, rows))


@given(st.lists(st.floats(-1e6, 1e6) | st.integers(-(10**7), 10**7).map(lambda each: each / 2000)), st.integers(0, 15))
def test_rounding_is_python_s(values: list[float], digits: int) -> None:
    found = by_columns(formula(f"round(usual, {digits})", "value"), [{"usual": value} for value in values])
    assert exactly(found) == exactly([round(value, digits) for value in values])


@given(NUMBER_NODES)
def test_a_value_written_plainly_is_read_as_itself(node: Node) -> None:
    again = formula(canonical(node), "value")
    assert again == Formula("", node)
    assert again.canonical == canonical(node)


@given(TRUTH_NODES)
def test_a_verdict_written_plainly_is_read_as_itself(node: Node) -> None:
    again = formula(canonical(node))
    assert again == Formula("", node)
    assert again.canonical == canonical(node)
