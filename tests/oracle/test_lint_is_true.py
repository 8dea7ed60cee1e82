"""What lint calls impossible, certain or subsumed is so, of any records, by the twins."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import orjson
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st

from crossline.analysis.claims import All, Denied
from crossline.analysis.conditions import claim_of, fields_of
from crossline.analysis.formulas import claim_of_formula
from crossline.analysis.ruleset_lint import lint
from crossline.analysis.satisfiability import ValueRange, certain, impossible, value_range
from crossline.basics.conditions.tree import parse_conditions
from crossline.basics.fields import FieldKind
from crossline.basics.formula.check import check
from crossline.basics.formula.formula import Formula
from crossline.basics.formula.naive import evaluate
from crossline.rules.base import Defaults
from crossline.rules.rule_reader import load_rules_text
from drawing import one_of_these

from .conditions import holds
from .fastpath import stream_spec
from .naive import naive_detect
from .strategies import CONDITIONS, LISTS, STREAM, Body, Record, records, rule_sets, velocity_body
from .test_detect_equals_naive import DEEP

SPEC = stream_spec(ingest_column=True)
FIELDS = fields_of(SPEC)
SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]

# Conditions on one or two fields that often contradict each other.
_CLOSE = st.one_of(
    st.builds(
        lambda operator, value: {"field": "amount", "operator": operator, "value": value},
        st.sampled_from(["==", "!=", ">", ">=", "<", "<="]),
        st.sampled_from([0, 1, 2, 1.5]),
    ),
    st.builds(
        lambda operator, value: {"field": "kind", "operator": operator, "value": value},
        st.sampled_from(["==", "!=", ">", "<", "contains", "starts_with", "ends_with"]),
        st.sampled_from(["CSH", "POS", "C", ""]),
    ),
    st.sampled_from(
        [
            {"field": "amount", "operator": "exists"},
            {"field": "amount", "operator": "missing"},
            {"field": "kind", "operator": "missing"},
            {"field": "kind", "operator": "in", "value": ["CSH", "POS"]},
            {"field": "kind", "operator": "not_in", "value": ["CSH", "POS"]},
            {"field": "kind", "operator": "in", "value": {"list": "cash"}},
            {"field": "kind", "operator": "not_in", "value": {"list": "cash"}},
            {"field": "amount", "operator": "between", "value": [1, 2]},
            {"field": "amount", "operator": "<", "value": {"field": "device"}},
            {"field": "device", "operator": "<=", "value": {"field": "amount"}},
            {"field": "amount", "operator": "==", "value": {"field": "device"}},
            {"field": "flag", "operator": "==", "value": True},
            {"field": "flag", "operator": "!=", "value": True},
            {"field": "flag", "operator": "!=", "value": False},
            {"field": "flag", "operator": "exists"},
            {"field": "device", "operator": "in", "value": [0, 1]},
        ]
    ),
)
CLOSE = st.recursive(
    _CLOSE,
    lambda inner: st.one_of(
        st.builds(lambda parts: {"all": parts}, st.lists(inner, min_size=2, max_size=4)),
        st.builds(lambda parts: {"any": parts}, st.lists(inner, min_size=2, max_size=3)),
        st.builds(lambda part: {"not": part}, inner),
    ),
    max_leaves=6,
)
# Every record that these conditions can distinguish.
POOLS: dict[str, list[Any]] = {
    "amount": [None, -1, 0, 1, 2, 3],
    "kind": [None, "", "C", "CSH", "POS", "XCSH"],
    "flag": [None, True, False],
    "device": [None, 0, 1, 2],
}
ALL_RECORDS = [dict(zip(POOLS, values, strict=True)) for values in itertools.product(*POOLS.values())]


@settings(max_examples=3000 if DEEP else 35, deadline=None, suppress_health_check=SLOW)
@given(st.lists(CLOSE, min_size=1, max_size=3))
def test_conditions_that_cannot_or_must_hold(conditions: list[Body]) -> None:
    node, findings = parse_conditions(conditions)
    assert not findings
    claim = claim_of(node, SPEC.columns)
    found = {holds(conditions, record, LISTS) for record in ALL_RECORDS}
    if impossible(claim, FIELDS):
        event("impossible")
        assert found == {False}
    if certain(claim, FIELDS):
        event("certain")
        assert found == {True}
    passed = [record["amount"] for record in ALL_RECORDS if holds(conditions, record, LISTS)]
    bounds = value_range(claim, "amount", FIELDS)
    assert bounds.missing or None not in passed
    assert all(bounds.low <= each <= bounds.high for each in passed if each is not None)


KINDS: Mapping[str, FieldKind] = {"a": "integer", "b": "integer", "x": "number", "flag": "boolean"}
KNOWN = {
    "a": ValueRange("integer", missing=False, low=0, high=4),
    "b": ValueRange("integer", low=-2, high=2),
    "x": ValueRange("number", low=-1, high=2.5),
    "flag": ValueRange("boolean"),
}
VALUES: dict[str, list[Any]] = {
    "a": [0, 1, 3, 4],
    "b": [None, -2, 0, 1, 2],
    "x": [None, -1.0, 0.0, 0.1, 2.5],
    "flag": [None, True, False],
}
ALL_VALUES = [dict(zip(VALUES, values, strict=True)) for values in itertools.product(*VALUES.values())]
_NUMBERS = st.recursive(
    st.sampled_from(["a", "b", "x", "0", "1", "2", "-1", "2.5", "0.1", "5", "10"]),
    lambda inner: st.one_of(
        st.builds(lambda a, sign, b: f"({a} {sign} {b})", inner, st.sampled_from("+-*/%"), inner),
        st.builds(lambda name, a, b: f"{name}({a}, {b})", st.sampled_from(["min", "max", "coalesce"]), inner, inner),
        st.builds(lambda name, a: f"{name}({a})", st.sampled_from(["abs", "-", "sqrt"]), inner),
    ),
    max_leaves=3,
)
_COMPARED = st.one_of(
    st.builds(lambda a, sign, b: f"{a} {sign} {b}", _NUMBERS, st.sampled_from(["<", "<=", "==", "!=", ">"]), _NUMBERS),
    st.builds(lambda a, b: f"0 < {a} <= {b}", _NUMBERS, _NUMBERS),
    st.builds(lambda name, sign: f"{name} {sign} (0, 1, 3)", st.sampled_from("ab"), st.sampled_from(["in", "not in"])),
    st.sampled_from(["flag", "flag == false", "missing(b)", "missing(a)", "missing(x)", "true", "false", "a < b"]),
)
FORMULAS = st.recursive(
    _COMPARED,
    lambda inner: st.one_of(
        st.builds(lambda a, word, b: f"({a} {word} {b})", inner, st.sampled_from(["and", "or"]), inner),
        st.builds(lambda a: f"(not {a})", inner),
    ),
    max_leaves=4,
)


@settings(max_examples=5000 if DEEP else 40, deadline=None, suppress_health_check=SLOW)
@given(FORMULAS)
def test_formulas_that_cannot_or_must_hold(text: str) -> None:
    formula = check(text, KINDS, (), "verdict")
    assume(isinstance(formula, Formula))
    assert isinstance(formula, Formula)
    claim = claim_of_formula(formula.root, KNOWN)
    if impossible(claim, KNOWN):
        event("impossible")
        assert not any(evaluate(formula.root, values) is True for values in ALL_VALUES)
    if certain(claim, KNOWN):
        event("certain")
        assert all(evaluate(formula.root, values) is True for values in ALL_VALUES)


EVERY = {"emit": "every", "cooldown": "0ms"}
# Of a rule that looks at the same records, and fires at each of them.
AT_ALL: dict[str, Body] = {
    "velocity": {**EVERY, "aggregation_type": "count", "operator": ">=", "aggregation_threshold": 0},
    "formula": {**EVERY, "probe": True},
    "threshold": {"conditions": None},
}


def places(body: Body, made: list[Record]) -> set[int]:
    return {hit.position for hit in naive_detect([body], made, lists=LISTS).hits}


@st.composite
def narrow_body(draw: st.DrawFn) -> Body:
    """A velocity rule whose line is near the ends of what its figure can be."""
    body = draw(velocity_body(("count", "distinct_count", "sum", "avg", "min", "max", "last")))
    low, high = draw(one_of_these((0, 2), (1, 3), (-1, 0)))
    if body.get("aggregation_field") in {"amount", "price"}:
        field = body["aggregation_field"]
        body["conditions"] = [
            {"field": field, "operator": ">=", "value": low},
            {"field": field, "operator": "<=", "value": high},
        ]
    body["aggregation_threshold"] = draw(st.sampled_from([0, 1, 2, low, high]))
    return body


@settings(max_examples=2000 if DEEP else 10, deadline=None, suppress_health_check=SLOW)
@given(st.one_of(narrow_body(), rule_sets(max_rules=1).map(lambda bodies: bodies[0])), records(max_size=25))
def test_rules_that_never_or_always_fire(body: Body, made: list[Record]) -> None:
    body = {**{k: v for k, v in body.items() if k not in {"status", "effective_from"}}, "rule_id": "r", "version": 1}
    loaded = load_rules_text(orjson.dumps([body]).decode(), "rules.yaml", {STREAM: SPEC}, LISTS)
    found = lint([loaded[0].rule], {STREAM: SPEC}, Defaults())
    every = body if body["rule_type"] == "threshold" else {**body, **EVERY}
    line = ("aggregation_threshold", "when") if body["rule_type"] != "threshold" else ("conditions",)
    for each in found:
        if each.kind in {"never_true", "contradictory"} and each.why in {NO_RECORD, NEVER}:
            event("never")
            assert places(every, made) == set()
        if each.kind == "always_true" and each.path[0] in line and each.why == OF_ALL:
            event("always")
            assert places(every, made) == places({**body, **AT_ALL[body["rule_type"]]}, made)


NO_RECORD = "no record passes"
NEVER = "it judges every record that it looks at, and never fires"
OF_ALL = "it separates no record from the others"


@settings(max_examples=1500 if DEEP else 12, deadline=None, suppress_health_check=SLOW)
@given(st.data(), narrow_body(), records(max_size=25))
def test_rules_that_another_makes_needless(data: st.DataObject, body: Body, made: list[Record]) -> None:
    one = {**body, **EVERY, "rule_id": "one", "version": 1}
    other = {**one, "rule_id": "other"}
    other["aggregation_threshold"] = data.draw(st.sampled_from([0, 1, 2, one["aggregation_threshold"]]))
    if data.draw(st.booleans()):
        other["conditions"] = data.draw(st.one_of(st.none(), CONDITIONS))
    bodies = [one, {name: value for name, value in other.items() if value is not None}]
    loaded = load_rules_text(orjson.dumps(bodies).decode(), "rules.yaml", {STREAM: SPEC}, LISTS)
    for each in lint([item.rule for item in loaded], {STREAM: SPEC}, Defaults()):
        if each.kind == "subsumed":
            event("subsumed")
            mine, theirs = (bodies[0], bodies[1]) if each.rule_id == "one" else (bodies[1], bodies[0])
            assert places(mine, made) <= places(theirs, made)


def test_claims_are_reported_apart() -> None:
    """The properties above would hold of a lint that finds nothing: these it must find."""
    for text in ("a > 4", "a < 1 and a > 0", "x * 2 > 6", "a < b and b < a", "1 > 2", "abs(b) > 2", "a + 1 == 0"):
        formula = check(text, KINDS, (), "verdict")
        assert isinstance(formula, Formula)
        assert impossible(claim_of_formula(formula.root, KNOWN), KNOWN), text
    for text in ("a >= 0", "a < 3 or a > 2", "not missing(a)", "true or flag", "a + 1 > 0"):
        formula = check(text, KINDS, (), "verdict")
        assert isinstance(formula, Formula)
        claim = claim_of_formula(formula.root, KNOWN)
        assert certain(claim, KNOWN), text
        assert impossible(All((Denied(claim),)), KNOWN)
