"""``anomaly``: a value that is unusual for its key, held against the key's own past."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field

from crossline.basics.streams.schema import StreamSpec
from crossline.basics.texts.fieldtypes import Names, OptionalDuration, OptionalNumber, not_yet
from crossline.basics.texts.problems import Finding, Path
from crossline.basics.times import format_duration
from crossline.programs.kinds import Operator
from crossline.programs.program import Comparison
from crossline.rules.figure import FigureFields, made_figure
from crossline.rules.figure_checks import resolution_findings
from crossline.rules.generated_formula import GeneratedFormulaRule
from crossline.rules.registry import rule_type
from crossline.rules.sentence import number, rounded


@rule_type("anomaly")
class AnomalyRule(GeneratedFormulaRule):
    """Fires where a value is far from what is usual for its key: from the records before it in the window."""

    rule_type: Literal["anomaly"] = Field(description="`anomaly`.")
    value_field: str = Field(description="The field whose value is judged.")
    z_score: OptionalNumber = Field(
        None, description="More standard deviations than this from the average is a hit. This, or `ratio`."
    )
    ratio: OptionalNumber = Field(None, description="More than so many times the average is a hit.")
    quantile: Annotated[None, BeforeValidator(not_yet("no quantile; it is not in this version yet"))] = Field(
        None, description="Not in this version yet."
    )
    direction: Literal["above", "below", "both"] | None = Field(
        None, description="Which side of the average counts. None: both for `z_score`, above for `ratio`."
    )
    min_points: int = Field(
        10, ge=1, lt=2**31, description="With fewer records before it in the window it is not judged."
    )
    group_by: Names = Field((), description="Field or fields of the key; none: one past for the whole stream.")
    emit: Literal["on_crossing", "every"] = Field(
        "every", description="Alert at every unusual value, or where the key's value before was a usual one."
    )
    window: OptionalDuration = Field(description="How far back the past reaches: `30d`.")

    takes_resolution: ClassVar[bool] = True
    example: ClassVar[str] = """\
rule_id: unusual_amount
version: 1
rule_type: anomaly
source_topic: payments
severity: medium
score: 30
action: review
description: "{amount_cents} at merchant {merchant_id}, where {average} is usual"
group_by: merchant_id
value_field: amount_cents
z_score: 3
direction: above
min_points: 20
window: 30d
"""

    def findings(self) -> list[Finding]:
        """What cannot stand together."""
        findings = super().findings()
        given = [name for name in ("z_score", "ratio") if getattr(self, name) is not None]
        if len(given) != 1:
            found = " and ".join(given) or "nothing"
            findings.append(Finding(("z_score",), found, "z_score: how many deviations, or ratio: how many times"))
        findings += [
            Finding((name,), str(getattr(self, name)), "a number above 0") for name in given if getattr(self, name) <= 0
        ]
        if not self.window:
            findings.append(Finding(("window",), "an empty window", "a window longer than 0"))
        findings += resolution_findings(self.resolution, self.window)
        if self.ratio is not None and self.direction == "both":
            findings.append(Finding(("direction",), "both", "above or below, with ratio"))
        if self.z_score is not None and self.min_points == 1:
            findings.append(Finding(("min_points",), "1", "2 or more: one record has no deviation"))
        return findings

    def figures_of(self) -> Mapping[str, FigureFields]:
        """The key's past, without the record: average, deviation, and how many there are."""
        lines = [each for each in (self.z_score, self.ratio) if each is not None]
        if not self.value_field or not self.window or not self.min_points or len(lines) != 1:
            return {}
        exists = {"field": self.value_field, "operator": "exists"}
        more = [self.conditions] if isinstance(self.conditions, dict) else self.conditions or []
        common: dict[str, Any] = {"group_by": list(self.group_by or ()), "window": f"{self.window}ms"}
        common |= {"conditions": {"all": [exists, *more]}, "include_current": False}
        common |= {"resolution": f"{self.resolution}ms"} if self.resolution else {}
        figures = {"average": made_figure("avg", self.value_field, common)}
        if self.z_score is not None:
            figures["deviation"] = made_figure("stddev", self.value_field, common)
        return {**figures, "points": made_figure("count", None, common)}

    def formulas_of(self) -> tuple[str, str | None]:
        """Far enough, with points enough; how far: in deviations, or as a multiple of the average."""
        value, enough = self.value_field, f"points >= {self.min_points}"
        if self.ratio is not None:
            sign, line = (">", self.ratio) if self.direction != "below" else ("<", self.ratio)
            return f"{enough} and average > 0 and {value} {sign} {line} * average", f"{value} / average"
        return (
            f"{enough} and deviation > 0 and {self._distance} > {self.z_score} * deviation",
            f"({value} - average) / deviation",
        )

    def line_of(self) -> tuple[str, Operator, float | None, Path]:
        """The number of deviations, or of averages."""
        if self.ratio is not None:
            return f"{self.value_field} / average", ">" if self.direction != "below" else "<", self.ratio, ("ratio",)
        return f"{self._distance} / deviation", ">", self.z_score, ("z_score",)

    def lines_of(self) -> tuple[Comparison, ...]:
        """Of deviations one on each side that is asked for; of multiples of the average the one."""
        if self.ratio is not None:
            return (Comparison(">" if self.direction != "below" else "<", self.ratio),)
        far = self.z_score or 0
        sides = {"above": Comparison(">", far), "below": Comparison("<", -far)}
        return tuple(line for side, line in sides.items() if self.direction in {side, "both", None})

    @property
    def _distance(self) -> str:
        far = {"above": f"{self.value_field} - average", "below": f"average - {self.value_field}"}
        return f"({far[self.direction]})" if self.direction in far else f"abs({self.value_field} - average)"

    def in_words(self, value: float | None, read: Mapping[str, Any], by: str = "") -> str:
        """``amount_cents 114, 3.03 deviations above the usual 100``."""
        amount, average, points = (read.get(name) for name in (self.value_field, "average", "points"))
        found = f"{self.value_field} {number(amount)}{by}"
        if average is None:
            return f"{found}, and nothing before it"
        few = f", of no more than {points}" if points is not None and points < self.min_points else ""
        usual = f"the usual {rounded(average)}{few}"
        if value is None:
            return f"{found}, where {usual} never differs" if self.z_score is not None else f"{found}, where {usual}"
        if self.ratio is not None:
            return f"{found}, {self.measure(value)} {usual}"
        return f"{found}, {self.measure(value)} {'below' if value < 0 else 'above'} {usual}"

    def measure(self, value: float) -> str:
        """In deviations, or as a multiple."""
        return f"{rounded(value)} times" if self.ratio is not None else f"{rounded(abs(value))} deviations"

    def line_in_words(self, operator: str | None, threshold: float | None) -> str:  # noqa: ARG002 - always the same
        """`` (line: 3)``: on whichever side."""
        return "" if threshold is None else f" (line: {number(abs(threshold))})"

    def fires_where(self) -> str:
        """In words: the formula multiplies."""
        line, low = self.ratio if self.ratio is not None else self.z_score, self.direction == "below"
        same = self.same or " of all"
        past = f"with {self.min_points} or more{same} in the {format_duration(self.window or 0)} before it"
        if self.ratio is not None:
            return f"{self.value_field} is {'less' if low else 'more'} than {number(line)} times its average, {past}"
        side = {"above": "above", "below": "below"}.get(self.direction or "both", "from")
        return f"{self.value_field} is more than {number(line)} standard deviations {side} its average, {past}"

    def beside(self, spec: StreamSpec) -> Collection[str]:  # noqa: ARG002 - the one field
        """The field whose value is judged."""
        return (self.value_field,)

    def path_of(self, part: str) -> Path:  # noqa: ARG002 - all of it is of one field
        """The field whose value is judged."""
        return ("value_field",)
