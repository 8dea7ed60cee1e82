"""The form of a rule: what it shows, and that a change touches the lines that it concerns and no others."""

from __future__ import annotations

import difflib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crossline.analysis.forms.form_reader import form_of
from crossline.analysis.forms.form_writer import with_form, with_line
from crossline.analysis.threshold_edit import with_threshold
from crossline.basics.texts.problems import Path
from crossline.basics.texts.yamledit import CannotEditError, added, appended, removed, renamed, replaced, typed, written
from crossline.basics.texts.yamltext import load_yaml
from crossline.rules.base import ThresholdLine
from crossline.rules.registry import rule_types

RULE = """\
# Mules take money from many.
rule_id: many_senders
version: 4   # after the review of May
rule_type: formula
source_topic: payments

conditions:
  # transfers alone
  - {field: payment_type, operator: "==", value: TRF}
  - field: amount_cents
    operator: ">="
    value: 15000
figures:
  senders:
    distinct_count: account_id
    group_by: beneficiary_id
    window: 15m
    conditions: [{field: country, operator: in, value: [DE, FR]}]
  received: {sum: amount_cents, group_by: beneficiary_id, window: 15m}   # in cents
  risky: {risk: true, group_by: beneficiary_id}
when: >
  senders >= 5 and received >= 150000
  and amount_cents > 3 * received
breaker: {alerts_max: 100, per: 1h}
severity: high
"""


def shown(text: str) -> dict[str, str]:
    return {each.name: each.value for each in form_of(text, {}).fields()}


def changed(before: str, after: str) -> list[str]:
    """Lines that went and came."""
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), n=0, lineterm="")
    return [each for each in lines if not each.startswith(("---", "+++", "@@"))]


def test_the_form_shows_what_stands_there_and_says_what_it_leaves() -> None:
    form = form_of(RULE, {})
    found = shown(RULE)
    assert found["version"] == "4"
    assert found["conditions/0/value"] == "TRF"
    assert found["figures/senders/function"] == "distinct_count"
    assert found["figures/senders/of"] == "account_id"
    assert found["figures/senders/conditions/0/value"] == "[DE, FR]"
    assert found["figures/received/window"] == "15m"
    assert [(each.label, each.value) for each in form.fields() if each.name.startswith("line/")] == [
        ("senders >=", "5"),
        ("received >=", "150000"),
        ("amount_cents > … * received", "3"),
    ]
    assert form.left == (("figures, risky", 20),)
    assert found["breaker/alerts_max"] == "100"
    assert form_of("- rule_id: a\n- rule_id: b\n", {}).why_none
    assert "syntax error" in form_of("rule_id: [", {}).why_none


@pytest.mark.parametrize(
    ("changes", "lines"),
    [
        ({}, []),
        ({"version": "5"}, ["-version: 4   # after the review of May", "+version: 5   # after the review of May"]),
        ({"line/0": "6"}, ["-  senders >= 5 and received >= 150000", "+  senders >= 6 and received >= 150000"]),
        ({"line/1": "9"}, ["-  senders >= 5 and received >= 150000", "+  senders >= 5 and received >= 9"]),
        ({"figures/senders/window": "1h"}, ["-    window: 15m", "+    window: 1h"]),
        (
            {"figures/senders/function": "count"},
            ["-    distinct_count: account_id", "+    count: true"],
        ),
        (
            {"figures/received/of": "fee", "figures/received/function": "max"},
            [
                "-  received: {sum: amount_cents, group_by: beneficiary_id, window: 15m}   # in cents",
                "+  received: {max: fee, group_by: beneficiary_id, window: 15m}   # in cents",
            ],
        ),
        ({"conditions/1/value": "20000"}, ["-    value: 15000", "+    value: 20000"]),
        (
            {"conditions/0/remove": "on"},
            ['-  - {field: payment_type, operator: "==", value: TRF}'],
        ),
        (
            {"conditions/+/field": "channel", "conditions/+/value": "web"},
            ['+  - {field: channel, operator: "==", value: web}'],
        ),
        ({"action": "review"}, ["+action: review"]),
        ({"severity": ""}, ["-severity: high"]),
        (
            {"figures/+/name": "tries", "figures/+/function": "count", "figures/+/window": "1d"},
            ["+  tries: {count: true, window: 1d}"],
        ),
        ({"figures/senders/remove": "on"}, None),
        ({"nothing_such": "x"}, []),
    ],
)
def test_a_change_touches_its_own_lines(changes: dict[str, str], lines: list[str] | None) -> None:
    after = with_form(RULE, changes, {})
    if lines is not None:
        assert changed(RULE, after) == lines
    assert after.count("#") == RULE.count("#")  # no comment went


def test_a_figure_goes_with_all_its_lines() -> None:
    after = with_form(RULE, {"figures/senders/remove": "on"}, {})
    assert list(load_yaml(after, "t").data["figures"]) == ["received", "risky"]
    one = with_form(
        "rule_id: a\nrule_type: threshold\nconditions: [{field: x, operator: exists}]\n",
        {"conditions/0/remove": "y"},
        {},
    )
    assert one == "rule_id: a\nrule_type: threshold\n"


def test_a_number_of_a_formula_is_found_however_it_is_written() -> None:
    for text in (
        "when: a > 1 and b < 2\n",
        'when: "a > 1 and b < 2"\n',
        "when: |\n  a > 1\n  and b < 2\n",
        "when: a > 1\n  and b\n  < 2\n",
    ):
        after = with_line(text, ("when",), 1, "3")
        assert after == text.replace("2", "3")
    with pytest.raises(CannotEditError, match="found no number 3"):
        with_line("when: a > 1 and b < 2\n", ("when",), 2, "3")


FIELDS = [
    (name, field)
    for name, cls in rule_types().items()
    for field in form_of(cls.example, {}).fields()
    if field.name != "rule_type" and "+" not in field.name and not field.name.endswith("/of")
]
WORDS = st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "S", "Zs")), min_size=1, max_size=20).map(
    lambda each: " ".join(each.split())
)


@settings(deadline=None)
@given(st.sampled_from(FIELDS), st.data())
def test_what_is_set_is_shown_again_and_all_else_stays(which: tuple[str, object], data: st.DataObject) -> None:
    name, field = which
    text = rule_types()[name].example
    before = shown(text)
    if field.kind == "choice":  # type: ignore[attr-defined]
        value = data.draw(st.sampled_from([each for each in field.options if each]))  # type: ignore[attr-defined]
    elif field.name.startswith("line/"):  # type: ignore[attr-defined]
        value = str(data.draw(st.integers(0, 10**9)))
    elif field.kind == "names":  # type: ignore[attr-defined]
        value = ", ".join(data.draw(st.lists(st.sampled_from("abcdef"), min_size=1, unique=True)))
    elif field.kind == "value":  # type: ignore[attr-defined]
        value = str(data.draw(st.integers(-(10**9), 10**9)))
    else:
        value = data.draw(WORDS.filter(bool))
    after = shown(with_form(text, {field.name: value}, {}))  # type: ignore[attr-defined]
    assert after[field.name] == value  # type: ignore[attr-defined]
    others = {
        each: found for each, found in before.items() if each != field.name and not each.startswith(("line/", "when"))
    }  # type: ignore[attr-defined]
    if not field.name.endswith("/function"):  # type: ignore[attr-defined]
        assert {each: found for each, found in after.items() if each in others} == others


@settings(deadline=None)
@given(st.sampled_from(sorted(rule_types())))
def test_a_form_that_is_sent_as_it_came_changes_nothing(name: str) -> None:
    text = rule_types()[name].example
    assert with_form(text, shown(text), {}) == text


SCALARS = st.one_of(
    WORDS, st.integers(-(10**9), 10**9), st.booleans(), st.lists(st.sampled_from(["a", "1", "b: c"]), max_size=3)
)


@given(SCALARS)
def test_what_is_written_is_read_back(value: object) -> None:
    assert load_yaml(f"k: {written(value)}", "t").data == {"k": value}
    assert load_yaml(f"[{written(value, flow=True)}]", "t").data == [value]


TEXT = "a: 1  # one\nb:\n  - x\n  - {c: 2, d: e}\nf: {g: h, i: j}\n"


@pytest.mark.parametrize(
    ("edit", "after"),
    [
        (lambda t: replaced(t, ("b", 1, "c"), 3), TEXT.replace("c: 2", "c: 3")),
        (lambda t: replaced(t, ("b",), "n"), "a: 1  # one\nb: n\nf: {g: h, i: j}\n"),
        (lambda t: added(t, (), "z", 1, ("a",)), TEXT.replace("# one\n", "# one\nz: 1\n")),
        (lambda t: added(t, ("f",), "z", "w"), TEXT.replace("i: j", "i: j, z: w")),
        (lambda t: removed(t, ("f", "g")), TEXT.replace("g: h, ", "")),
        (lambda t: removed(t, ("b", 0)), TEXT.replace("  - x\n", "")),
        (lambda t: removed(t, ("b",)), "a: 1  # one\nf: {g: h, i: j}\n"),
        (lambda t: renamed(t, ("f", "i"), "k"), TEXT.replace("i: j", "k: j")),
        (lambda t: appended(t, ("b",), "y"), TEXT.replace("d: e}\n", "d: e}\n  - y\n")),
    ],
)
def test_one_edit_is_one_edit(edit: object, after: str) -> None:
    assert edit(TEXT) == after  # type: ignore[operator]


@pytest.mark.parametrize(
    ("text", "path"),
    [("a: &x [1]\nb: *x\n", ("b", 0)), ("a: 1\n", ("b",)), ("a: 1\n", ("a", "b")), ("a: 1\n", ())],
)
def test_what_cannot_be_edited_is_stated(text: str, path: Path) -> None:
    with pytest.raises(CannotEditError, match="not edited here"):
        replaced(text, path, 2) if path else removed("a: 1\n", ("a",))


def test_what_is_typed_is_read_as_yaml() -> None:
    assert [typed(each) for each in ("1.5", "true", "0742", "[DE, 1]", "a, b", "{")] == [
        1.5,
        True,
        "0742",
        ["DE", 1],
        "a, b",
        "{",
    ]


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("velocity", "aggregation_threshold: 10", "aggregation_threshold: 12"),
        ("threshold", "value: 1000000", "value: 12"),
        ("burst", 'count: "> 10"', 'count: "> 12"'),
        ("formula", "tries >= 6", "tries >= 12"),
        ("anomaly", "z_score: 3", "z_score: 12"),
    ],
)
def test_a_threshold_is_moved_where_the_rule_draws_its_line(name: str, before: str, after: str) -> None:
    text = rule_types()[name].example
    path: dict[str, Path] = {
        "velocity": ("aggregation_threshold",),
        "threshold": ("conditions", 1, "value"),
        "burst": ("any_of", 0, "count"),
        "formula": ("when",),
        "anomaly": ("z_score",),
    }
    drawn = ThresholdLine("x", ">=", float(before.rstrip('"').split()[-1]), path[name])
    assert with_threshold(text, drawn, 12.0) == text.replace(before, after)
