"""``composite``: hits of several rules that come together at one entity within a time."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, model_validator

from crossline.basics.streams.inputs import RULE, Reading
from crossline.basics.streams.schema import StreamSpec
from crossline.basics.texts.fieldtypes import Names, Number, OptionalDuration, OptionalNumber
from crossline.basics.texts.problems import Finding, Path, listed, nearest, shown
from crossline.basics.texts.validation import refusal
from crossline.basics.times import format_duration
from crossline.programs.kinds import Operator
from crossline.programs.program import Evidence, Program
from crossline.rules.base import Defaults
from crossline.rules.figure import FigureFields, made_figure
from crossline.rules.generated_formula import GeneratedFormulaRule
from crossline.rules.registry import rule_type
from crossline.rules.sentence import RESERVED, number

_ALL = "hits"
_ID = re.compile(r"[a-z0-9_.-]{1,64}", re.ASCII)


def _members(value: Any) -> Any:
    if value is None:
        return None
    ids = value if isinstance(value, list | tuple) else ()
    if not ids or not all(isinstance(each, str) and _ID.fullmatch(each) for each in ids):
        raise refusal("a list of the ids of rules, such as [card_testing, new_device]")
    if len(set(ids)) < len(ids):
        raise refusal("each rule once")
    return tuple(ids)


def _weights(value: Any) -> Any:
    if value is not None and not (isinstance(value, dict) and value and all(isinstance(each, str) for each in value)):
        raise refusal("a number for each rule, such as {card_testing: 40, new_device: 30}")
    return value


_Members = Annotated[tuple[str, ...] | None, BeforeValidator(_members)]


@rule_type("composite")
class CompositeRule(GeneratedFormulaRule):
    """Fires where hits of several rules come together at one entity."""

    rule_type: Literal["composite"] = Field(description="`composite`.")
    source_topic: str | None = Field(  # type: ignore[assignment]
        None, description="Not given: it reads the hits of its rules."
    )
    all_of: _Members = Field(None, description="Rules that must all have hit. This, or `any_of`.")
    any_of: _Members = Field(None, description="Rules of which `at_least` so many must have hit.")
    at_least: int = Field(1, ge=1, lt=2**31, description="How many rules of `any_of` must have hit.")
    weights: Annotated[dict[str, Number] | None, BeforeValidator(_weights)] = Field(
        None, description="By rule of `any_of` what its hit weighs, once however often it hit; others weigh 1."
    )
    threshold: OptionalNumber = Field(None, description="Instead of `at_least`: how much they must weigh together.")
    join_key: Names = Field(description="Field or fields of the records that were hit by which they belong together.")
    window: OptionalDuration = Field(description="How far back hits count: `1h`.")

    example: ClassVar[str] = """\
rule_id: takeover
version: 1
rule_type: composite
severity: critical
score: 90
action: block
description: "{value} rules hit account {account_id} in {window}"
all_of: [card_testing, unusual_amount]
join_key: account_id
window: 1h
"""

    @model_validator(mode="before")
    @classmethod
    def _reads_hits(cls, data: Any) -> Any:
        members = _written(data) if isinstance(data, dict) and data.get("source_topic") is None else ()
        return {**data, "source_topic": f"{RULE}{members[0]}"} if members else data

    @property
    def members(self) -> tuple[str, ...]:
        """The rules whose hits it reads."""
        return self.all_of or self.any_of or ()

    @property
    def reading(self) -> Reading:
        """The hits of its rules."""
        return Reading(tuple(f"{RULE}{member}" for member in self.members) or super().reading.judged)

    @classmethod
    def reading_written(cls, body: Mapping[str, Any]) -> Reading | None:
        """As it is written."""
        members = _written(body)
        return Reading(tuple(f"{RULE}{member}" for member in members)) if members else None

    @classmethod
    def keys_written(cls, body: Mapping[str, Any]) -> Any:
        """What its hits are joined on."""
        return body.get("join_key")

    def place_of_source(self, source: str) -> Path:
        """Its place among the rules."""
        given = "all_of" if self.all_of else "any_of"
        members = [f"{RULE}{member}" for member in self.members]
        return (given, members.index(source)) if source in members else super().place_of_source(source)

    def findings(self) -> list[Finding]:
        """What cannot stand together."""
        findings = super().findings()
        if bool(self.all_of) == bool(self.any_of):
            found = "both all_of and any_of" if self.all_of else "nothing"
            findings.append(Finding(("all_of",), found, "all_of: rules that must all have hit, or any_of"))
        members = [f"{RULE}{member}" for member in self.members]
        if members and self.source_topic not in {None, *members}:
            expected = f"nothing: it reads the hits of {listed(self.members)}"
            findings.append(Finding(("source_topic",), shown(self.source_topic), expected))
        if len(self.members) == 1:
            findings.append(
                Finding(("all_of" if self.all_of else "any_of",), shown(list(self.members)), "several rules")
            )
        if self.join_key == ():
            findings.append(Finding(("join_key",), "nothing", "the field that hits belong together by"))
        if not self.window:
            findings.append(Finding(("window",), "an empty window", "a window longer than 0"))
        return findings + list(self._of_numbers())

    def _of_numbers(self) -> list[Finding]:
        findings: list[Finding] = []
        most = len(self.any_of or ())
        if self.any_of and not self.all_of and self.at_least is not None and self.at_least > most:
            findings.append(Finding(("at_least",), str(self.at_least), f"at most {most}, which any_of has"))
        for name, given in (("at_least", self.at_least not in {None, 1}), ("weights", self.weights is not None)):
            if given and self.all_of:
                findings.append(Finding((name,), name, "any_of beside it; all_of asks for all"))
        if (self.weights is None) != (self.threshold is None):
            absent = "weights" if self.weights is None else "threshold"
            findings.append(Finding((absent,), "nothing", "both weights and threshold"))
        elif self.weights is not None and self.at_least not in {None, 1}:
            findings.append(Finding(("at_least",), str(self.at_least), "at_least, or weights and a threshold"))
        unknown = [name for name in self.weights or () if name not in self.members]
        findings += [
            Finding(("weights", name), shown(name), f"one of {listed(self.members)}", nearest(name, self.members))
            for name in unknown
        ]
        heaviest = sum(max(weight, 0) for weight in self._weighing.values())
        if self.any_of and not findings and self.threshold is not None and self.threshold > heaviest:
            expected = f"at most {heaviest}, which the rules of any_of weigh together"
            findings.append(Finding(("threshold",), str(self.threshold), expected))
        return findings

    @property
    def _weighing(self) -> dict[str, int | float]:
        return {member: (self.weights or {}).get(member, 1) for member in self.members}

    def stream_findings(self, name: str, spec: StreamSpec, lists: Collection[str] | None) -> list[Finding]:
        """What does not fit the fields that the hits of all its rules have."""
        found = super().stream_findings(name, spec, lists)
        hits = f"that the hits of {listed(self.members)} all have"
        return [replace(each, expected=each.expected.replace(f"of stream {name}", hits)) for each in found]

    @cached_property
    def _names(self) -> dict[str, str]:
        """By rule the name of the figure that counts its hits."""
        taken: dict[str, str] = {}
        for member in self.members:
            name = re.sub(r"[^a-z0-9_]", "_", member)
            name = name if name[0].isalpha() and name not in {*RESERVED, *_WORDS, _ALL} else f"of_{name}"
            while name in taken.values():
                name += "_"
            taken[member] = name
        return taken

    def figures_of(self) -> Mapping[str, FigureFields]:
        """All hits at the entity, and those of each rule."""
        if not self.members or not self.join_key or not self.window:
            return {}
        common: dict[str, Any] = {"group_by": list(self.join_key), "window": f"{self.window}ms"}
        common["conditions"] = self.conditions
        of_each = {
            name: made_figure("count", None, {**common, "source_topic": f"{RULE}{member}"})
            for member, name in self._names.items()
        }
        return {_ALL: made_figure("count", None, common), **of_each}

    def formulas_of(self) -> tuple[str, str | None]:
        """How many rules hit, or what they weigh, against the line."""
        line: Any = self.threshold if self.threshold is not None else self.at_least or 1
        line = len(self.members) if self.all_of else line
        return f"{self._together} >= {line} and {_ALL} >= 1", self._together

    @property
    def _together(self) -> str:
        """How many of the rules hit, or what these weigh."""
        parts = [
            f"min({self._names[member]}, 1)" if weight == 1 else f"{weight} * min({self._names[member]}, 1)"
            for member, weight in self._weighing.items()
        ]
        return " + ".join(parts)

    def line_of(self) -> tuple[str, Operator, float | None, Path] | None:
        """How many must hit, or what they must weigh; none where all must."""
        if self.all_of:
            return None
        if self.threshold is not None:
            return self._together, ">=", self.threshold, ("threshold",)
        return self._together, ">=", self.at_least, ("at_least",)

    def path_of(self, part: str) -> Path:
        """The rules."""
        return ("any_of",) if self.any_of and part != "value" else ("all_of",)

    def placed(self, figure: str, found: Finding) -> Finding | None:
        """The key is ``join_key`` here."""
        if found.path[0] == "group_by":
            return replace(found, path=("join_key", *found.path[1:]))
        return super().placed(figure, found)

    @property
    def _in_order(self) -> Mapping[str, FigureFields]:  # type: ignore[override]
        """All hits first: an alert rests on them."""
        return self.figures_of()

    def program(self, spec: StreamSpec, defaults: Defaults) -> Program:
        """Counts of hits, and the line over them; the alert names the hits."""
        return replace(super().program(spec, defaults), evidence=Evidence(hits=True))

    def in_words(self, value: float | None, read: Mapping[str, Any], by: str = "") -> str:
        """``card_testing (3 times) and new_device hit in 60 min``."""
        counts = {member: read.get(name) or 0 for member, name in self._names.items()}
        hit = [member + (f" ({count:,} times)" if count > 1 else "") for member, count in counts.items() if count]
        weight = f", weight {number(value)}" if self.threshold is not None else ""
        found = f"{', '.join(hit[:-1])}{' and ' if hit[1:] else ''}{hit[-1]}" if hit else "none of its rules"
        return f"{found} hit{by} in {format_duration(self.window or 0)}{weight}"

    def measure(self, value: float) -> str:
        """So many rules, or so much weight."""
        return (
            f"weight {number(value)}" if self.threshold is not None else f"{number(value)} of {len(self.members)} rules"
        )

    def line_in_words(self, operator: str | None, threshold: float | None) -> str:  # noqa: ARG002 - always the same
        """`` (line: 2 of 3 rules)``."""
        return "" if threshold is None else f" (line: {self.measure(threshold)})"

    def fires_where(self) -> str:
        """In words."""
        asked = "all" if self.all_of else f"{self.at_least} or more"
        weighing = ", ".join(f"{member} {weight}" for member, weight in self._weighing.items())
        of = f"of {listed(self.members, 20)}"
        if self.threshold is not None:
            asked, of = f"a weight of {number(self.threshold)} or more", f"of rules ({weighing})"
        at = f" at the same {' and '.join(self.join_key)}" if self.join_key else ""
        return f"{asked} {of} hit in {format_duration(self.window or 0)}{at}"


_WORDS: Collection[str] = ("and", "or", "not", "in", "true", "false")


def _written(body: Mapping[str, Any]) -> Sequence[str]:
    given = body.get("all_of") or body.get("any_of")
    return [each for each in given if isinstance(each, str)] if isinstance(given, list | tuple) else []
