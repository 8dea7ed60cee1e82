"""Whatever a rule file or a control message holds, it is loaded or refused; nothing else comes out."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crossline.basics.texts.problems import RefusedError
from crossline.rules.base import Rule
from crossline.rules.registry import rule_types
from crossline.rules.rule_reader import load_rules_text
from crossline.rules.ruleset import RuleSet

from .rulekit import THRESHOLD, VELOCITY, streams

STREAMS = streams()
FIELDS = sorted({name for cls in rule_types().values() for name in cls.model_fields} | {"nonsense", "rules"})
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(10**50), 10**50)
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(
        ["{", "{value}", "{x!r:>{y}}", "10m", "1h", "rule:x", "payments", "amount_cents", "status", ">", "a\x00"]
    )
)
condition_like = st.fixed_dictionaries(
    {},
    optional={
        "field": st.sampled_from(["amount_cents", "status", "location", ""]) | scalars,
        "operator": st.sampled_from(["==", "in", "between", "regex", "contains", "missing", "<"]) | scalars,
        "value": scalars
        | st.lists(scalars, max_size=2)
        | st.fixed_dictionaries({"field": scalars})
        | st.just({"list": "x"}),
        "any": st.lists(scalars, max_size=2),
    },
)
junk = st.recursive(
    scalars | condition_like,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
)


def load(text: str) -> list[Rule]:
    try:
        return [item.rule for item in load_rules_text(text, "control", STREAMS, ["x"])]
    except RefusedError as refused:
        lines = [problem.line for problem in refused.problems]
    assert lines
    assert min(lines) >= 1
    return []


@settings(max_examples=120, deadline=None)
@given(
    st.sampled_from([THRESHOLD, VELOCITY]), st.dictionaries(st.sampled_from(FIELDS), junk, max_size=4), st.booleans()
)
def test_any_body(base: dict[str, Any], more: dict[str, Any], as_list: bool) -> None:
    body = {**base, **more}
    for rule in load(json.dumps([body] if as_list else body)):
        found = RuleSet.from_rules([rule])
        assert RuleSet.from_json(found.to_json()) == found
        assert isinstance(rule.sentence(1, 2, ">=", 1000, {"account_id": "a"}, 1, {}), str)


@given(junk)
def test_any_json(data: Any) -> None:
    assert load(json.dumps(data)) == []


@given(st.text())
def test_any_text(text: str) -> None:
    assert load(text) == []


@pytest.mark.parametrize(
    "text",
    [
        '{"rule_id": "\\ud800"}',
        '{"description": "\\ud800", "rule_type": "threshold"}',
        "{" * 1000,
        "[" * 100_000,
        "&a [*a]",
    ],
)
def test_what_once_broke_readers(text: str) -> None:
    assert load(text) == []
