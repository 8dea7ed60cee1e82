"""The values of a record's row as the source writes them: nested fields, times in the unit of their field."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from crossline.basics.streams.schema import StreamSpec, TimeField
from crossline.basics.times import format_instant
from crossline.lake.tables.table_layouts import own_fields

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


def fields_of_row(spec: StreamSpec, row: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a record that its stream declares. Fields without a value are left out.

    Args:
        spec: The declaration of the stream.
        row: A row of the stream's table, by column.

    Example:
        >>> from crossline.basics.streams.schema import StreamSpec
        >>> fields = {"id": "string", "at": "timestamp", "place": {"city": "string?"}}
        >>> spec = StreamSpec(id="id", event_time={"field": "at", "unit": "ms"}, fields=fields)
        >>> at = datetime.fromisoformat("2026-01-01T00:00:00Z")
        >>> fields_of_row(spec, {"_batch": 4, "id": "p1", "at": at, "place": {"city": None}})
        {'id': 'p1', 'at': 1767225600000}
    """
    units = {each.field: each.unit for each in (spec.event_time, spec.ingest_time) if isinstance(each, TimeField)}
    tops = dict.fromkeys(name.partition(".")[0] for name in own_fields(spec))
    found = ((name, _value(row.get(name), name, units)) for name in tops)
    return {name: value for name, value in found if value is not None}


def _value(value: Any, name: str, units: Mapping[str, str]) -> Any:
    if isinstance(value, Mapping):
        inner = {each: _value(part, f"{name}.{each}", units) for each, part in value.items()}
        return {each: part for each, part in inner.items() if part is not None} or None
    if isinstance(value, list):
        return [_value(each, name, units) for each in value]
    if not isinstance(value, datetime):
        return value
    unit = units.get(name, "iso8601")
    us = (value - _EPOCH) // timedelta(microseconds=1)
    return format_instant(us // 1_000) if unit not in _PER_SECOND else us * _PER_SECOND[unit] // 1_000_000
