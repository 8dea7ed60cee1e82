"""What columns may be, what comes out, and that shared parts are computed once."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pyarrow as pa
import pytest

from crossline.basics.formula import vectors
from crossline.basics.formula.columns import FormulaProgram, compile_formula

from .formulakit import formula


def test_values_and_where_they_are() -> None:
    run = compile_formula(formula("declines / tries", "value"))
    values, valid = run({"declines": pa.array([1, 2, None]), "tries": pa.array([2, 0, 1])}, 3)
    assert (str(values.dtype), values.tolist()) == ("float64", [0.5, 0.0, 0.0])
    assert (str(valid.dtype), valid.tolist()) == ("bool", [True, False, False])


@pytest.mark.parametrize(
    ("text", "dtype"), [("tries + 1", np.int64), ("tries / 1", np.float64), ("event_time", np.int64)]
)
def test_types_of_values(text: str, dtype: type) -> None:
    values, valid = compile_formula(formula(text, "value"))({}, 2)
    assert values.dtype == dtype
    assert (values.tolist(), valid.tolist()) == ([0, 0], [False, False])


def test_a_verdict_is_never_missing_but_for_a_truth_of_the_record() -> None:
    values, valid = compile_formula(formula("tries > 1"))({}, 2)
    assert (values.dtype, values.tolist(), valid.tolist()) == (np.bool_, [False, False], [True, True])
    values, valid = compile_formula(formula("card.present"))({"card.present": pa.array([True, None])}, 2)
    assert (values.tolist(), valid.tolist()) == ([True, False], [True, False])


def test_numpy_with_and_without_a_mask() -> None:
    run = compile_formula(formula("tries + usual", "value"))
    given = {"tries": (np.array([1, 2, 3]), np.array([True, False, True])), "usual": (np.array([0.5, 1, np.nan]), None)}
    values, valid = run(given, 3)
    assert (values.tolist(), valid.tolist()) == ([1.5, 0.0, 0.0], [True, False, False])


def test_what_stands_under_a_mask_is_not_looked_at() -> None:
    run = compile_formula(formula("missing(tries) and not tries * tries > 0 and not usual > 0 and not card.present"))
    absent = np.array([False])
    given = {
        "tries": (np.array([2**63 - 1]), absent),
        "usual": (np.array([1.0]), absent),
        "card.present": (np.array([True]), absent),
    }
    assert run(given, 1)[0].tolist() == [True]


def test_arrow_in_chunks_and_of_other_widths() -> None:
    run = compile_formula(formula("tries > 1 and usual > 1 and status == 'a' and card.present"))
    given = {
        "tries": pa.chunked_array([pa.array([2], pa.int32()), pa.array([None, 2], pa.int32())]),
        "usual": pa.array([2, 2, 2], pa.int64()),
        "status": pa.chunked_array([pa.array(["a", "a"], pa.large_string()), pa.array(["b"], pa.large_string())]),
        "card.present": pa.array([True, True, True]),
    }
    assert run(given, 3)[0].tolist() == [True, False, False]
    given["status"] = pa.array(["b", "a", "a"]).dictionary_encode()
    assert run(given, 3)[0].tolist() == [False, False, True]


@pytest.mark.parametrize(
    ("text", "given", "message"),
    [
        ("tries > 1", {"tries": pa.array([0.5])}, "column tries has values of float64; expected those of kind integer"),
        ("tries > 1", {"tries": pa.array([True])}, "column tries has values of bool; expected those of kind integer"),
        ("usual > 1", {"usual": pa.array([True])}, "column usual has values of bool; expected those of kind number"),
        (
            "card.present",
            {"card.present": pa.array([1])},
            "column card.present has values of int64; expected those of kind boolean",
        ),
        (
            "status == 'a'",
            {"status": (np.array([1]), None)},
            "column status is tuple; expected an Arrow array of texts",
        ),
    ],
)
def test_a_column_of_another_kind(text: str, given: dict[str, object], message: str) -> None:
    with pytest.raises(TypeError) as caught:
        compile_formula(formula(text))(given, 1)
    assert str(caught.value) == message


def test_no_rows() -> None:
    for text in (
        "1 < 2",
        "tries > 1 and status in ('a',)",
        "hour(event_time, 'Europe/Berlin') > 2",
        "round(usual, 2) > log(3)",
    ):
        values, valid = compile_formula(formula(text))({}, 0)
        assert (values.dtype, values.tolist(), valid.tolist()) == (np.bool_, [], [])


def test_each_distinct_part_is_computed_once() -> None:
    formulas = [formula("declines / tries > 0.5 and declines / tries < 0.9"), formula("declines  /  tries", "value")]
    program = FormulaProgram(formulas)
    assert program.names == ("declines", "tries")
    given = {"declines": pa.array([6, 4]), "tries": pa.array([10, 10])}
    with mock.patch("crossline.basics.formula.columns.compute", wraps=vectors.compute) as compute:
        (verdict, _), (value, _) = program.run(given, 2)
    assert compute.call_count == 1
    assert (verdict.tolist(), value.tolist()) == ([True, False], [0.6, 0.4])


def test_what_follows_a_part_that_holds_nowhere_is_not_computed() -> None:
    formulas = [formula("tries > 99 and declines / tries > 0.5"), formula("tries > 9 and declines * 2 > tries")]
    given = {"declines": pa.array([6, 4]), "tries": pa.array([10, 10])}
    with mock.patch("crossline.basics.formula.columns.compute", wraps=vectors.compute) as compute:
        found = FormulaProgram(formulas).truths(given, 2)
    assert [each.args[0] for each in compute.call_args_list] == ["*"]
    assert [np.broadcast_to(each, 2).tolist() for each in found] == [[False, False], [True, False]]


def test_ordinary_integers_never_become_objects() -> None:
    """Python's own are a hundred times slower: one comparison of how large they can be must keep them out."""
    run = compile_formula(
        formula("(event_time - tries) * 1000 // 60 > amount_cents * 3 and -tries < abs(event_time % 7)")
    )
    given = {"event_time": pa.array([1_700_000_000_000]), "tries": pa.array([5]), "amount_cents": pa.array([2**40])}
    with mock.patch("crossline.basics.formula.vectors.objects", side_effect=AssertionError("slow")):
        assert run(given, 1)[0].tolist() == [True]
        with pytest.raises(AssertionError, match="slow"):
            run({**given, "amount_cents": pa.array([2**62])}, 1)
