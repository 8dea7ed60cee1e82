import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from crossline.basics.texts.problems import RefusedError
from crossline.basics.texts.yamltext import load_yaml

RULES = """\
# two rules
- rule_id: a
  conditions:
    - {field: x, operator: ">", value: 5}
    - all: []
- rule_id: b
  tags: [one,
         two]
"""


def test_yaml_knows_where_everything_stands() -> None:
    document = load_yaml(RULES, "r.yaml")
    assert document.data[0]["conditions"][0] == {"field": "x", "operator": ">", "value": 5}
    assert document.position(()) == (2, 1)
    assert document.position((0,)) == (2, 3)
    assert document.position((0, "conditions")) == (3, 3)
    assert document.position((0, "conditions", 0, "value")) == (4, 33)
    assert document.position((1, "tags", 1)) == (8, 10)
    assert document.position((1, "no such", 7)) == (6, 3)
    assert document.snippet((1, "tags", 1)) == "         two]"


def test_json_is_read_the_same_way() -> None:
    text = '{"a": [1, {"b": "\\ud83d\\ude00"}],\n\t"c": 1e3}'
    document = load_yaml(text, "r.json")
    assert document.data == {"a": [1, {"b": "\U0001f600"}], "c": 1000.0}
    assert document.position(("a", 1, "b")) == (1, 12)
    assert document.position(("c",)) == (2, 2)


def test_a_long_line_is_cut_around_the_place() -> None:
    document = load_yaml(json.dumps({"pad": "x" * 500, "here": 1}), "r.json")
    assert len(document.snippet(("here",))) < 120
    assert '"here": 1}' in document.snippet(("here",))


def test_plain_values_are_read_as_yaml_1_2_reads_them() -> None:
    text = "[no, on, NO, 2026-01-01, 0742, 10:30, 1e3, .5, -3, ~, true, '5', !!str 5, 1_000, .nan, 0]"
    expected = [
        "no",
        "on",
        "NO",
        "2026-01-01",
        "0742",
        "10:30",
        1000.0,
        0.5,
        -3,
        None,
        True,
        "5",
        "5",
        "1_000",
        ".nan",
        0,
    ]
    assert load_yaml(text, "r.yaml").data == expected


def test_several_documents_make_a_list() -> None:
    document = load_yaml("a: 1\n---\nb: 2\n", "r.yaml")
    assert document.data == [{"a": 1}, {"b": 2}]
    assert document.position((1, "b")) == (3, 1)


def test_nothing_is_none() -> None:
    assert load_yaml("", "r.yaml").data is None
    assert load_yaml("# only a remark\n", "r.yaml").position(("x",)) == (1, 1)


def test_aliases_repeat_what_they_name() -> None:
    document = load_yaml("a: &x {k: 1}\nb: *x\n", "r.yaml")
    assert document.data == {"a": {"k": 1}, "b": {"k": 1}}
    assert document.position(("b",)) == (2, 1)


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("a: 1\nb: 2\na: 3\n", 3, "stands on line 1"),
        ('{"a": 1,\n "a": 2}', 2, "stands on line 1"),
        ("a: [1, 2\nb: 3\n", 2, "valid YAML"),
        ("a: !!python/object:os.system x\n", 1, "tag"),
        ("? [a]\n: b\n", 1, "as a key"),
        ("[" * 5000, 1, "levels of nesting"),
        ("a: &x [*x]\n", 1, "inside itself"),
        ("a: *y\n", 1, "anchor"),
        ("a: \x00\n", 1, "character"),
    ],
)
def test_refuses_with_the_line(text: str, line: int, words: str) -> None:
    with pytest.raises(RefusedError) as caught:
        load_yaml(text, "r.yaml")
    assert caught.value.problems[0].line == line
    assert words in str(caught.value)


def test_aliases_cannot_blow_up() -> None:
    text = "a0: &a0 [1, 1]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12))
    with pytest.raises(RefusedError, match="smaller file"):
        load_yaml(text, "r.yaml")


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(values, st.sampled_from([None, 2]))
def test_json_agrees_with_the_standard_reader(value: Any, indent: int | None) -> None:
    text = json.dumps(value, indent=indent)
    if text[0] in "[{":
        assert load_yaml(text, "r.json").data == json.loads(text)


plain = st.text("abcxyz_ ", min_size=1).map(lambda text: f"v{text}v")


@given(
    st.recursive(
        st.integers(-100, 100) | plain,
        lambda i: st.lists(i, max_size=3) | st.dictionaries(plain, i, max_size=3),
        max_leaves=15,
    )
)
def test_yaml_agrees_with_the_standard_reader(value: Any) -> None:
    text = yaml.safe_dump(value)
    assert load_yaml(text, "r.yaml").data == yaml.safe_load(text)
