"""``sequence``: records of a key that follow each other, step by step, within a time."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field

from crossline.basics.conditions.condition import Condition
from crossline.basics.streams.inputs import Reading, SideInput
from crossline.basics.streams.schema import StreamSpec
from crossline.basics.texts.fieldtypes import Duration, Names, OptionalDuration, RuleId
from crossline.basics.texts.problems import Finding, Path, shown
from crossline.basics.texts.validation import refusal
from crossline.programs.program import Emission, Feed, NamedStep, Program, SequencePredicate
from crossline.rules.base import Defaults, Rule
from crossline.rules.field_groups import PartFields, SourcedFields
from crossline.rules.figure_checks import group_findings
from crossline.rules.registry import rule_type
from crossline.rules.sentence import PartKind, Sentence, joined, key_parts

_RECORDS_MAX = 1_000
_SAID_OF = ("value", "count", "window", "rule_id")


class StepFields(SourcedFields):
    """One step of a sequence."""

    name: RuleId = Field(description="What the step is called.")
    times: int = Field(1, ge=1, le=_RECORDS_MAX, description="How many records take it, one after the other.")


def _steps(value: Any) -> Any:
    if not isinstance(value, list) or not value:
        raise refusal("a list of steps, such as [{name: failed, times: 3, conditions: [...]}, {name: success}]")
    return value


def _step(value: Any) -> Any:
    if not isinstance(value, dict):
        raise refusal("a step, such as {name: success, conditions: [...]}")
    return value


def _until(value: Any) -> Any:
    if value is not None and not isinstance(value, dict):
        raise refusal("the records that end what is under way, such as {conditions: [...]}")
    return value


@rule_type("sequence")
class SequenceRule(Rule):
    """Fires where records of a key complete all steps, in order and within a time."""

    rule_type: Literal["sequence"] = Field(description="`sequence`.")
    steps: Annotated[list[Annotated[StepFields, BeforeValidator(_step)]], BeforeValidator(_steps)] = Field(
        description="The steps, in order."
    )
    within: OptionalDuration = Field(description="How long it may take from the first record to the last: `10m`.")
    group_by: Names = Field((), description="Field or fields of the key; none: one sequence over the whole stream.")
    until: Annotated[PartFields | None, BeforeValidator(_until)] = Field(
        None, description="Records that end what is under way: `{conditions: [...]}`."
    )
    strict: bool = Field(False, description="`true`: no other record of the key may come in between.")
    emit: Literal["every"] = Field("every", description="A sequence alerts at every hit.")
    cooldown: Duration = Field(0, description="After an alert, none for the same key for this long.")
    emit_to_sink: bool = Field(True, description="`false`: recorded, but not delivered to a sink.")

    example: ClassVar[str] = """\
rule_id: guessed_cvv
version: 1
rule_type: sequence
source_topic: payments
severity: high
score: 70
action: block
hold: 30m
description: "card {card_hash}: declined three times, then approved, within {window}"
group_by: card_hash
steps:
  - {name: declined, times: 3, conditions: [{field: status, operator: "==", value: declined}]}
  - {name: approved, conditions: [{field: status, operator: "==", value: approved}]}
within: 10m
"""

    @property
    def key_fields(self) -> tuple[str, ...]:
        """The key as alerts name it: the rule's, or that of the first step."""
        own = (step for step in self.steps or () if step.source_topic in {None, self.source_topic})
        return self.group_by or next((step.group_by for step in own if step.group_by), ())

    def _side_input(self, part: PartFields) -> SideInput | None:
        """What a step is of beside the rule's own stream; None where it is of that."""
        return part.side_input(self.source_topic, self.key_fields)

    @property
    def reading(self) -> Reading:
        """Its stream, and those of its steps."""
        side_inputs = {side_input for _, part in self._parts() if (side_input := self._side_input(part)) is not None}
        return replace(super().reading, side_inputs=tuple(sorted(side_inputs, key=str)))

    @classmethod
    def reading_written(cls, body: Mapping[str, Any]) -> Reading | None:
        """With the streams of steps."""
        read, steps = super().reading_written(body), body.get("steps")
        if read is None or not isinstance(steps, list):
            return read
        given = {each.get("source_topic") for each in steps if isinstance(each, dict)} - {*read.judged}
        return replace(
            read, side_inputs=tuple(SideInput(each) for each in sorted(each for each in given if isinstance(each, str)))
        )

    def place_of_source(self, source: str) -> Path:
        """The first step that is of it, where it is not the rule's own."""
        for number, step in enumerate(self.steps or ()):
            if step.source_topic == source and source != self.source_topic:
                return ("steps", number, "source_topic")
        return super().place_of_source(source)

    def _parts(self) -> Iterator[tuple[Path, PartFields]]:
        """The steps and what ends them, each with its place in the rule."""
        yield from ((("steps", number), step) for number, step in enumerate(self.steps or ()))
        if self.until is not None:
            yield ("until",), self.until

    def all_conditions(self) -> tuple[Condition, ...]:
        """Its own, and those of its steps and of what ends them."""
        return (*super().all_conditions(), *(part.condition for _, part in self._parts()))

    def findings(self) -> list[Finding]:
        """What cannot stand together."""
        findings = super().findings()
        if not self.within:
            findings.append(Finding(("within",), "no time", "a time longer than 0, such as 10m"))
        steps = self.steps or ()
        if steps and not 2 <= sum(step.times for step in steps) <= _RECORDS_MAX:
            records = sum(step.times for step in steps)
            found = "one step of one record" if records == 1 else f"steps that {records:,} records take"
            findings.append(Finding(("steps",), found, f"steps that 2 to {_RECORDS_MAX:,} records take together"))
        names = [step.name for step in steps]
        for number, step in enumerate(steps):
            if step.name in names[:number]:
                findings.append(Finding(("steps", number, "name"), shown(step.name), "another name for each step"))
            if self.strict and self._side_input(step) is not None:
                expected = f"{self.source_topic}, as of the rule, where strict is true"
                findings.append(Finding(("steps", number, "source_topic"), shown(step.source_topic), expected))
        return findings + list(self._other_keys())

    def _other_keys(self) -> Iterator[Finding]:
        """Keys of steps that cannot be the same."""
        for path, part in self._parts():
            mine = part.group_by or self.group_by
            if len(mine or ()) != len(self.key_fields):
                expected = f"as many fields as of the others, which have {shown(list(self.key_fields))}"
                yield Finding((*path, "group_by"), shown(list(mine)) if mine else "nothing", expected)
            elif self.strict and mine != self.key_fields and path != ("until",):
                expected = f"{shown(list(self.key_fields))}, as of the others, where strict is true"
                yield Finding((*path, "group_by"), shown(list(mine)), expected)

    def stream_findings(self, name: str, spec: StreamSpec, lists: Collection[str] | None) -> list[Finding]:
        """Fields that the stream does not have or of the wrong type, in any of its parts."""
        findings = super().stream_findings(name, spec, lists) + group_findings(self.group_by or (), name, spec)
        for path, part in self._parts():
            own = part.stream_findings(self._side_input(part), self.key_fields, name, spec, lists)
            findings += [replace(found, path=(*path, *found.path)) for found in own]
        return findings

    def program(self, spec: StreamSpec, defaults: Defaults) -> Program:  # noqa: ARG002 - any stream has an order
        """Its steps, in order."""
        feed = self.feed(defaults, self.key_fields)
        return Program(
            feed,
            verdict=SequencePredicate(
                tuple(NamedStep(step.name, self._of(feed, step), step.times) for step in self.steps),
                self.within or 0,
                None if self.until is None else self._of(feed, self.until),
                self.strict,
            ),
            emission=Emission(cooldown_ms=self.cooldown, delivered=self.emit_to_sink),
            judge_lateness_ms=self.lateness(defaults).judged_ms,
        )

    def _of(self, feed: Feed, part: PartFields) -> Feed:
        """The records of ``feed``, or of another stream, that are meant by ``part``."""
        return part.feed(feed, self._side_input(part))

    def placeholder_names(self, spec: StreamSpec | None) -> Collection[str] | None:  # noqa: ARG002 - the rule knows
        """What every alert of it has, and the fields of the key."""
        return None if self.steps is None else (*_SAID_OF, *self.key_fields)

    @cached_property
    def _sentence(self) -> Sentence:
        text = ", then ".join(step.name + (f" ({step.times} times)" if step.times > 1 else "") for step in self.steps)
        parts: list[tuple[PartKind, str]] = [("text", text), *key_parts(self.key_fields), ("text", " within ")]
        return Sentence(joined([*parts, ("window", "")]))

    def default_sentence(self, value: float | None) -> Sentence:  # noqa: ARG002 - the same for any value
        """``declined (3 times), then approved by card hash c1 within 10 min``."""
        return self._sentence
