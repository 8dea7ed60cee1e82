from typing import Any

import pytest

from crossline.rules.base import Defaults

from .rulekit import THRESHOLD, findings_of, rule, streams, without


def test_the_condition_is_parsed() -> None:
    found = rule(THRESHOLD)
    assert found.filter.fields() == ("amount_cents",)
    assert found.filter.holds({"amount_cents": 50_000})
    assert not found.filter.holds({"amount_cents": 49_999})


def test_without_conditions_it_would_fire_on_everything() -> None:
    assert [path for path, _ in findings_of(without(THRESHOLD, "conditions"))] == ["conditions"]


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({}, "payment where amount_cents >= 50000"),
        (
            {"description": "{amount_cents} by {account_id}, {approved}, {tags}, {rate}"},
            "50000 by a1, true, x, y, unknown",
        ),
        (
            {"conditions": {"any": [{"field": "tags", "operator": "contains", "value": "a"},
                                    {"not": {"field": "rate", "operator": "missing"}},
                                    {"all": [{"field": "approved", "operator": "==", "value": True},
                                             {"field": "rate", "operator": "<", "value": {"field": "amount_cents"}},
                                             ]}]}},
            "payment where tags contains a or not (rate is missing) or (approved == true and rate < amount_cents)",
        ),
    ],
)  # fmt: skip
def test_the_sentence(fields: dict[str, Any], text: str) -> None:
    evidence = {"amount_cents": 50_000, "account_id": "a1", "approved": True, "tags": ["x", "y"]}
    assert rule(THRESHOLD, **fields).sentence(None, None, None, None, {}, None, evidence) == text


def test_its_figures_are_the_fields_it_names() -> None:
    found = rule(THRESHOLD, description="{account_id} by {rule_id}")
    program = found.program(streams()["payments"], Defaults())
    assert program.evidence.fields == ("account_id", "amount_cents")
    assert (program.figure, program.verdict) == (None, None)


def test_a_placeholder_must_be_a_field() -> None:
    problems = findings_of({**THRESHOLD, "description": "{amount} in {window}"})
    assert [path for path, _ in problems] == ["description", "description"]
    assert "did you mean amount_cents?" in problems[0][1]
