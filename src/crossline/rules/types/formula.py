"""``formula``: figures over windows of a key, and an expression over them and the record's fields."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field

from crossline.basics.formula.canonical import canonical
from crossline.basics.formula.check import check
from crossline.basics.formula.formula import Formula
from crossline.basics.formula.tree import Compare, ComparisonOperator, Constant, Node, walk
from crossline.basics.streams.schema import StreamSpec
from crossline.basics.texts.problems import Finding, Path, listed, shown
from crossline.basics.texts.validation import refusal
from crossline.basics.times import format_duration
from crossline.programs.registry import declared
from crossline.programs.thresholds import ThresholdLine
from crossline.rules.figure import FigureFields
from crossline.rules.predicate_rule import PredicateRule
from crossline.rules.registry import rule_type
from crossline.rules.sentence import RESERVED

_NAME = re.compile(r"[a-z_][a-z0-9_]{0,63}", re.ASCII)


_TAKEN = frozenset({*RESERVED, "and", "or", "not", "in", "true", "false"})


def check_figures(value: Any) -> Any:
    """Validator of figures as they are written: their names mean nothing else."""
    if not isinstance(value, dict) or not value:
        raise refusal("one or more figures by name, such as tries: {count: true, group_by: card_hash, window: 10m}")
    for name in value:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise refusal("names of figures out of a-z 0-9 _, that begin with a letter", found=shown(name))
        if name in _TAKEN:
            raise refusal("names of figures that mean nothing else", f"not one of {listed(sorted(_TAKEN), 20)}", name)
    return value


@rule_type("formula")
class FormulaRule(PredicateRule):
    """Fires where `when` holds of its figures and the record's fields."""

    rule_type: Literal["formula"] = Field(description="`formula`.")
    figures: Annotated[dict[str, FigureFields], BeforeValidator(check_figures)] = Field(
        description="Figures by the names that `when` has for them. See Figures."
    )
    when: str = Field(description="The rule is satisfied where this holds. See Formulas.")
    value: str | None = Field(
        None, description="What an alert shows as its value. None: the left side of the first comparison."
    )
    emit_mode: Literal["last_event", "window"] = Field(
        "last_event",
        description="What the alert shows: the last record, or those of the window of the first figure in `when`.",
    )

    example: ClassVar[str] = """\
rule_id: declined_share
version: 1
rule_type: formula
source_topic: payments
severity: high
score: 60
action: step_up
description: "{declines} of {tries} payments on card {card_hash} declined in {window}"
figures:
  tries: {count: true, group_by: card_hash, window: 10m}
  declines:
    count: true
    group_by: card_hash
    window: 10m
    conditions: [{field: status, operator: "==", value: declined}]
  usual: {avg: amount_cents, group_by: card_hash, window: 30d, include_current: false}
when: tries >= 6 and declines / tries > 0.5 and amount_cents > 3 * usual
"""

    def figures_of(self) -> Mapping[str, FigureFields]:
        """As they are written."""
        return self.figures or {}

    def formulas_of(self) -> tuple[str, str | None]:
        """As they are written."""
        return self.when or "", self.value

    def line_in_words(self, operator: str | None, threshold: float | None) -> str:  # noqa: ARG002 - the sentence does not name it
        """Nothing: the sentence names all the figures, and which of them the line is of stands in the alert."""
        return ""

    def path_of(self, part: str) -> Path:
        """The field itself."""
        return (part,) if part in {"when", "value"} else ("figures", part)

    @property
    def lists_records(self) -> bool:
        """Whether ``emit_mode`` reports it."""
        return self.emit_mode == "window"

    def drawn(self, spec: StreamSpec) -> ThresholdLine | None:
        """The first comparison with a plain number on its right."""
        found = self._first_line(spec)
        if found is None:
            return None
        left, operator, right = found
        return ThresholdLine(canonical(left), operator, right.value, ("when",))  # type: ignore[arg-type]

    def redrawn(self, threshold: float, spec: StreamSpec) -> Self:
        """With another number there, and the left side as its value."""
        found = self._first_line(spec)
        if found is None:
            raise ValueError(f"{self.rule_id} draws no line")
        left, _, right = found
        when = f"{self.when[: right.span.start]}{threshold!r}{self.when[right.span.end :]}"
        return self.model_copy(update={"when": when, "value": canonical(left)})

    def _first_line(self, spec: StreamSpec) -> tuple[Node, ComparisonOperator, Constant] | None:
        formula = check(self.when, self.known_in(spec), ("when",), wanted="verdict")
        for node in walk(formula.root) if isinstance(formula, Formula) else ():
            match node:
                case Compare((left, Constant(int() | float(), "integer" | "number") as right), (operator,)):
                    return left, operator, right
        return None

    def _pane_findings(self) -> list[Finding]:
        """What does not go together with panes."""
        found: list[Finding] = []
        panes = {name: each.resolution for name, each in self.figures.items() if each.resolution is not None}
        if not panes:
            return found
        first, resolution = next(iter(panes.items()))
        reach_ms = max((each.window or 0) + each.delay for each in self.figures.values() if each.resolution is not None)
        for name, each in self.figures.items():
            if each.resolution not in {None, resolution}:
                found_text, expected = format_duration(each.resolution or 0), format_duration(resolution)
                at = ("figures", name, "resolution")
                expected = f"{expected}, as figure {first} has: panes of a rule have one length"
                found.append(Finding(at, found_text, expected))
            elif each.resolution is None and declared(each.aggregate).sketch_error is not None:
                expected = (
                    f"{format_duration(resolution)} too: beside figures of panes, different values are in sketches"
                )
                found.append(Finding(("figures", name, "resolution"), "nothing", expected))
            elif each.resolution is None and each.risk is None and (each.window or 0) + each.delay > reach_ms:
                expected = f"{format_duration(resolution)} too: it reaches further back than the figures of panes"
                found.append(Finding(("figures", name, "resolution"), "nothing", expected))
        if self.emit_mode == "window":
            found.append(Finding(("emit_mode",), "window", "last_event: with a resolution, records are not kept"))
        return found

    def findings(self) -> list[Finding]:
        """What cannot stand together."""
        findings = super().findings()
        if self.figures:
            findings += self._pane_findings()
        return findings
