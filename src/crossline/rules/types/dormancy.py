"""``dormancy``: a key that was silent for long, and then does what the conditions say, as stolen old accounts do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Literal

from pydantic import Field

from crossline.basics.streams.schema import StreamSpec
from crossline.basics.texts.fieldtypes import Names, OptionalDuration
from crossline.basics.texts.problems import Finding, Path
from crossline.basics.times import format_duration, rounded_duration
from crossline.programs.kinds import Operator
from crossline.programs.program import Program
from crossline.rules.base import Defaults
from crossline.rules.figure import FigureFields, made_figure
from crossline.rules.generated_formula import GeneratedFormulaRule
from crossline.rules.registry import rule_type
from crossline.rules.sentence import noun, number

_DAY_MS = 86_400_000


@rule_type("dormancy")
class DormancyRule(GeneratedFormulaRule):
    """Fires where a key was silent, and records that meet the conditions come soon after it has woken."""

    rule_type: Literal["dormancy"] = Field(description="`dormancy`.")
    inactive_for: OptionalDuration = Field(
        description="How long the key has had no record at all, whatever the conditions, before it wakes: `90d`."
    )
    window: OptionalDuration = Field(description="How long from its waking on records count: `1h`.")
    at_least: int = Field(1, ge=1, lt=2**31, description="How many records that meet the conditions make a hit.")
    group_by: Names = Field(description="Field or fields of the key that was silent.")
    known_for: OptionalDuration = Field(
        None,
        description="How far back the key's records are kept. One without any is not known to have been silent. None: "
        "twice `inactive_for`.",
    )
    include_unseen: bool = Field(
        False, description="Whether a key without a record in all of `known_for` counts as silent: new ones do then."
    )

    example: ClassVar[str] = """\
rule_id: dormant_account_tested
version: 1
rule_type: dormancy
source_topic: payments
severity: high
score: 60
action: step_up
description: "{value} small payments by {account_id} in {window}, after {silent_days} days of silence"
conditions:
  - {field: amount_cents, operator: "<=", value: 200}
group_by: account_id
inactive_for: 90d
window: 1h
at_least: 2
"""

    def findings(self) -> list[Finding]:
        """What cannot stand together."""
        findings = super().findings()
        if not self.window:
            findings.append(Finding(("window",), "an empty window", "a window longer than 0"))
        if self.inactive_for is None:
            findings.append(Finding(("inactive_for",), "nothing", "how long it was silent, such as 90d"))
        if self.group_by == ():
            findings.append(Finding(("group_by",), "nothing", "the key that is silent, such as account_id"))
        if not self.window or self.inactive_for is None:
            return findings
        least = self.inactive_for + self.window
        if self.inactive_for < self.window:
            expected = f"at least window, which is {format_duration(self.window)}"
            findings.append(Finding(("inactive_for",), format_duration(self.inactive_for), expected))
        elif self.known_for is not None and self.known_for < least:
            expected = f"at least inactive_for and window together, which are {format_duration(least)}"
            findings.append(Finding(("known_for",), format_duration(self.known_for), expected))
        return findings

    def figures_of(self) -> Mapping[str, FigureFields]:
        """Records that meet the conditions; when the key woke; its last record before the window."""
        if not self.window or not self.inactive_for or self.inactive_for < self.window:
            return {}
        if not self.group_by or not self.at_least:
            return {}
        common: dict[str, Any] = {"group_by": list(self.group_by), "window": f"{self.window}ms"}
        known_ms = 2 * self.inactive_for if self.known_for is None else self.known_for
        before = {**common, "window": f"{known_ms - self.window}ms", "delay": f"{self.window}ms"}
        return {
            "matching": made_figure("count", None, {**common, "conditions": self.conditions}),
            "woke": made_figure("age", None, common),
            "last_seen": made_figure("since", None, before),
        }

    def formulas_of(self) -> tuple[str, str | None]:
        """Enough of them, after silence enough; how many."""
        silent = f"last_seen - woke >= {self.inactive_for}"
        silent = f"({silent} or missing(last_seen))" if self.include_unseen else silent
        return f"matching >= {self.at_least} and {silent}", "matching"

    def line_of(self) -> tuple[str, Operator, float | None, Path]:
        """How many."""
        return "matching", ">=", self.at_least, ("at_least",)

    def shows_of(self) -> Mapping[str, str]:
        """How long the key was silent, in days; missing where nothing is known of it."""
        return {"silent_days": f"round((last_seen - woke) / {_DAY_MS}, 2)"}

    def program(self, spec: StreamSpec, defaults: Defaults) -> Program:
        """As of its figures and formula; each waking is a crossing of its own, however far back is known."""
        made = super().program(spec, defaults)
        return replace(made, emission=replace(made.emission, rearm_ms=self.window))

    def path_of(self, part: str) -> Path:
        """The field that ``part`` is of."""
        return {"matching": ("conditions",), "last_seen": ("inactive_for",)}.get(part, ("window",))

    def in_words(self, value: float | None, read: Mapping[str, Any], by: str = "") -> str:
        """``3 payments in 60 min after 93 days of silence``."""
        last_seen, woke = read.get("last_seen"), read.get("woke")
        counted = f"{self.measure(value or 0)}{by} in {format_duration(self.window or 0)}"
        if last_seen is None or woke is None:
            known_ms = 2 * (self.inactive_for or 0) if self.known_for is None else self.known_for
            return f"{counted}, and none known in {format_duration(known_ms)} before"
        return f"{counted} after {rounded_duration(last_seen - woke)} of silence"

    def measure(self, value: float) -> str:
        """So many records."""
        return f"{number(value)} {noun(self.source_topic, one=value == 1)}"

    def fires_where(self) -> str:
        """In words."""
        where = f" where {self.filter.text}" if self.filter.canonical else ""
        unseen = ", or was never seen," if self.include_unseen else ""
        silent = f"had no {noun(self.source_topic, one=True)} for {format_duration(self.inactive_for or 0)}{unseen}"
        many = f"{number(self.at_least)} or more {noun(self.source_topic)}{where}"
        return f"the same {_and(self.group_by)} {silent}, and then {many} in {format_duration(self.window or 0)}"


def _and(names: Names) -> str:
    return " and ".join(names or ())
