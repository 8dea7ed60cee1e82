"""What alerts carry of their record: which fields a rule, or the pipeline for it, asks for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from crossline.basics.streams.inputs import HIT
from crossline.basics.streams.schema import FieldSpec, StreamSpec, check_field
from crossline.basics.texts.fieldtypes import RecordAsked
from crossline.basics.texts.problems import Finding, nearest, shown


@dataclass(frozen=True, slots=True)
class CarriedRecord:
    """What alerts carry of their record: ``fields`` with their types; ``id`` is the one that every hit has."""

    fields: tuple[tuple[str, FieldSpec], ...]
    id: str

    @property
    def names(self) -> tuple[str, ...]:
        """The fields that rows have to carry."""
        return tuple(name for name, _ in self.fields if name != self.id)


class _Asks(Protocol):
    """A rule, or what holds for rules that do not say otherwise."""

    @property
    def record(self) -> RecordAsked | None: ...


def record_findings(requested: RecordAsked | None, spec: StreamSpec, stream: str) -> Iterator[Finding]:
    """Fields that records of ``stream`` do not have."""
    for name in requested if isinstance(requested, tuple) else ():
        finding = None if list(_within(name, _own(spec))) else check_field(name, dict(_own(spec)), stream, ("record",))
        if finding is not None:
            yield finding


def default_findings(requested: RecordAsked, streams: Mapping[str, StreamSpec]) -> Iterator[Finding]:
    """Fields that a pipeline asks for, and none of its streams has."""
    for name in requested if isinstance(requested, tuple) else ():
        if not any(list(_within(name, _own(spec))) for spec in streams.values()):
            columns = {field for spec in streams.values() for field, _ in _own(spec)}
            yield Finding(("defaults", "record"), shown(name), "a field of one of the streams", nearest(name, columns))


def carried_record(rule: _Asks, spec: StreamSpec, defaults: _Asks) -> CarriedRecord | None:
    """What alerts of ``rule`` carry; None where it is nothing.

    Of fields that the pipeline asks for, those that the records have.
    """
    requested = rule.record if rule.record is not None else defaults.record
    if requested is None or requested == "none":
        return None
    own = dict(_own(spec))
    if not isinstance(requested, tuple):
        return CarriedRecord(tuple(own.items()), spec.id)
    names = dict.fromkeys(field for name in requested for field in _within(name, own.items()))
    return CarriedRecord(tuple((name, own[name]) for name in names), spec.id) if names else None


def _own(spec: StreamSpec) -> Iterator[tuple[str, FieldSpec]]:
    """The fields of a record; of a hit those of the record that was hit."""
    return ((name, each) for name, each in spec.columns.items() if not name.startswith(f"{HIT}."))


def _within(name: str, fields: Iterable[tuple[str, FieldSpec]]) -> Iterator[str]:
    """The field of that name, or those within it."""
    return (field for field, _ in fields if field == name or field.startswith(f"{name}."))
