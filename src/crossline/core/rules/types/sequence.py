"""``sequence``: records of a key that follow each other, step by step, within a time."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from crossline.core.conditions.condition import Condition
from crossline.core.conditions.tree import AllOf, check_conditions, parse_conditions
from crossline.core.figures.program import Emission, Feed, NamedStep, Ordered, Program
from crossline.core.rules.base import Defaults, Rule, check_raw_conditions
from crossline.core.rules.figure import group_findings
from crossline.core.rules.registry import rule_type
from crossline.core.rules.sentence import PartKind, Sentence, joined, key_parts
from crossline.core.streams.schema import StreamSpec
from crossline.core.texts.fieldtypes import Duration, Names, OptionalDuration, RuleId
from crossline.core.texts.problems import Finding, Path, shown
from crossline.core.texts.validation import refusal

_RECORDS_MAX = 1_000
_SAID_OF = ("value", "count", "window", "rule_id")


class PartFields(BaseModel):
    """Records that mean something to a sequence, and the key that they have."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    conditions: Annotated[Any, BeforeValidator(check_raw_conditions)] = Field(
        None, description="Which records they are, besides the rule's `conditions`; none: all of them."
    )
    group_by: Names = Field(
        (), description="Field or fields of the key here, where they are not the rule's: as many, of the same types."
    )

    @cached_property
    def condition(self) -> Condition:
        """The conditions, parsed."""
        return Condition(parse_conditions(self.conditions)[0])


class StepFields(PartFields):
    """One step of a sequence."""

    name: RuleId = Field(description="What the step is called.")
    times: int = Field(1, ge=1, le=_RECORDS_MAX, description="How many records take it, one after the other.")
    source_topic: str | None = Field(None, description="The rule's own stream.")


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
    """Fires where records of a key have taken all steps, in order and within a time."""

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
        return self.group_by or next((step.group_by for step in self.steps or () if step.group_by), ())

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
            if self.source_topic is not None and step.source_topic not in {None, self.source_topic}:
                expected = f"{self.source_topic}, as of the rule; steps of several streams are not in this version yet"
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
            own = check_conditions(part.condition.node, spec.columns, name, lists)
            own += group_findings(part.group_by, name, spec) or list(self._other_kinds(part, spec))
            findings += [replace(found, path=(*path, *found.path)) for found in own]
        return findings

    def _other_kinds(self, part: PartFields, spec: StreamSpec) -> Iterator[Finding]:
        """Fields of a key that are of another type than those of the rule's."""
        for here, there in zip(part.group_by, self.key_fields, strict=False):
            mine, wanted = spec.columns[here].kind, spec.columns.get(there)
            if wanted is not None and mine != wanted.kind:
                yield Finding(("group_by",), f"{here}, of type {mine}", f"a field of type {wanted.kind}, as {there}")

    def program(self, spec: StreamSpec, defaults: Defaults) -> Program:  # noqa: ARG002 - any stream has an order
        """Its steps, in order."""
        feed = self.feed(defaults, self.key_fields)
        return Program(
            feed,
            verdict=Ordered(
                tuple(NamedStep(step.name, self._of(feed, step), step.times) for step in self.steps),
                self.within or 0,
                None if self.until is None else self._of(feed, self.until),
                self.strict,
            ),
            emission=Emission(cooldown_ms=self.cooldown, delivered=self.emit_to_sink),
            judge_lateness_ms=self.lateness(defaults).judged_ms,
        )

    def _of(self, feed: Feed, part: PartFields) -> Feed:
        """The records of ``feed`` that are meant by ``part``."""
        nodes = [each.node for each in (feed.condition, part.condition) if each.canonical]
        condition = Condition(nodes[0] if len(nodes) == 1 else AllOf(tuple(nodes)))
        return replace(feed, condition=condition, key_fields=part.group_by or feed.key_fields)

    def placeholder_names(self, spec: StreamSpec | None) -> Collection[str] | None:  # noqa: ARG002 - the rule knows
        """What every alert of it has, and the fields of the key."""
        return None if self.steps is None else (*_SAID_OF, *self.key_fields)

    @cached_property
    def _sentence(self) -> Sentence:
        said = ", then ".join(step.name + (f" ({step.times} times)" if step.times > 1 else "") for step in self.steps)
        parts: list[tuple[PartKind, str]] = [("text", said), *key_parts(self.key_fields), ("text", " within ")]
        return Sentence(joined([*parts, ("window", "")]))

    def default_sentence(self, value: float | None) -> Sentence:  # noqa: ARG002 - the same for any value
        """``declined (3 times), then approved by card hash c1 within 10 min``."""
        return self._sentence
