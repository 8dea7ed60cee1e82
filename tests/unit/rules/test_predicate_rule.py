"""What a type that is figures and a formula owes, whoever wrote it."""

from __future__ import annotations

from collections.abc import Mapping

from crossline.rules.figure import FigureFields
from crossline.rules.types.burst import BurstRule

from .rulekit import streams

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


def test_no_figures_without_a_finding_are_a_finding() -> None:
    (found,) = Silent.model_validate(BODY).stream_findings("payments", streams()["payments"], None)
    assert found.path == ("rule_type",)
    assert "Silent.figures_of gave none, and Silent.findings does not say why" in found.expected


def test_no_figures_with_a_finding_are_that_finding_alone() -> None:
    rule = Silent.model_validate({**BODY, "window": "0s"})
    assert [found.path for found in rule.findings()] == [("window",)]
    assert rule.stream_findings("payments", streams()["payments"], None) == []
