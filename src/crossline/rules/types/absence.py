"""``absence``: a record of a key that should have been followed by another, and was not in time."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, PlainSerializer

from crossline.basics.conditions.condition import Condition
from crossline.basics.conditions.tree import parse_conditions
from crossline.basics.streams.inputs import Reading, SideInput, rule_of
from crossline.basics.streams.schema import StreamSpec
from crossline.basics.texts.fieldtypes import Duration, Names, OptionalDuration
from crossline.basics.texts.problems import Finding, Path, shown
from crossline.basics.texts.validation import refusal, refusals
from crossline.programs.program import AbsencePredicate, Emission, Program
from crossline.rules.base import Defaults, Rule, check_raw_conditions
from crossline.rules.field_groups import PartFields, SourcedFields
from crossline.rules.figure_checks import group_findings
from crossline.rules.registry import rule_type
from crossline.rules.sentence import PartKind, Sentence, joined, key_parts, noun

_SAID_OF = ("count", "window", "rule_id")


def _conditions(value: Any) -> Any:
    if not value:
        raise refusal("conditions, such as [{field: status, operator: ==, value: started}]")
    _, findings = parse_conditions(value, path=())
    if findings:
        raise refusals(findings)
    return check_raw_conditions(value)


def _expected(value: Any) -> Any:
    """Conditions alone are a part that has nothing else."""
    if isinstance(value, SourcedFields):
        return value
    if isinstance(value, dict) and value.keys() & SourcedFields.model_fields.keys():
        return value
    return SourcedFields.model_construct(conditions=_conditions(value))


def _is_plain(part: SourcedFields) -> bool:
    return part.source_topic is None and not part.group_by and part.conditions is not None


def _as_written(part: SourcedFields) -> Any:
    return part.conditions if _is_plain(part) else part.model_dump(mode="json", exclude_defaults=True)


def _placed(name: str, findings: list[Finding]) -> list[Finding]:
    """Findings of conditions, where these stand under ``name``."""
    return [replace(each, path=(name, *each.path[1:])) for each in findings]


@rule_type("absence")
class AbsenceRule(Rule):
    """Fires where a record of a key was not followed by another in time, once the stream's clock has passed that."""

    rule_type: Literal["absence"] = Field(description="`absence`.")
    after: Annotated[Any, BeforeValidator(_conditions)] = Field(
        description="Which records wait, besides the rule's `conditions`. A hit is at such a record."
    )
    expect: Annotated[SourcedFields, BeforeValidator(_expected), PlainSerializer(_as_written)] = Field(
        description="Which records they wait for, besides the rule's `conditions`: conditions, or `{source_topic: …, "
        "group_by: …, conditions: […]}` where they are of another stream, or have another name of the key."
    )
    within: OptionalDuration = Field(description="How long after it one must have happened: `10m`.")
    group_by: Names = Field((), description="Field or fields of the key; none: the whole stream is one.")
    emit: Literal["every"] = Field("every", description="An absence alerts at every hit.")
    cooldown: Duration = Field(0, description="After an alert, none at records of the same key for this long.")
    emit_to_sink: bool = Field(True, description="`false`: recorded, but not delivered to a sink.")

    example: ClassVar[str] = """\
rule_id: not_shipped
version: 1
rule_type: absence
source_topic: orders
severity: medium
description: "order {order_id} was paid, and not shipped within {window}"
group_by: order_id
after: [{field: status, operator: "==", value: paid}]
expect: [{field: status, operator: "==", value: shipped}]
within: 2d
"""

    @cached_property
    def _waiting(self) -> PartFields:
        """What waits."""
        return PartFields.model_construct(conditions=self.after)

    @property
    def _side_input(self) -> SideInput | None:
        """What it waits for beside its own stream; None where that is of it, or could not be read."""
        return None if self.expect is None else self.expect.side_input(self.source_topic, self.group_by or ())

    @property
    def reading(self) -> Reading:
        """Its stream, and that of what is waited for."""
        side_input = self._side_input
        return super().reading if side_input is None else replace(super().reading, side_inputs=(side_input,))

    @classmethod
    def reading_written(cls, body: Mapping[str, Any]) -> Reading | None:
        """With the stream of what is waited for."""
        read, expect = super().reading_written(body), body.get("expect")
        source = expect.get("source_topic") if isinstance(expect, dict) else None
        if read is None or not isinstance(source, str) or source in read.judged:
            return read
        return replace(read, side_inputs=(SideInput(source),))

    def place_of_source(self, source: str) -> Path:
        """Where it is named, if that is not the rule's own."""
        return ("expect", "source_topic") if source != self.source_topic else super().place_of_source(source)

    def all_conditions(self) -> tuple[Condition, ...]:
        """Its own, those of what waits, and those of what is waited for."""
        return (*super().all_conditions(), self._waiting.condition, self.expect.condition)

    def findings(self) -> list[Finding]:
        """What cannot stand together."""
        findings = super().findings()
        if not self.within:
            findings.append(Finding(("within",), "no time", "a time longer than 0, such as 10m"))
        theirs = self.expect.group_by if self.expect is not None else ()
        if theirs and self.group_by is not None and len(theirs) != len(self.group_by):
            own = f"which has {shown(list(self.group_by))}" if self.group_by else "which has none"
            findings.append(
                Finding(("expect", "group_by"), shown(list(theirs)), f"as many fields as the rule's group_by, {own}")
            )
        return findings

    @property
    def judges_again(self) -> bool:
        """Nothing is reported before all that may answer in time has come: no record changes it."""
        return False

    def stream_findings(self, name: str, spec: StreamSpec, lists: Collection[str] | None) -> list[Finding]:
        """Fields that the stream does not have, or of the wrong type."""
        keys = self.group_by or ()
        findings = super().stream_findings(name, spec, lists) + group_findings(keys, name, spec)
        if self.late_policy == "reevaluate" and any(rule_of(source) is not None for source in self.reading.sources):
            expected = "evaluate or skip: an absence reads hits as they were emitted first, and no corrections"
            findings.append(Finding(("late_policy",), "reevaluate", expected))
        given = (keys, name, spec, lists)
        findings += _placed("after", self._waiting.stream_findings(None, *given))
        if self.expect is None:  # it could not be read
            return findings
        found = self.expect.stream_findings(self._side_input, *given)
        if _is_plain(self.expect):
            return findings + _placed("expect", found)
        return findings + [replace(each, path=("expect", *each.path)) for each in found]

    def program(self, spec: StreamSpec, defaults: Defaults) -> Program:  # noqa: ARG002 - any stream has a clock
        """What waits, and what for."""
        feed = self.feed(defaults, self.group_by)
        after, expect = self._waiting.feed(feed, None), self.expect.feed(feed, self._side_input)
        return Program(
            feed,
            verdict=AbsencePredicate(after, expect, self.within or 0),
            emission=Emission(cooldown_ms=self.cooldown, delivered=self.emit_to_sink),
            judge_lateness_ms=self.lateness(defaults).judged_ms,
        )

    def lingers_ms(self, defaults: Defaults) -> int:
        """As long as the last record that it judged may wait."""
        return (self.within or 0) + (self.lateness(defaults).allowed_ms or 0)

    def placeholder_names(self, spec: StreamSpec | None) -> Collection[str] | None:  # noqa: ARG002 - the rule knows
        """What every alert of it has, and the fields of the key."""
        return (*_SAID_OF, *(self.group_by or ()))

    @cached_property
    def _sentence(self) -> Sentence:
        after, expect, side_input = self._waiting.condition.text, self.expect.condition.text, self._side_input
        if side_input is not None:
            expect = noun(side_input.source, one=True) + (f" where {expect}" if expect else "")
        parts: list[tuple[PartKind, str]] = [("text", f"{after}, and then no {expect}"), *key_parts(self.group_by)]
        return Sentence(joined([*parts, ("text", " within "), ("window", "")]))

    def default_sentence(self, value: float | None) -> Sentence:  # noqa: ARG002 - the same for any value
        """``status == paid, and then no status == shipped by order o1 within 2 d``."""
        return self._sentence
