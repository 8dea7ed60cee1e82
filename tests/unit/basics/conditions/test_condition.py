import pickle
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from regex_twin import matcher, translate

from crossline.basics.conditions.condition import Condition, Conditions
from crossline.basics.conditions.evaluation import holds
from crossline.basics.conditions.lists import named_lists
from crossline.basics.conditions.mask_program import MaskProgram, compile_mask
from crossline.basics.conditions.regex import why_not_regex
from crossline.basics.conditions.tree import (
    EVERYTHING,
    AllOf,
    AnyOf,
    FieldRef,
    Leaf,
    ListRef,
    Not,
    check_conditions,
    node_fields,
    node_lists,
    parse_conditions,
)
from crossline.basics.streams.schema import FieldSpec
from crossline.basics.texts.problems import path_text

COLUMNS = {
    "name": FieldSpec("string"),
    "memo": FieldSpec("string", optional=True),
    "cents": FieldSpec("integer"),
    "limit": FieldSpec("integer", optional=True),
    "rate": FieldSpec("number", optional=True),
    "card.present": FieldSpec("boolean", optional=True),
    "at": FieldSpec("timestamp"),
    "tags": FieldSpec("string", is_list=True, optional=True),
    "codes": FieldSpec("integer", is_list=True),
}
TYPES = {
    "string": pa.string(),
    "integer": pa.int64(),
    "number": pa.float64(),
    "boolean": pa.bool_(),
    "timestamp": pa.int64(),
}


def leaf(field: str, operator: str, *value: Any) -> dict[str, Any]:
    return {"field": field, "operator": operator, **({"value": value[0]} if value else {})}


def columns_of(records: list[dict[str, Any]]) -> dict[str, pa.Array]:
    arrays = {}
    for name, spec in COLUMNS.items():
        kind = pa.list_(TYPES[spec.kind]) if spec.is_list else TYPES[spec.kind]
        arrays[name] = pa.array([record.get(name) for record in records], kind)
    return arrays


def masked(raw: Any, records: list[dict[str, Any]], lists: dict[str, list[Any]] | None = None) -> list[bool]:
    condition, findings = parse_conditions(raw)
    assert findings == []
    return compile_mask(condition, named_lists(lists))(columns_of(records), len(records)).tolist()


def test_parses_into_a_tree() -> None:
    raw = [
        leaf("cents", ">", 5),
        {"any": [leaf("name", "==", {"field": "memo"}), {"not": leaf("name", "in", {"list": "bad"})}]},
        {"all": [leaf("rate", "between", [1.0, 2])]},
    ]
    condition, findings = parse_conditions(raw)
    assert findings == []
    assert condition == AllOf(
        (
            Leaf("cents", ">", 5),
            AnyOf((Leaf("name", "==", FieldRef("memo")), Not(Leaf("name", "in", ListRef("bad"))))),
            AllOf((Leaf("rate", "between", (1, 2)),)),
        )
    )
    assert node_fields(condition) == {"cents", "name", "memo", "rate"}
    assert node_lists(condition) == {"bad"}


def test_one_and_true_are_not_the_same_condition() -> None:
    assert Leaf("x", "==", 1) != Leaf("x", "==", True)
    assert Leaf("x", "in", (0, 1)) != Leaf("x", "in", (False, True))


@pytest.mark.parametrize("raw", [None, [], {"all": [[]]}])
def test_no_condition_lets_all_pass(raw: Any) -> None:
    assert masked(raw, [{}, {"cents": 1}]) == [True, True]
    assert masked(raw, []) == []
    assert parse_conditions([])[0] == EVERYTHING


@pytest.mark.parametrize(
    ("raw", "passes"),
    [
        (leaf("cents", ">=", 10), [True, False, False]),
        (leaf("cents", "==", 10.0), [True, False, False]),
        (leaf("cents", "<", 9.5), [False, True, False]),
        (leaf("cents", "!=", 10), [False, True, True]),
        (leaf("cents", "not_in", [10]), [False, True, True]),
        (leaf("cents", "in", [9, 10, "9"]), [True, True, False]),
        (leaf("cents", "missing"), [False, False, True]),
        (leaf("cents", "exists", True), [True, True, False]),
        ({"not": leaf("cents", ">", 9)}, [False, True, True]),
        (leaf("name", "starts_with", "a"), [True, False, False]),
        (leaf("name", "ends_with", "c"), [True, False, False]),
        (leaf("name", "contains", "b"), [True, True, False]),
        (leaf("name", "regex", "^b$"), [False, True, False]),
        (leaf("name", "between", ["a", "b"]), [True, True, False]),
        (leaf("name", "==", {"field": "memo"}), [True, False, False]),
        (leaf("name", "!=", {"field": "memo"}), [False, True, True]),
        (leaf("name", ">", 5), [False, False, False]),
        (leaf("name", "!=", 5), [True, True, True]),
        (leaf("card.present", "==", True), [True, False, False]),
        (leaf("card.present", "==", 1), [False, False, False]),
        (leaf("tags", "contains", "x"), [True, False, False]),
        (leaf("codes", "contains", 7), [False, True, False]),
        (leaf("name", "in", {"list": "watch"}), [False, True, False]),
        (leaf("rate", ">", {"field": "cents"}), [True, False, False]),
        (leaf("no_such_column", "!=", 5), [True, True, True]),
        (leaf("no_such_column", "==", 5), [False, False, False]),
    ],
)
def test_masks_worked_by_hand(raw: Any, passes: list[bool]) -> None:
    records = [
        {
            "name": "abc",
            "memo": "abc",
            "cents": 10,
            "rate": 10.5,
            "card.present": True,
            "tags": ["x", "y"],
            "codes": [],
        },
        {"name": "b", "memo": None, "cents": 9, "rate": None, "card.present": False, "tags": ["y"], "codes": [7, 7]},
        {"name": None, "cents": None, "tags": None},
    ]
    lists = {"watch": ["b", "z", 9]}
    assert masked(raw, records, lists) == passes
    condition, _ = parse_conditions(raw)
    assert [holds(condition, record, lists) for record in records] == passes


def test_the_twin_walks_nested_records() -> None:
    condition, _ = parse_conditions([leaf("card.present", "==", True)])
    assert holds(condition, {"card": {"present": True}})
    assert not holds(condition, {"card": None})


def test_equal_nodes_are_computed_once() -> None:
    first, _ = parse_conditions([leaf("cents", ">", 5), leaf("name", "==", "a")])
    second, _ = parse_conditions({"any": [leaf("name", "==", "a"), leaf("cents", ">", 5)]})
    program = MaskProgram([first, second, first])
    assert program.fields == {"cents", "name"}
    assert len(program._nodes) == 4
    masks = program.run({"cents": pa.array([6, 6, 1]), "name": pa.array(["a", "b", "b"])}, 3)
    assert [mask.tolist() for mask in masks] == [[True, False, False], [True, True, False], [True, False, False]]


names = st.sampled_from(list(COLUMNS))
whole = st.integers(-3, 3) | st.sampled_from([2**53, 2**53 + 1, 2**63 - 1, -(2**63)])
doubles = st.sampled_from([-0.5, 0.0, 0.5, 1.0, 2.0, 2.0**53, 2.0**63, -1e300])
texts = st.text("ab\né", max_size=3)
literals = whole | doubles | texts | st.booleans()
patterns = st.text(r"ab.|*()[]^$\dws+?{1,2}-", max_size=8).filter(lambda text: why_not_regex(text) is None)

leaves = st.one_of(
    st.builds(leaf, names, st.sampled_from(["==", "!="]), literals | st.builds(lambda n: {"field": n}, names)),
    st.builds(
        leaf,
        names,
        st.sampled_from([">", ">=", "<", "<="]),
        whole | doubles | texts | st.builds(lambda n: {"field": n}, names),
    ),
    st.builds(
        leaf,
        names,
        st.sampled_from(["in", "not_in"]),
        st.lists(literals, min_size=1, max_size=4) | st.just({"list": "some"}),
    ),
    st.builds(leaf, names, st.sampled_from(["starts_with", "ends_with", "contains"]), texts),
    st.builds(leaf, names, st.just("contains"), literals),
    st.builds(leaf, names, st.just("regex"), patterns),
    st.builds(leaf, names, st.just("between"), st.lists(whole | doubles, min_size=2, max_size=2).map(sorted)),
    st.builds(leaf, names, st.just("between"), st.lists(texts, min_size=2, max_size=2).map(sorted)),
    st.builds(leaf, names, st.sampled_from(["exists", "missing"])),
)
conditions = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.builds(lambda parts: {"all": parts}, st.lists(inner, min_size=1, max_size=3)),
        st.builds(lambda parts: {"any": parts}, st.lists(inner, min_size=1, max_size=3)),
        st.builds(lambda part: {"not": part}, inner),
    ),
    max_leaves=6,
)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "string": texts,
    "integer": whole,
    "number": doubles,
    "boolean": st.booleans(),
    "timestamp": whole,
}
records_strategy = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            name: st.none() | (st.lists(VALUES[spec.kind], max_size=3) if spec.is_list else VALUES[spec.kind])
            for name, spec in COLUMNS.items()
        },
    ),
    max_size=8,
)


def same_as_doubles(raw: Any, records: list[dict[str, Any]]) -> bool:
    """Two columns of unlike number types are compared as doubles; beyond 2**53 the twin is more exact than that."""
    return "{'field'" not in repr(raw) or not any(
        isinstance(value, int | float) and abs(value) >= 2**53 for record in records for value in record.values()
    )


@settings(max_examples=150, deadline=None)
@given(conditions, records_strategy, st.lists(literals, max_size=4))
def test_masks_agree_with_the_twin(raw: Any, records: list[dict[str, Any]], members: list[Any]) -> None:
    condition, findings = parse_conditions(raw)
    assert findings == []
    if same_as_doubles(raw, records):
        lists = {"some": members}
        mask = compile_mask(condition, named_lists(lists))(columns_of(records), len(records))
        assert mask.dtype == np.bool_
        assert mask.tolist() == [holds(condition, record, lists) for record in records]


@settings(max_examples=50, deadline=None)
@given(st.lists(conditions, max_size=5), records_strategy, st.lists(literals, max_size=4))
def test_masks_made_together_are_those_of_each(
    raws: list[Any], records: list[dict[str, Any]], members: list[Any]
) -> None:
    each = {repr(node): Condition(node) for node in (parse_conditions(raw)[0] for raw in raws)}
    lists = named_lists({"some": members})
    given = (columns_of(records), len(records), lists, "s", np.zeros(len(records), np.int64))
    together = pickle.loads(pickle.dumps(Conditions(each)))  # noqa: S301 - its own
    for _ in range(2):  # the second time as they were compiled
        masks = together.masks(*given)
        assert {name: mask.tolist() for name, mask in masks.items()} == {
            name: condition.mask(*given).tolist() for name, condition in each.items()
        }


def test_conditions_that_are_judged_together_follow_their_lists() -> None:
    condition = Condition(parse_conditions([{"field": "name", "operator": "in", "value": {"list": "named"}}])[0])
    together, fields = Conditions({condition.canonical: condition}), {"name": pa.array(["a", "b"])}
    for members, expected in ((["a"], [True, False]), (["b"], [False, True]), ([], [False, False])):
        given = (fields, 2, named_lists({"named": members}), "s", np.zeros(2, np.int64))
        assert together.masks(*given)[condition.canonical].tolist() == expected


@settings(max_examples=150, deadline=None)
@given(patterns, st.lists(st.text("ab1 \n-_\té", max_size=5), max_size=5))
def test_translated_regexes_agree_with_re2(pattern: str, samples: list[str]) -> None:
    mask = masked(leaf("name", "regex", pattern), [{"name": text} for text in samples])
    assert mask == [matcher(pattern)(text) for text in samples]


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        (r"^\d+$", "123\n", False),
        (r"\bcat\b", "a cat.", True),
        (r"\w", "é", False),
        (r"[[:alpha:]]+", "abc", True),
        (r"(?i)VISA", "my visa", True),
        (r"(?m)^b$", "a\nb\n", True),
        (r"\pL", "é", True),
        (r"a\z", "ba", True),
        (r"[]a]", "]", True),
        (r"[^a]", "\n", True),
        (r"x{,2}", "x{,2}", True),
    ],
)
def test_regexes_worked_by_hand(pattern: str, text: str, found: bool) -> None:
    assert matcher(pattern)(text) is found
    assert masked(leaf("name", "regex", pattern), [{"name": text}]) == [found]


def test_a_pattern_that_other_engines_try_for_ever_takes_no_time() -> None:
    """As `rules lint` and `rules explain` ask, of one text; Python's own engine needs some 2^60 steps."""
    condition, findings = parse_conditions(leaf("name", "regex", "^(a+)+$"))
    assert findings == []
    assert holds(condition, {"name": "a" * 60})
    assert not holds(condition, {"name": "a" * 60 + "!"})


def test_most_regexes_need_no_re2_in_the_twin() -> None:
    assert translate(r"^(?:foo|ba[rz])\d{2,3}[^\s]$") == r"^(?:foo|ba[rz])[0-9]{2,3}[^\t\n\f\r ]\Z"


@pytest.mark.parametrize(
    ("raw", "path", "words"),
    [
        ("cents > 5", "conditions", "a condition: {field, operator, value}"),
        ([leaf("cents", "=", 5)], "conditions[0].operator", "did you mean ==?"),
        ([leaf("cents", "start_with", "x")], "conditions[0].operator", "did you mean starts_with?"),
        ([{"feld": "cents", "operator": ">", "value": 1}], "conditions[0].feld", "did you mean field?"),
        ([{"any": []}], "conditions[0].any", "one or more"),
        ([{"any": [1], "all": []}], "conditions[0]", "all alone"),
        ([{"not": {"all": [leaf("a", "in", 5)]}}], "conditions[0].not.all[0].value", "a list of values"),
        ([leaf("a", "==", None)], "conditions[0].value", "use the operator missing"),
        ([leaf("a", "==")], "conditions[0].value", "a value for =="),
        ([leaf("a", "exists", False)], "conditions[0].value", "use missing"),
        ([leaf("a", ">", True)], "conditions[0].value", "a number or text"),
        ([leaf("a", "==", 2**63)], "conditions[0].value", "64 bits"),
        ([leaf("a", "==", float("inf"))], "conditions[0].value", "finite"),
        ([leaf("a", "regex", "(a")], "conditions[0].value", "missing )"),
        ([leaf("a", "regex", r"(a)\1")], "conditions[0].value", "RE2"),
        ([leaf("a", "starts_with", 5)], "conditions[0].value", "text, for starts_with"),
        ([leaf("a", "between", [2, 1])], "conditions[0].value", "the lower first"),
        ([leaf("a", "between", [1, "b"])], "conditions[0].value", "[low, high]"),
        ([leaf("a", "==", {"list": "x"})], "conditions[0].value", "{field: name}"),
        ([leaf("a", "in", {"field": "x"})], "conditions[0].value", "{list: name}"),
        ([leaf("a", "regex", {"field": "x"})], "conditions[0].value", "a plain value"),
    ],
)
def test_says_what_is_wrong(raw: Any, path: str, words: str) -> None:
    _, findings = parse_conditions(raw)
    assert path in [path_text(finding.path) for finding in findings]
    assert any(words in f"{finding.found} {finding.expected} {finding.hint}" for finding in findings)


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (leaf("cent", ">", 5), "did you mean cents?"),
        (leaf("card", "exists"), "it holds card.present"),
        (leaf("cents", ">", "5"), "a number, since cents is of type integer"),
        (leaf("name", "==", 5), "text, since name is of type string"),
        (leaf("card.present", "==", "yes"), "true or false"),
        (leaf("card.present", ">", {"field": "card.present"}), "on true and false"),
        (leaf("cents", "regex", "x"), "a field of type string"),
        (leaf("tags", "==", "x"), "contains, exists or missing"),
        (leaf("codes", "contains", "x"), "a number, since codes"),
        (leaf("name", "in", [1, "a"]), "text, since name"),
        (leaf("name", "in", {"list": "watchlst"}), "did you mean watchlist?"),
        (leaf("name", "==", {"field": "cents"}), "a field that compares with name"),
        (leaf("name", "==", {"field": "mem"}), "did you mean memo?"),
        (leaf("at", ">", "2026-01-01T00:00:00Z"), "1767225600000"),
    ],
)
def test_checks_against_the_stream(raw: Any, words: str) -> None:
    condition, _ = parse_conditions([raw])
    findings = check_conditions(condition, COLUMNS, "payments", ["watchlist"])
    assert len(findings) == 1
    assert words in f"{findings[0].found} {findings[0].expected} {findings[0].hint}"
    assert findings[0].path[:2] == ("conditions", 0)


def test_what_fits_the_stream_passes() -> None:
    raw = [
        leaf("cents", ">", 5.5),
        leaf("rate", "==", {"field": "cents"}),
        leaf("tags", "contains", "x"),
        leaf("name", "in", {"list": "watchlist"}),
        leaf("at", ">", 1_767_225_600_000),
        leaf("tags", "missing"),
    ]
    condition, _ = parse_conditions(raw)
    assert check_conditions(condition, COLUMNS, "payments", ["watchlist"]) == []
    assert check_conditions(parse_conditions([leaf("name", "in", {"list": "any"})])[0], COLUMNS, "payments") == []
