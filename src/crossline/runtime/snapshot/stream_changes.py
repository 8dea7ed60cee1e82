"""What a stream file may not change while a checkpoint has the states of its records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from crossline.basics.errors import StateError
from crossline.basics.streams.schema import FieldSpec, StreamSpec, TimeField
from crossline.plan.compile import StorePlan
from crossline.runtime.snapshot.snapshot import PlanSnapshot


def check_streams(before: PlanSnapshot | None, streams: Mapping[str, StreamSpec], checkpoint: str) -> None:
    """Whether states that were built with the streams of ``before`` mean the same with ``streams``.

    Records in windows do not say which of their fields were missing, unless the field is optional. So of a field that
    becomes required, they would count as if they had it. By a value of another type, no key is found again, and by
    another id, no copy of a known record.

    Raises StateError that lists all that must go back.
    """
    if before is None:
        return
    found = [
        f"stream {name}: {each}"
        for name, was in before.streams.items()
        if name in streams
        for each in _changes(was, streams[name], before, name)
    ]
    if found:
        raise StateError(
            f"{checkpoint} has records that were read by another stream file: {'; '.join(found)}. Put that back, or "
            "move the checkpoint folder away to start anew (see operations.md)"
        )


def _changes(was: StreamSpec, now: StreamSpec, before: PlanSnapshot, stream: str) -> Iterator[str]:
    if was.id != now.id:
        yield f"id was {was.id}, found {now.id}"
    for name, earlier, later in (
        ("event_time", was.event_time, now.event_time),
        ("ingest_time", was.ingest_time, now.ingest_time),
    ):
        if _field(earlier) != _field(later):
            yield f"{name} was {_field(earlier) or 'not given'}, found {_field(later) or 'none'}"
    for name, column in was.own_columns.items():
        later_column = now.own_columns.get(name)
        if later_column is not None and _differs(column, later_column) and _is_kept(name, before, stream):
            yield f"field {name}, which rules read, was {column}, found {later_column}"


def _differs(was: FieldSpec, now: FieldSpec) -> bool:
    required = was.optional and not now.optional
    return required or (was.kind, was.is_list) != (now.kind, now.is_list)


def _field(time: TimeField | None) -> str:
    return "" if time is None else time.field


def _is_kept(name: str, before: PlanSnapshot, stream: str) -> bool:
    """Whether a state store rests on field ``name`` of ``stream``; in a join the stream's name may stand before it."""
    for plan in before.plans():
        for each in plan.state_stores:
            if plan.met is None and stream in (plan.stream, plan.base) and name in _names(each, name):
                return True
            joined = {} if plan.met is None else plan.met.bases
            if stream in joined.values() and any(used.endswith(name) for used in _names(each, name)):
                return True
    return False


def _names(store: StorePlan, name: str) -> Iterator[str]:
    """Fields that records are kept with, and those that let them into windows."""
    yield from (column for column, _ in store.state_store.columns)
    yield from store.facts
    yield from store.state_store.group_fields
    for each in store.state_store.filters:
        yield from (each.key_fields or ())
        if each.column is not None:
            yield each.column
        if f"'{name}'" in each.condition:  # the form of its tree
            yield name
