"""The health of rules from the API, for the catalogue and the page of a rule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from crossline.analysis.health.predictions import PredictionCheck
from crossline.analysis.health.shares import Precision
from crossline.serve.cases.statistics.queries import money_text
from crossline.serve.console.api_calls import called
from crossline.serve.console.layout.numbers import DASH, counted
from crossline.serve.console.request import PageRequest
from crossline.serve.health.sentences import prediction_text
from crossline.serve.http.problems import ProblemError


@dataclass(frozen=True, slots=True)
class RuleFigures:
    """``labels``: of how many precision is; ``cost``: µs a record.

    ``held``: each figure that was predicted beside what came, and whether it is beyond. ``days``: alerts of each
    day that was counted, today last.
    """

    precision: str = Precision().text()
    labels: str = "of 0 labels, 0 of fraud"
    money: str = ""
    cost: str = DASH
    held: tuple[tuple[str, bool], ...] = ()
    days: tuple[int, ...] = ()


async def doing_of(asked: PageRequest) -> dict[str, RuleFigures]:
    """By rule; empty if it cannot be read now."""
    try:
        report = await called(asked, "GET", "/v1/health/rules")
    except ProblemError as error:
        if error.status not in {409, 503}:
            raise
        return {}
    return {each["rule_id"]: doing(each) for each in report["items"]}


def doing(body: Mapping[str, Any]) -> RuleFigures:
    """Of one rule."""
    held = [PredictionCheck(**each) for each in body["kept"]]
    true, labels = body["precision"]["true"], body["precision"]["labels"]
    return RuleFigures(
        labels=f"of {counted(labels, 'label')}, {true:,} of fraud",
        precision=Precision(true, labels).text(),
        money=money_text(body["fraud"]),
        cost=DASH if body["cost"] is None else f"{body['cost']['us_per_record']:.2g}",
        held=tuple((prediction_text(each), each.beyond) for each in held),
        days=tuple(body["alerts"]["by_day"]),
    )
