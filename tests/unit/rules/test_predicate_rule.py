"""The contract of a rule type made of figures and a formula, by any author."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from pydantic import ValidationError

from crossline.basics.texts.validation import findings_from_validation
from crossline.rules.figure import FigureFields
from crossline.rules.types.burst import BurstRule

BODY = {
    "rule_id": "r",
    "version": 1,
    "rule_type": "burst",
    "source_topic": "payments",
    "group_by": "account_id",
    "window": "2m",
    "any_of": [{"count": "> 10"}],
}


class Silent(BurstRule):
    """A type that has no figures, and does not say why."""

    def figures_of(self) -> Mapping[str, FigureFields]:
        return {}


def test_no_figures_without_a_finding_are_refused() -> None:
    with pytest.raises(ValidationError, match="figures_of gave none, and its findings do not say why"):
        Silent.model_validate(BODY)


def test_no_figures_with_a_finding_are_refused_by_that_alone() -> None:
    with pytest.raises(ValidationError) as refused:
        Silent.model_validate({**BODY, "window": "0s"})
    assert [each.path for each in findings_from_validation(refused.value, Silent)] == [("window",)]
