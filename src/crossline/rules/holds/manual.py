"""Holds that people place: an action on all records of a key, from an instant of the ingest clock until another one.

A generated rule finds the records of held keys in their stream, one rule for each choice of key fields. Which hold
applies to a record, and since when, is looked up afterwards (``runtime/stages/alert_holds.py``). So a hold that is
placed, released or expired changes no state.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, get_args

from crossline.basics.conditions.condition import Condition
from crossline.basics.conditions.tree import AllOf, Leaf
from crossline.basics.streams.inputs import Reading
from crossline.basics.streams.schema import FieldSpec, StreamSpec
from crossline.basics.texts.problems import Finding
from crossline.programs.program import Program
from crossline.rules.base import Action, Defaults, Lateness, Rule
from crossline.rules.holds.placed_hold import BY_HAND, PlacedHold
from crossline.rules.holds.release import Key

ACTIONS = get_args(Action)[1:]  # those that hold something back
KEY_FIELDS_MAX, VALUE_CHARS = 5, 1_000
LASTS_MS_MAX = 366 * 86_400_000
STANDING_MAX = 10_000
_KINDS = ("string", "integer", "boolean")
_WHOLE = re.compile(r"-?(0|[1-9][0-9]{0,18})", re.ASCII)


class PlacedRule(Rule):
    """Satisfied at every record of ``stream`` that may have one of the keys that are held there.

    Of a key of several fields it takes more than those: each value of a field with each of another one.
    """

    is_hold: ClassVar[bool] = True

    stream: str
    key_fields: tuple[str, ...]
    values: tuple[tuple[str | int | bool, ...], ...]

    @property
    def reading(self) -> Reading:
        """The stream."""
        return Reading((self.stream,))

    @cached_property
    def filter(self) -> Condition:
        """That each field of the key has one of the values that are held."""
        pairs = zip(self.key_fields, self.values, strict=True)
        return Condition(AllOf(tuple(Leaf(name, "in", values) for name, values in pairs)))

    def lateness(self, defaults: Defaults) -> Lateness:  # noqa: ARG002 - who decides leaves out what came late
        """No bound of its own."""
        return Lateness(None, None)

    def stream_findings(self, name: str, spec: StreamSpec, lists: Collection[str] | None) -> list[Finding]:  # noqa: ARG002
        """None: it is made where it fits."""
        return []

    def program(self, spec: StreamSpec, defaults: Defaults) -> Program:  # noqa: ARG002 - its fields were looked at
        """Each record that meets the conditions, under its key."""
        return Program(self.feed(defaults), entity=self.key_fields)

    def canonical(self) -> dict[str, Any]:
        """By what it is made of."""
        return {"rule_id": self.rule_id, "stream": self.stream, "values": [list(each) for each in self.values]}


def placed_rules(placed: Sequence[PlacedHold], streams: Mapping[str, StreamSpec]) -> Iterator[PlacedRule]:
    """The rules that look for the keys of ``placed``, by stream and key fields, whichever of them still stand."""
    found: dict[tuple[str, tuple[str, ...]], list[Key]] = {}
    for each in placed:
        for stream, _ in each.begins:
            if stream in streams and key_problem(each.key, streams[stream]) is None:
                found.setdefault((stream, each.key_fields), []).append(each.key)
    for (stream, fields), keys in sorted(found.items()):
        columns = streams[stream].columns
        values = tuple(
            tuple(dict.fromkeys(value_of(dict(key)[name], columns[name]) for key in keys)) for name in fields
        )
        yield PlacedRule.model_construct(
            rule_id=f"{BY_HAND}{stream}:{','.join(fields)}",
            version=1,
            rule_type="placed",
            source_topic=stream,
            stream=stream,
            key_fields=fields,
            values=values,
            record="none",
        )


def key_problem(key: Key, spec: StreamSpec) -> tuple[str, str] | None:
    """What was found and what was expected, where no record of a stream can have such a ``key``."""
    for name, text in key:
        field = spec.columns.get(name)
        if field is None:
            return f"field {name}", "a field of the stream"
        if field.is_list or field.kind not in _KINDS:
            return f"field {name}, of type {field}", "a field of one text, whole number, or true or false"
        if field.kind == "integer" and _WHOLE.fullmatch(text) is None:
            return f"{name}={text[:100]}", "a whole number, as the field has"
        if field.kind == "boolean" and text not in {"true", "false"}:
            return f"{name}={text[:100]}", "true or false, as the field has"
    return None


def value_of(text: str, field: FieldSpec) -> str | int | bool:
    """The value of a key's text, in the type of its field."""
    if field.kind == "integer":
        return int(text)
    return text == "true" if field.kind == "boolean" else text
