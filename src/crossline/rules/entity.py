"""``entity``: the key of the alerts of rules that look at the record alone, and so count nothing under a key."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from pydantic import AliasChoices, Field

from crossline.basics.streams.schema import StreamSpec, check_field
from crossline.basics.texts.fieldtypes import Names
from crossline.basics.texts.problems import Finding, Path
from crossline.rules.base import Rule

_SAME = "group_by"


class RecordRule(Rule):
    """A rule that the record alone decides; ``group_by`` is another name of its ``entity``."""

    entity: Names = Field(
        (),
        validation_alias=AliasChoices("entity", _SAME),
        description="Field or fields of the key of its alerts: who or what they are about. `group_by` is the same. "
        "None: an empty key. A record that lacks one of them is a hit all the same, with an empty key.",
    )

    @classmethod
    def keys_written(cls, body: Mapping[str, Any]) -> Any:
        """The entity, by either name."""
        return body.get("entity", body.get(_SAME))

    def place_of(self, part: str, figure: str = "") -> Path:
        """Its key is the entity."""
        return super().place_of("entity" if part == _SAME else part, figure)

    def stream_findings(self, name: str, spec: StreamSpec, lists: Collection[str] | None) -> list[Finding]:
        """Fields of the entity that the stream does not have, or that have many values."""
        found = (_finding(field, name, spec) for field in self.entity or ())
        return [*super().stream_findings(name, spec, lists), *(each for each in found if each is not None)]


def _finding(field: str, name: str, spec: StreamSpec) -> Finding | None:
    if field in spec.columns and spec.columns[field].is_list:
        return Finding(("entity",), f"{field}, of type {spec.columns[field]}", "a field with one value")
    return check_field(field, spec.columns, name, ("entity",))
