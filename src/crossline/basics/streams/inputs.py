"""What a rule reads: the streams whose records it judges, and those that its figures look at beside them.

A name is that of a stream, or ``rule:<id>`` for the hits of a rule. Where a rule reads more than one, their records
come together under the same keys: the plan that judges it has the records of all of them, each as a row of one wide
table (``columns`` of other streams are called by where they come from).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from pydantic import ConfigDict, Field

from crossline.basics.streams.schema import FieldSpec, StreamSpec
from crossline.basics.texts.problems import Finding

RULE = "rule:"
HIT = "hit"
SOURCE = "\x1fsource"  # the column of a wide table that has the source of a row
_PLAIN = re.compile(r"[\w.]+", re.ASCII)
_APART = "\x1f"
_HOLD = "!hold"


def rule_of(stream: str) -> str | None:
    """The rule whose hits are the records of ``stream``; None for a stream of its own.

    Of a source of several rules' hits (``hits_of``) it is what no rule is called.
    """
    return stream.removeprefix(RULE) if stream.startswith(RULE) else None


def hits_of(rule_ids: tuple[str, ...]) -> str:
    """The source whose records are the hits of all these rules, as risk scores are of; of none: of every rule."""
    return f"{RULE}[{','.join(rule_ids)}]" if rule_ids else f"{RULE}*"


def several_of(source: str) -> tuple[str, ...] | None:
    """The rules that ``hits_of`` was given; None for another source."""
    if source == f"{RULE}*":
        return ()
    return tuple(source[len(RULE) + 1 : -1].split(",")) if source.startswith(f"{RULE}[") else None


@dataclass(frozen=True, slots=True)
class SideInput:
    """Records beside those that are judged; ``keys``: fields of the key that have other names there (here, there)."""

    source: str
    keys: tuple[tuple[str, str], ...] = ()

    @property
    def name(self) -> str:
        """The source, and its names of the key."""
        renamed = ",".join(f"{_quoted(here)}={_quoted(there)}" for here, there in self.keys)
        return f"{self.source}({renamed})" if renamed else self.source

    def column(self, field: str) -> str:
        """What its ``field`` is called in the wide table."""
        return f"{_APART}{self.name}{_APART}{field}"

    def there(self, here: str) -> str:
        """Its name of a field of the key."""
        return dict(self.keys).get(here, here)


@dataclass(frozen=True, slots=True)
class Reading:
    """``judged``: whose records a rule judges. ``side_inputs``: what its figures are of besides.

    ``cross_key``: what figures of other keys than its own are of, which are computed first and joined to the record.
    ``holds``: it is that of a hold (``rules/holds/hold.py``), whose records meet apart from those of rules.
    """

    judged: tuple[str, ...]
    side_inputs: tuple[SideInput, ...] = ()
    cross_key: tuple[Reading, ...] = ()
    holds: bool = False

    @property
    def name(self) -> str:
        """The stream where that is all it reads; else a name that no stream has."""
        name = "+".join([self.judges, *(side_input.name for side_input in self.side_inputs)]) + (
            _HOLD if self.holds else ""
        )
        return f"{name}@[{','.join(each.name for each in self.cross_key)}]" if self.cross_key else name

    @property
    def judges(self) -> str:
        """The judged, as one name."""
        return "&".join(self.judged)

    @property
    def sources(self) -> tuple[str, ...]:
        """All that it reads."""
        cross_key = (source for each in self.cross_key for source in each.sources)
        return tuple(dict.fromkeys((*self.judged, *(side_input.source for side_input in self.side_inputs), *cross_key)))

    @property
    def text(self) -> str:
        """All that it reads, in words."""
        *first, last = self.sources
        return f"{', '.join(first)} and {last}" if first else last

    @property
    def judged_once(self) -> bool:
        """Whether no record is judged again: a retracted hit was part of a risk score until its retraction."""
        return any(several_of(source) is not None for source in self.sources)

    @property
    def single(self) -> bool:
        """Whether it is one stream, or the hits of one rule, as they are."""
        return len(self.judged) == 1 and not self.side_inputs and not self.cross_key


def column_text(name: str) -> str:
    """A column of a wide table as a person calls it: ``rate of fx_rates`` for one of another stream."""
    _, source, field = name.split(_APART) if name.count(_APART) == 2 else ("", "", name)
    return f"{field} of {source.partition('(')[0]}" if source else name


def _quoted(field: str) -> str:
    return field if _PLAIN.fullmatch(field) else json.dumps(field)


class JoinedSpec(StreamSpec):
    """The records that a rule judges, beside ``others``, by source, that its figures look at.

    Where they are of several streams, they need not have the fields that the id and the times of the first have.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True, arbitrary_types_allowed=True)

    others: dict[str, StreamSpec] = Field(default_factory=dict, exclude=True)

    def _findings(self) -> list[Finding]:
        return []

    @cached_property
    def known(self) -> Mapping[str, StreamSpec]:
        """By source."""
        return dict(self.others)


def spec_of(spec: StreamSpec, source: str | None) -> StreamSpec:
    """What the records of ``source`` look like, among those of ``spec``; of None those that are judged."""
    return spec.known.get(source, spec) if isinstance(spec, JoinedSpec) and source is not None else spec


def nested(flat: Mapping[str, str]) -> dict[str, object]:
    """Fields by dotted name as a stream's file has them."""
    found: dict[str, object] = {}
    for name, kind in flat.items():
        *outer, last = name.split(".")
        inside = found
        for part in outer:
            inside = inside.setdefault(part, {})  # type: ignore[assignment]
        inside[last] = kind
    return found


def spec_like(spec: StreamSpec, columns: Mapping[str, FieldSpec], others: Mapping[str, StreamSpec]) -> JoinedSpec:
    """``spec`` with other ``columns``, beside ``others``."""
    fields = nested({name: str(each) for name, each in columns.items()})
    given = {"fields": fields, "enrich": {}, "others": others}
    return JoinedSpec.model_validate({**spec.model_dump(mode="json", by_alias=True), **given})


def tokenised(spec: StreamSpec) -> StreamSpec:
    """What records of ``spec`` look like that have tokens already, such as those of a store or of the lake."""
    if not spec.sensitive:
        return spec
    fields = nested({name: str(each) for name, each in spec.own_columns.items()})
    given = {**spec.model_dump(mode="json", by_alias=True), "fields": fields, "sensitive": {}, "tokens": None}
    return StreamSpec.model_validate(given)


def as_came(spec: StreamSpec) -> StreamSpec:
    """``spec`` without sensitive fields: what tests of rules judge, whose records are made up."""
    if not spec.sensitive:
        return spec
    return StreamSpec.model_validate({**spec.model_dump(mode="json", by_alias=True), "sensitive": {}, "tokens": None})


def written_reading(body: Mapping[str, object]) -> Reading | None:
    """What a rule reads as it is written, where it is one stream; None where it does not say so."""
    source = body.get("source_topic")
    return Reading((source,)) if isinstance(source, str) else None
