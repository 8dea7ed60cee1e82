"""The figures in an alert's evidence, by the names of the rule's formula."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crossline.programs.program import SCORE, FormulaPredicate

Alert = Mapping[str, Any]


def read_figures(verdict: FormulaPredicate, alert: Alert) -> dict[str, Any]:
    """The values that a formula read, from an alert's evidence; the score of a model is the alert's value."""
    figures = {name: each["value"] for name, each in alert["evidence"]["figures"].items()}
    score = {SCORE: alert["value"]} if verdict.scored is not None else {}
    return {**{name: number_of(value) for name, value in (figures | score).items()}, **alert["evidence"]["fields"]}


def number_of(value: Any) -> Any:
    """The number of an alert's value: JSON has no infinity and no NaN, which are texts in an alert."""
    return float(value) if isinstance(value, str) else value
