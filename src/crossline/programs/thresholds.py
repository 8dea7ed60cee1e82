"""The single threshold of a rule, if it has one. Suggestions of thresholds work on it."""

from __future__ import annotations

from dataclasses import dataclass

from crossline.basics.formula.formula import Formula
from crossline.basics.texts.problems import Path
from crossline.programs.kinds import Operator


@dataclass(frozen=True, slots=True)
class ThresholdLine:
    """A comparison with ``threshold``: the name of the compared value, and the path of the number in the rule.

    ``field``: the compared field of the record; None for a figure. It is in an alert's evidence. ``value``: the
    compared formula; None: an alert's value.
    """

    named: str
    operator: Operator
    threshold: float
    path: Path
    field: str | None = None
    value: Formula | None = None
