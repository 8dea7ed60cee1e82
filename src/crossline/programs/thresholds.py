"""The one line that a rule draws, where it draws one: what a threshold is suggested for."""

from __future__ import annotations

from dataclasses import dataclass

from crossline.basics.formula.formula import Formula
from crossline.basics.texts.problems import Path
from crossline.programs.kinds import Operator


@dataclass(frozen=True, slots=True)
class ThresholdLine:
    """A line: what is held against ``threshold``, as a person names it, and where the number stands in the rule.

    ``field``: the field of the record that is held against it, where that is no figure: it is in an alert's evidence.
    ``value``: what is held against it, of what the rule's formula reads; None: an alert's value.
    """

    named: str
    operator: Operator
    threshold: float
    path: Path
    field: str | None = None
    value: Formula | None = None
