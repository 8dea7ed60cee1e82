"""Parts of a rule that mean records of their own: under another name of the key, or of another stream."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from crossline.basics.conditions.condition import Condition
from crossline.basics.conditions.tree import AllOf, check_conditions, parse_conditions
from crossline.basics.streams.inputs import SideInput, spec_of
from crossline.basics.streams.schema import StreamSpec
from crossline.basics.texts.fieldtypes import Names
from crossline.basics.texts.problems import Finding
from crossline.programs.program import Feed
from crossline.rules.base import check_raw_conditions
from crossline.rules.figure_checks import group_findings, side_input_findings


class PartFields(BaseModel):
    """Records that mean something to a rule, and the key that they have."""

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

    def side_input(self, own: str, keys: Sequence[str]) -> SideInput | None:
        """What the part is of beside the stream ``own`` of a rule that groups by ``keys``; None where it is of that."""
        source = getattr(self, "source_topic", None)
        if source in {None, own}:
            return None
        names = zip(keys, self.group_by or keys, strict=False)
        return SideInput(str(source), tuple((here, there) for here, there in names if here != there))

    def feed(self, of: Feed, side_input: SideInput | None) -> Feed:
        """The records of the feed ``of``, or of another stream, that are meant."""
        if side_input is not None:
            return replace(of, stream=side_input.name, condition=self.condition)
        nodes = [each.node for each in (of.condition, self.condition) if each.canonical]
        condition = Condition(nodes[0] if len(nodes) == 1 else AllOf(tuple(nodes)))
        return replace(of, condition=condition, key_fields=self.group_by or of.key_fields)

    def stream_findings(
        self, side_input: SideInput | None, keys: Sequence[str], name: str, spec: StreamSpec, lists: Any
    ) -> list[Finding]:
        """Fields that its stream does not have or of the wrong type; ``keys``: the rule's, of the stream ``name``."""
        theirs = spec_of(spec, None if side_input is None else side_input.source)
        found = check_conditions(
            self.condition.node, theirs.columns, name if side_input is None else side_input.source, lists
        )
        if side_input is None:
            return found + (group_findings(self.group_by, name, spec) or list(self._other_kinds(keys, spec)))
        if all(key in spec.columns for key in keys):
            found += [replace(each, path=("group_by",)) for each in side_input_findings(side_input, keys, spec, theirs)]
        return found

    def _other_kinds(self, keys: Sequence[str], spec: StreamSpec) -> Iterator[Finding]:
        """Fields of a key that are of another type than those of the rule's."""
        for here, there in zip(self.group_by, keys, strict=False):
            mine, wanted = spec.columns[here].kind, spec.columns.get(there)
            if wanted is not None and mine != wanted.kind:
                yield Finding(("group_by",), f"{here}, of type {mine}", f"a field of type {wanted.kind}, as {there}")


class SourcedFields(PartFields):
    """Records that may be of another stream."""

    source_topic: str | None = Field(
        None,
        description="The stream whose records are meant, or `rule:<rule_id>` for the hits of a rule. None: the rule's "
        "own. Of another stream only the part's own `conditions` are asked.",
    )
