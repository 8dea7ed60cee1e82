"""``list``: a field of the record stands in a named list, or does not. No state, no window."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from functools import cached_property
from typing import ClassVar, Literal

from pydantic import Field

from crossline.basics.conditions.condition import Condition
from crossline.basics.conditions.tree import AllOf, Leaf, ListRef, parse_conditions
from crossline.basics.streams.schema import StreamSpec, check_field
from crossline.basics.texts.problems import Finding
from crossline.programs.program import Evidence, Program
from crossline.rules.base import Defaults
from crossline.rules.entity import RecordRule
from crossline.rules.registry import rule_type
from crossline.rules.sentence import RESERVED, Sentence, key_parts, noun, placeholders

_Findings = list[Finding]  # in the class ``list`` is a field


@rule_type("list")
class ListRule(RecordRule):
    """Fires where a field is in a named list (or is not), as the list was at the record's ingest time."""

    rule_type: Literal["list"] = Field(description="`list`.")
    field: str = Field(min_length=1, description="The field whose value is looked up.")
    list: str = Field(min_length=1, description="The name of the list: that of its file, without the ending.")
    operator: Literal["in", "not_in"] = Field(
        "in", description="`in` hits what the list has, `not_in` what it has not, records without the field included."
    )

    example: ClassVar[str] = """\
rule_id: stolen_card
version: 1
rule_type: list
source_topic: payments
entity: card_hash
severity: critical
score: 100
action: block
description: "card {card_hash} of {account_id} is in list {list}"
field: card_hash
list: stolen_cards
conditions:
  - {field: amount_cents, operator: ">", value: 0}
"""

    @cached_property
    def filter(self) -> Condition:
        """That the field is in the list, or is not, and the conditions."""
        node = parse_conditions(self.conditions)[0]
        given = node.parts if isinstance(node, AllOf) else (node,)
        if None in {self.field, self.list, self.operator}:
            return Condition(AllOf(given))  # what could not be read is reported already
        return Condition(AllOf((Leaf(self.field, self.operator, ListRef(self.list)), *given)))

    def stream_findings(self, name: str, spec: StreamSpec, lists: Collection[str] | None) -> _Findings:
        """A field that the stream does not have or that has many values, and a list that is not there."""
        found = super().stream_findings(name, spec, lists)
        column = spec.columns.get(self.field)
        if column is None and None in {self.list, self.operator} and self.field is not None:
            unknown = check_field(self.field, spec.columns, name, ("field",))
            return [*([unknown] if unknown else []), *found]
        if column is not None and column.is_list:
            found = [each for each in found if each.path != ("operator",)]
            return [Finding(("field",), f"{self.field}, of type {column}", "a field with one value"), *found]
        return [replace(each, path=("list",)) if each.path == ("value",) else each for each in found]

    def program(self, spec: StreamSpec, defaults: Defaults) -> Program:
        """Each record that meets the condition; its alert shows the field, the list, and what the description names."""
        named = placeholders(self.description) if self.description else ()
        shown = {*self.filter.fields(), *(name for name in named if name in spec.columns)}
        notes = {"field": self.field, "operator": self.operator, "list": self.list}
        evidence = Evidence(tuple(sorted(shown)), notes=tuple(notes.items()))
        judged_ms = self.lateness(defaults).judged_ms
        return Program(self.feed(defaults), evidence=evidence, judge_lateness_ms=judged_ms, entity=self.entity)

    def placeholder_names(self, spec: StreamSpec | None) -> Collection[str] | None:
        """Its id, its list, and any field of the record."""
        return None if spec is None else ("rule_id", "list", *(each for each in spec.columns if each not in RESERVED))

    @cached_property
    def _sentence(self) -> Sentence:
        is_in = "is in" if self.operator == "in" else "is not in"
        whose = f"{noun(self.source_topic, one=True)} whose {self.field} "
        return Sentence(
            (("text", whose), ("figure", self.field), ("text", f" {is_in} list {self.list}"), *key_parts(self.entity))
        )

    def default_sentence(self, value: float | None) -> Sentence:  # noqa: ARG002 - a record has no value
        """``payment whose card_hash c1 is in list stolen_cards``."""
        return self._sentence
