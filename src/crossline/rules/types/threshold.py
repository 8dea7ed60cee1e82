"""``threshold``: a record that meets the conditions is a hit. No state, no window."""

from __future__ import annotations

import copy
from collections.abc import Collection
from functools import cached_property
from typing import Any, ClassVar, Literal, Self

from pydantic import Field

from crossline.basics.conditions.tree import ORDERING, AllOf, Leaf
from crossline.basics.streams.schema import StreamSpec
from crossline.basics.texts.problems import Finding
from crossline.programs.program import Evidence, Program
from crossline.programs.thresholds import ThresholdLine
from crossline.rules.base import Defaults
from crossline.rules.entity import RecordRule
from crossline.rules.registry import rule_type
from crossline.rules.sentence import RESERVED, Sentence, key_parts, noun, placeholders


@rule_type("threshold")
class ThresholdRule(RecordRule):
    """Fires on every record that meets ``conditions``."""

    rule_type: Literal["threshold"] = Field(description="`threshold`.")

    example: ClassVar[str] = """\
rule_id: large_web_payment
version: 1
rule_type: threshold
source_topic: payments
entity: account_id
severity: high
score: 40
action: step_up
description: "{amount_cents} cents at once by account {account_id}"
conditions:
  - {field: channel, operator: "==", value: web}
  - {field: amount_cents, operator: ">=", value: 1000000}
"""

    def findings(self) -> list[Finding]:
        """A rule without conditions would fire on every record."""
        findings = super().findings()
        if self.conditions is None:
            findings.append(Finding(("conditions",), "nothing", "one or more conditions, which make the record a hit"))
        return findings

    def program(self, spec: StreamSpec, defaults: Defaults) -> Program:  # noqa: ARG002 - the record alone decides
        """Each record that meets the conditions; its alert shows the fields that they or the description name."""
        named = placeholders(self.description) if self.description else ()
        shown = {*self.filter.fields(), *(name for name in named if name not in RESERVED)}
        judged_ms = self.lateness(defaults).judged_ms
        evidence = Evidence(tuple(sorted(shown)))
        return Program(self.feed(defaults), evidence=evidence, judge_lateness_ms=judged_ms, entity=self.entity)

    def drawn(self, spec: StreamSpec) -> ThresholdLine | None:  # noqa: ARG002 - the conditions say it
        """Of conditions that all must hold the one that orders a number; None where there are several, or none."""
        node = self.filter.node
        parts = node.parts if isinstance(node, AllOf) else (node,)
        lines = [
            ThresholdLine(each.field, each.operator, each.value, (*each.path, "value"), each.field)  # type: ignore[arg-type]
            for each in parts
            if isinstance(each, Leaf) and each.operator in ORDERING and isinstance(each.value, int | float)
        ]
        return lines[0] if len(lines) == 1 else None

    def redrawn(self, threshold: float, spec: StreamSpec) -> Self:
        """With another number in that condition."""
        line = self.drawn(spec)
        if line is None:
            raise ValueError(f"{self.rule_id} draws no line")
        conditions = copy.deepcopy(self.conditions)
        place: Any = {"conditions": conditions}
        for step in line.path[:-1]:
            place = place[step]
        place["value"] = threshold
        return type(self).model_validate({**self.to_json(), "conditions": conditions})

    def placeholder_names(self, spec: StreamSpec | None) -> Collection[str] | None:
        """Its id, and any field of the record."""
        return None if spec is None else ("rule_id", *spec.columns)

    @cached_property
    def _sentence(self) -> Sentence:
        what = f"{noun(self.source_topic, one=True)} where {self.filter.text}"
        return Sentence((("text", what), *key_parts(self.entity)))

    def default_sentence(self, value: float | None) -> Sentence:  # noqa: ARG002 - a record has no value
        """``payment where amount_cents >= 1000000``."""
        return self._sentence
