"""``burst``: many records of a key in a short window, or fewer of a kind that makes them suspicious."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self, cast

from pydantic import BeforeValidator, Field

from crossline.basics.streams.schema import StreamSpec
from crossline.basics.texts.fieldtypes import Names, OptionalDuration
from crossline.basics.texts.problems import Finding, Path, nearest, one_of, shown
from crossline.basics.texts.validation import refusal, refusals
from crossline.basics.times import format_duration
from crossline.programs.kinds import Operator
from crossline.programs.registry import declared, names
from crossline.rules.figure import FigureFields, made_figure
from crossline.rules.figure_checks import limit_findings, resolution_findings
from crossline.rules.generated_formula import GeneratedFormulaRule
from crossline.rules.registry import rule_type
from crossline.rules.sentence import noun, number

_AGGREGATES = ("count", *names(of_records=False))
_LINE = re.compile(r"\s*(>=|<=|==|!=|>|<)\s*(-?\d+(?:\.\d+)?)\s*", re.ASCII)
_CONFIDENCE_MAX, _SURE_AT = 0.95, 20


def _cases(value: Any) -> Any:
    if not isinstance(value, list) or not value or not all(isinstance(each, dict) and each for each in value):
        raise refusal('a list of cases, such as [{count: "> 10"}, {count: "> 5", avg: "< 500"}]')
    findings = []
    for place, case in enumerate(value):
        for name, line in case.items():
            if name not in _AGGREGATES:
                found = Finding((place, name), shown(name), one_of(_AGGREGATES), nearest(name, _AGGREGATES))
                findings.append(found)
            elif not isinstance(line, str) or not _LINE.fullmatch(line):
                findings.append(Finding((place, name), shown(line), 'a comparison in quotes, such as "> 10"'))
    if findings:
        raise refusals(findings)
    return value


def _parted(line: str) -> tuple[Operator, float]:
    found = _LINE.fullmatch(line)
    if found is None:
        raise ValueError(f"{line} is no comparison")
    return cast("Operator", found[1]), float(found[2])


@rule_type("burst")
class BurstRule(GeneratedFormulaRule):
    """Fires where one of several cases holds of the records of a key in a window."""

    rule_type: Literal["burst"] = Field(description="`burst`.")
    any_of: Annotated[list[dict[str, str]], BeforeValidator(_cases)] = Field(
        description='Cases, of which one must hold: `[{count: "> 10"}, {count: "> 5", avg: "< 500"}]`. Aggregates are '
        "those of `velocity`."
    )
    aggregation_field: str | None = Field(
        None, description="The field that aggregates other than `count` are of; records without it do not enter these."
    )
    group_by: Names = Field((), description="Field or fields of the key; none: one window over the whole stream.")
    window: OptionalDuration = Field(description="How far back the window reaches: `2m`.")

    takes_resolution: ClassVar[bool] = True
    example: ClassVar[str] = """\
rule_id: card_testing
version: 1
rule_type: burst
source_topic: payments
severity: high
score: 50
action: step_up
description: "{value} payments on card {card_hash} in {window}, average {avg} (confidence {confidence})"
group_by: card_hash
window: 2m
aggregation_field: amount_cents
any_of:
  - {count: "> 10"}
  - {count: "> 5", avg: "< 500"}
"""

    def findings(self) -> list[Finding]:
        """What cannot stand together."""
        findings = super().findings()
        if not self.window:
            findings.append(Finding(("window",), "an empty window", "a window longer than 0"))
        findings += resolution_findings(self.resolution, self.window) + self._limits()
        others = [name for name in self._aggregates() if name != "count"]
        if others and self.aggregation_field is None:
            findings.append(Finding(("aggregation_field",), "nothing", f"the field to take the {others[0]} of"))
        return findings

    def _limits(self) -> list[Finding]:
        """What is defined on panes alone, where there are none."""
        of = map(declared, self._aggregates())
        return [found for each in of for found in limit_findings(each, panes=self.resolution is not None)]

    def _aggregates(self) -> list[str]:
        """Those that the cases hold against a line, and the count, which every alert shows."""
        return list(dict.fromkeys(["count", *(name for case in self.any_of or () for name in case)]))

    def figures_of(self) -> Mapping[str, FigureFields]:
        """Each aggregate, over the same window."""
        lacks_field = self.aggregation_field is None and len(self._aggregates()) > 1
        if not self.any_of or not self.window or lacks_field or self._limits():
            return {}
        common = {"group_by": list(self.group_by or ()), "window": f"{self.window}ms", "conditions": self.conditions}
        common |= {"resolution": f"{self.resolution}ms"} if self.resolution else {}
        of: dict[str, Any] = dict.fromkeys(self._aggregates(), self.aggregation_field)
        return {name: made_figure(name, field, common) for name, field in of.items()}

    def formulas_of(self) -> tuple[str, str | None]:
        """The cases; the count."""
        cases = [" and ".join(f"{name} {line.strip()}" for name, line in case.items()) for case in self.any_of]
        return " or ".join(f"({case})" for case in cases), "count"

    def line_of(self) -> tuple[str, Operator, float | None, Path]:
        """The first number of the first case."""
        name, line = next(iter(self.any_of[0].items()))
        operator, number = _parted(line)
        return name, operator, number, ("any_of", 0, name)

    def redrawn(self, threshold: float, spec: StreamSpec) -> Self:  # noqa: ARG002 - the number is in the case
        """With another number there."""
        (name, line), *others = self.any_of[0].items()
        first = {name: f"{_parted(line)[0]} {threshold!r}", **dict(others)}
        return self.model_copy(update={"any_of": [first, *self.any_of[1:]]})

    def shows_of(self) -> Mapping[str, str]:
        """How sure it is: a twentieth for each record, up to 0.95."""
        return {"confidence": f"min({_CONFIDENCE_MAX}, count / {_SURE_AT})"}

    def in_words(self, value: float | None, read: Mapping[str, Any], by: str = "") -> str:
        """``6 payments in 2 min, avg of amount_cents 302.5``."""
        found = f"{self.measure(value or 0)}{by} in {format_duration(self.window or 0)}"
        others = [name for name in self._aggregates() if name != "count"]
        return ", ".join([found, *(f"{name} of {self.aggregation_field} {number(read.get(name))}" for name in others)])

    def measure(self, value: float) -> str:
        """So many records."""
        return f"{number(value)} {noun(self.source_topic, one=value == 1)}"

    def fires_where(self) -> str:
        """The cases, as they are written."""
        of = {name: "" if name == "count" else f" of {self.aggregation_field}" for name in self._aggregates()}
        cases = [
            " and ".join(f"{name}{of[name]} {line.strip()}" for name, line in case.items()) for case in self.any_of
        ]
        return f"{noun(self.source_topic)}{self.same} in {format_duration(self.window or 0)} have {', or '.join(cases)}"

    def path_of(self, part: str) -> Path:
        """The field that is aggregated, or the cases."""
        return ("any_of",) if part in {"when", "value", "count"} else ("aggregation_field",)
