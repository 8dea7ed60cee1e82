"""Whatever stands where a formula should: findings or a formula, never an exception, and soon."""

from __future__ import annotations

import copy
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossline.basics.formula.canonical import canonical
from crossline.basics.formula.check import check
from crossline.basics.formula.formula import Formula
from crossline.basics.formula.naive import value_of
from crossline.basics.formula.parse import DEPTH_MAX, OPERATORS_MAX
from crossline.basics.formula.tokens import LENGTH_MAX
from crossline.basics.texts.problems import Finding

from .formulakit import NAMES, NUMBER_NODES, TRUTH_NODES, as_text, by_columns, formula, refused

WORDS = [
    *("tries", "usual", "status", "event_time", "card.present", "abs", "min", "hour", "coalesce", "missing", "tris"),
    *(
        "and",
        "or",
        "not",
        "in",
        "is",
        "if",
        "else",
        "lambda",
        "for",
        "None",
        "true",
        "False",
        "await",
        "yield",
        "print",
    ),
    *("1", "0.5", "10m", "1e9", "'x'", '"Europe/Berlin"', "9223372036854775808", "1e999", "0x1", "1j", "07", "'", '"'),
    *(
        "+",
        "-",
        "*",
        "/",
        "//",
        "%",
        "**",
        "==",
        "!=",
        "<",
        ">=",
        "=",
        "&&",
        "!",
        "(",
        ")",
        "[",
        "]",
        ",",
        ".",
        ":",
        "\\",
    ),
    *("\0", "\n", "\u200b", "\u2028", "ﬁ", "²", "٣", "\ud800", "#", ";", "@", "`", "\x1b[2J", "🂡", "é"),
]
GARBAGE = st.text(max_size=60) | st.lists(st.sampled_from(WORDS), max_size=24).map(" ".join)
WRITTEN = (NUMBER_NODES | TRUTH_NODES).map(canonical)


def judged(text: object) -> None:
    for wanted in ("verdict", "value"):
        found = check(text, NAMES, ("when",), wanted)
        if isinstance(found, Formula):
            assert formula(found.canonical, wanted) == found
            assert [value_of(found.root, {})] == by_columns(found, [{}])
        else:
            assert found
            assert all(isinstance(each, Finding) and each.found and each.expected for each in found)
            as_text(found).encode()


@given(GARBAGE)
def test_garbage(text: str) -> None:
    judged(text)


@given(st.lists(st.sampled_from(WORDS), max_size=24).map("".join))
def test_garbage_without_spaces(text: str) -> None:
    judged(text)


@given(WRITTEN, st.data())
def test_formulas_with_a_piece_put_in_taken_out_or_doubled(text: str, data: st.DataObject) -> None:
    first, last = sorted(data.draw(st.tuples(*[st.integers(0, len(text))] * 2)))
    piece = data.draw(st.sampled_from(["", *WORDS, text[first:last] * 2]))
    judged(text[:first] + piece + text[last:])


@given(
    st.none() | st.integers() | st.floats() | st.binary() | st.lists(st.text()) | st.dictionaries(st.text(), st.text())
)
def test_what_is_no_text(value: object) -> None:
    assert len(refused(value)) == 1


@pytest.mark.parametrize("many", [DEPTH_MAX + 1, 300, 1_900])
@pytest.mark.parametrize(
    "make",
    [
        lambda many: "(" * many + "tries" + ")" * many + " > 1",
        lambda many: "(" * many,
        lambda many: ")" * many,
        lambda many: "[" * many + "1" + "]" * many,
        lambda many: "-" * many + "tries > 1",
        lambda many: "not " * min(many, 950) + "card.present",
        lambda many: "-(" * (many // 2 + 40) + "tries" + ")" * (many // 2 + 40) + " > 1",
        lambda many: "abs(" * min(many, 780) + "tries" + ")" * min(many, 780) + " > 1",
        lambda many: "+".join(["1"] * (many + 1)) + " > 1",
        lambda many: "/".join(["1"] * (many + 1)) + " > 1",
        lambda many: "1" + "<1" * many + " < ",
        lambda many: "1 == 1 == " + "(1 == " * min(many, 500) + "1" + ")" * min(many, 500),
        lambda many: "9" * many + "0" * 40 + " < tries",
        lambda many: "1" + "_" * many,
        lambda many: "a." * many,
        lambda many: "'" + "\\" * many,
        lambda many: "," * many,
        lambda many: "# " * many,
        lambda many: "x" * many + " > 1",
    ],
)
def test_large_and_deep(make: object, many: int) -> None:
    text = make(many)  # type: ignore[operator]
    assert len(text) <= LENGTH_MAX
    judged(text)
    refused(text)


def test_bounds_are_reported() -> None:
    assert as_text(refused("1" * (LENGTH_MAX + 1))).startswith(
        "found 4,001 characters; expected a formula of at most 4,000"
    )
    assert "at most 64 brackets and signs" in as_text(refused("(" * 65 + "tries"))
    assert "at most 64 brackets and signs" in as_text(refused("-" * 65 + "tries"))
    assert "at most 64 operations within each other" in as_text(refused("+".join(["tries"] * 65) + "> 1"))
    much = as_text(refused("1<tries" + "<tries" * OPERATORS_MAX))
    assert "501 operators and brackets; expected at most 500 of them" in much


def test_what_is_just_within_the_bounds_is_taken() -> None:
    at_depth = "(" * (DEPTH_MAX - 2) + "tries" + ")" * (DEPTH_MAX - 2) + " > 1"
    assert by_columns(formula(at_depth), [{"tries": 2}]) == [True]
    summed = formula("+".join(["tries"] * (DEPTH_MAX - 1)) + " > 62")
    assert by_columns(summed, [{"tries": 1}]) == [True]
    chained = formula("1<tries" + "<=2" * (OPERATORS_MAX - 1))
    assert by_columns(chained, [{"tries": 2}, {"tries": 1}]) == [True, False]
    members = formula(f"tries in ({', '.join(map(str, range(780)))})")
    assert by_columns(members, [{"tries": 779}, {"tries": 780}]) == [True, False]


@pytest.mark.parametrize(
    "part", ["-tries > 1", "(-tries) > 1", "-(tries) > 1", "not (not tries > 1)", "abs(-tries) < 0"]
)
def test_signs_and_brackets_side_by_side_are_not_deep(part: str) -> None:
    assert by_columns(formula(" or ".join([part] * (DEPTH_MAX + 6))), [{"tries": 1}]) == [False]


def test_the_product_of_many_large_integers_is_exact() -> None:
    of = formula("*".join(["amount_cents"] * 60) + " % 1000003", "value")
    assert by_columns(of, [{"amount_cents": 2**63 - 1}]) == [(2**63 - 1) ** 60 % 1_000_003]


def test_odd_names_are_names_where_they_are_known() -> None:
    names = {"is": "integer", "from": "integer", "None": "integer", "AND": "boolean", "min": "integer", "ﬁ": "integer"}
    of = formula("is > 1 and AND and from < None and min(min, 3) > 1 and ﬁ > 0", names=names)  # type: ignore[arg-type]
    assert of.names == ("is", "AND", "from", "None", "min", "ﬁ")
    assert refused("fi > 0", names=names)  # type: ignore[arg-type]


def test_a_formula_can_be_copied_and_sent() -> None:
    of = formula("tries in (1, 2) and hour(event_time, 'UTC') > -0.5 or not coalesce(card.present, true)")
    assert pickle.loads(pickle.dumps(of)) == of == copy.deepcopy(of)  # noqa: S301 - of our own
    assert hash(pickle.loads(pickle.dumps(of))) == hash(of)  # noqa: S301 - of our own
