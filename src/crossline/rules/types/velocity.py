"""``velocity``: an aggregate over the records of a key in a window, looking back from every record, crosses a line."""

from __future__ import annotations

from collections.abc import Collection
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Literal, Self

from pydantic import Field

from crossline.basics.streams.schema import StreamSpec
from crossline.basics.texts.fieldtypes import Duration, Names, Number, OptionalDuration, OptionalNumber, Unit
from crossline.basics.texts.problems import Finding, Path
from crossline.basics.times import DURATION_MS_MAX, UNIT_MS_BY_NAME
from crossline.programs.kinds import Operator
from crossline.programs.program import Comparison, Emission, Evidence, Figure, Program, Window
from crossline.programs.registry import counted_names, declared
from crossline.programs.thresholds import ThresholdLine
from crossline.rules.base import Defaults, Rule
from crossline.rules.figure_checks import (
    column_kind,
    field_findings,
    group_findings,
    limit_findings,
    resolution_findings,
)
from crossline.rules.registry import rule_type
from crossline.rules.sentence import RESERVED, PartKind, Sentence, joined, key_parts, noun

if TYPE_CHECKING:
    Counted = str
else:
    Counted = Literal[counted_names()]


@rule_type("velocity")
class VelocityRule(Rule):
    """Compares an aggregate of the records of a key in a sliding window with a threshold."""

    rule_type: Literal["velocity"] = Field(description="`velocity`.")
    aggregation_type: Counted = Field(description="What is computed over the window.")
    aggregation_field: str | None = Field(
        None, description="The field it is computed of; records without it do not enter. `count` needs none."
    )
    aggregation_threshold: Number = Field(description="The line.")
    operator: Operator = Field(">=", description="The rule is satisfied where aggregate `operator` threshold.")
    group_by: Names = Field((), description="Field or fields of the key; none: one window over the whole stream.")
    window: OptionalDuration = Field(None, description="How far back the window reaches: `10m`. Or the next two.")
    window_size: OptionalNumber = Field(None, description="The same as a number, with `window_unit`.")
    window_unit: Unit = Field(None, description="`ms s m h d` or the long names.")
    bounds: Literal["(]", "[]", "[)"] = Field(
        "(]", description="Which ends belong to the window from t - w to t, the time of the record."
    )
    include_current: bool | None = Field(
        None, description="Whether the record itself is in its window. None: yes, but for `[)`."
    )
    emit: Literal["on_crossing", "every"] = Field(
        "on_crossing", description="Alert when the line is crossed, or at every record that is beyond it."
    )
    emit_mode: Literal["last_event", "window"] = Field(
        "last_event", description="What the alert shows: the last record, or the records of the window."
    )
    cooldown: Duration = Field(0, description="After an alert, none for the same key for this long.")
    emit_to_sink: bool = Field(True, description="`false`: recorded, but not delivered to a sink.")

    takes_resolution: ClassVar[bool] = True
    example: ClassVar[str] = """\
rule_id: card_burst
version: 3
rule_type: velocity
source_topic: payments
severity: high
score: 40
action: step_up
description: "{value} declined payments on card {card_hash} in {window}"
conditions:
  - {field: status, operator: "==", value: declined}
group_by: card_hash
aggregation_type: count
window: 60s
aggregation_threshold: 10
cooldown: 5m
"""

    @property
    def window_ms(self) -> int:
        """The window in milliseconds."""
        return self._window_ms() or 0

    @property
    def include_current_resolved(self) -> bool:
        """Whether the record itself is in its window."""
        return self.bounds != "[)" if self.include_current is None else self.include_current

    def _window_ms(self) -> int | None:
        if self.window is not None:
            return self.window
        if self.window_size is None or self.window_unit is None:
            return None
        ms = Fraction(str(self.window_size)) * UNIT_MS_BY_NAME[self.window_unit.lower()]
        return int(ms) if ms.denominator == 1 and ms <= DURATION_MS_MAX else None

    def place_of(self, part: str, figure: str = "") -> Path:
        """The threshold is the line; a window may be written as a number."""
        if part == "window" and self.window is None:
            return ("window_size",)
        return ("aggregation_threshold",) if part == "when" else super().place_of(part, figure)

    def drawn(self, spec: StreamSpec) -> ThresholdLine:  # noqa: ARG002 - the threshold
        """The threshold."""
        of = f" of {self.aggregation_field}" if self.aggregation_field else ""
        named = f"{self.aggregation_type}{of}"
        return ThresholdLine(named, self.operator, self.aggregation_threshold, ("aggregation_threshold",))

    def redrawn(self, threshold: float, spec: StreamSpec) -> Self:  # noqa: ARG002 - the threshold
        """With another threshold."""
        return self.model_copy(update={"aggregation_threshold": threshold})

    def canonical(self) -> dict[str, object]:
        """The body; both ways of writing the window become one."""
        body = super().canonical()
        body.pop("window_size", None)
        body.pop("window_unit", None)
        return {**body, "window": f"{self.window_ms}ms"}

    def findings(self) -> list[Finding]:
        """What cannot stand together."""
        findings = super().findings() + self._window_findings()
        findings += resolution_findings(self.resolution, self._window_ms())
        if self.resolution is not None and self.emit_mode == "window":
            findings.append(Finding(("emit_mode",), "window", "last_event: with a resolution, records are not kept"))
        if self.aggregation_type is not None:
            findings += limit_findings(declared(self.aggregation_type), panes=self.resolution is not None)
        if self.aggregation_type not in {"count", None} and self.aggregation_field is None:
            findings.append(
                Finding(("aggregation_field",), "nothing", f"the field to take the {self.aggregation_type} of")
            )
        return findings

    def _window_findings(self) -> list[Finding]:
        sized = self.window_size is not None or self.window_unit is not None
        if self.window is not None and sized:
            path = "window_size" if self.window_size is not None else "window_unit"
            return [Finding((path,), f"{path} beside window", "window alone, or window_size with window_unit")]
        if self.window is None and not sized:
            return [Finding(("window",), "nothing", "a window such as 10m, or window_size with window_unit")]
        if self.window is None and (self.window_size is None or self.window_unit is None):
            missing, given = (
                ("window_size", "window_unit") if self.window_size is None else ("window_unit", "window_size")
            )
            return [Finding((missing,), "nothing", f"{missing} with {given}")]
        path = "window" if self.window is not None else "window_size"
        window_ms = self._window_ms()
        if window_ms is None:
            return [Finding((path,), str(self.window_size), "a whole number of milliseconds, at most 100 years")]
        return [] if window_ms > 0 else [Finding((path,), "an empty window", "a window longer than 0")]

    def stream_findings(self, name: str, spec: StreamSpec, lists: Collection[str] | None) -> list[Finding]:
        """Fields that the stream does not have, or of the wrong type."""
        findings = super().stream_findings(name, spec, lists) + group_findings(self.group_by or (), name, spec)
        if self.aggregation_field is not None:
            path = ("aggregation_field",)
            findings += field_findings(self.aggregation_type, self.aggregation_field, name, spec, path)
        return findings

    def program(self, spec: StreamSpec, defaults: Defaults) -> Program:
        """One figure, held against the threshold."""
        feed = self.feed(defaults, self.group_by)
        resolution_ms = self.resolution or 0
        window = Window(self.window_ms, self.bounds, self.include_current_resolved, resolution_ms=resolution_ms)
        return Program(
            feed,
            (
                Figure(
                    feed,
                    self.aggregation_type,
                    window,
                    self.aggregation_field,
                    column_kind(self.aggregation_type, self.aggregation_field, spec),
                ),
            ),
            Comparison(self.operator, self.aggregation_threshold),
            Emission(every=self.emit == "every", cooldown_ms=self.cooldown, delivered=self.emit_to_sink),
            Evidence(lists=self.emit_mode == "window"),
            judge_lateness_ms=self.lateness(defaults).judged_ms,
        )

    def placeholder_names(self, spec: StreamSpec | None) -> Collection[str] | None:  # noqa: ARG002 - the rule knows
        """The figures of the comparison, and the fields of the key."""
        return None if self.group_by is None else (*RESERVED, *self.group_by)

    @cached_property
    def _sentence(self) -> Sentence:
        return self._default(noun(self.source_topic))

    @cached_property
    def _sentence_of_one(self) -> Sentence:
        return self._default(noun(self.source_topic, one=True))

    def default_sentence(self, value: float | None) -> Sentence:
        """``10 payments by account a1 in 60 s (line: 10)``."""
        return self._sentence_of_one if value == 1 and self.aggregation_type == "count" else self._sentence

    def _default(self, counted: str) -> Sentence:
        words = declared(self.aggregation_type).words
        before, after = (
            each.replace("{field}", self.aggregation_field or "").replace("{records}", counted)
            for each in (words.before, words.after)
        )
        sign = "" if self.operator == ">=" else f"{self.operator} "
        parts: list[tuple[PartKind, str]] = [("text", before), ("value", ""), ("text", after)]
        parts += [*key_parts(self.group_by), ("text", " in "), ("window", ""), ("text", f" (line: {sign}")]
        parts += [("threshold", ""), ("text", ")")]
        return Sentence(joined(parts))
