"""Changes of records: another value of a field, another time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from crossline.backtest.investigation.figure_bars import figures_of
from crossline.backtest.investigation.key_records import KeyRecord, changed
from crossline.backtest.investigation.variant_runner import VariantRunner
from crossline.basics.conditions.condition import Condition
from crossline.basics.streams.schema import TimeField
from crossline.basics.times import format_instant
from crossline.rules.base import Rule

_PER_MS = {"ms": 1, "us": 1_000, "ns": 1_000_000}
_NUMBERS = {"integer", "number"}


@dataclass(frozen=True, slots=True)
class Variant:
    """A variant to judge: a changed rule (None: the rule as it is) over records."""

    rule: Rule | None
    records: Sequence[KeyRecord]


def records_with(records: Sequence[KeyRecord], record_id: str, name: str, value: float) -> list[KeyRecord]:
    """The records, with one number of one of them changed."""
    return changed(records, record_id, name, value)


def record_fields(runner: VariantRunner, record: KeyRecord) -> list[str]:
    """The numeric fields of a record that the rule reads, in the order in which it names them.

    Times and coordinates are excluded: a device sets them, not the payer.
    """
    spec = runner.spec
    times = {each.field for each in (spec.event_time, spec.ingest_time, *spec.clocks.values()) if each is not None}
    places = {getattr(runner.rule, name, None) for name in ("latitude_field", "longitude_field")}
    named = dict.fromkeys(_named(runner))
    return [
        name
        for name in named
        if name in spec.own_columns
        and spec.own_columns[name].kind in _NUMBERS
        and not spec.own_columns[name].is_list
        and name not in times | places | set(runner.key)
        and isinstance(record.value(name), int | float)
    ]


def _named(runner: VariantRunner) -> Iterator[str]:
    program = runner.program()
    formula = program.formula
    figures = {} if formula is None else figures_of(program, formula)
    columns = [each.column for each in (figures.values() if program.comparison is None else program.figures)]
    yield from (each for each in columns if each is not None)
    if formula is not None:
        yield from formula.fields
    conditions: list[Condition] = list(runner.rule.all_conditions())
    if program.sequence is not None:
        conditions += [feed.condition for feed in program.sequence.feeds]
    for each in conditions:
        yield from each.fields()


def records_shifted(runner: VariantRunner, records: Sequence[KeyRecord], by_ms: int) -> list[KeyRecord]:
    """The records up to the crossing one, which is moved later by so much."""
    place = next(number for number, each in enumerate(records) if each.record_id == runner.record_id)
    record, spec = records[place], runner.setting.history.streams[records[place].stream]
    fields: Mapping[str, Any] = record.fields
    for time, now_ms in ((spec.event_time, record.event_ms), (spec.ingest_time, record.ingest_ms)):
        if time is not None:
            fields = changed([replace(record, fields=fields)], record.record_id, time.field, _in(time, now_ms + by_ms))[
                0
            ].fields
    later = replace(record, event_ms=record.event_ms + by_ms, ingest_ms=record.ingest_ms + by_ms, fields=fields)
    return [*records[:place], later]


def _in(time: TimeField, at_ms: int) -> Any:
    if time.unit == "iso8601":
        return format_instant(at_ms)
    return at_ms / 1_000 if time.unit == "s" else at_ms * _PER_MS[time.unit]
