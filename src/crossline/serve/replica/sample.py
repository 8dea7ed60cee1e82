"""A record as a stream might have one: judged once where nothing is kept, so that what loads at first use is loaded."""

from __future__ import annotations

from typing import Any

import orjson

from crossline.basics.streams.schema import StreamSpec
from crossline.basics.times import instant_text
from crossline.serve.replica.overlay import Laid

AT_MS = 1_700_000_000_000
_VALUES: dict[str, Any] = {
    "string": "x",
    "integer": 1,
    "number": 1.5,
    "boolean": True,
    "timestamp": instant_text(AT_MS),
}
_UNITS = {"ms": 1, "s": 0.001, "us": 1_000, "ns": 1_000_000}


def sample_record(stream: str, spec: StreamSpec, number: int) -> Laid:
    """Record ``number`` of them: a value of its kind in each field."""
    at_ms = AT_MS + number
    fields: dict[str, Any] = {}
    for name, field in spec.raw_columns.items():
        value = _VALUES.get(field.kind)
        _put(fields, name, [value] if field.is_list else value)
    for time in (spec.event_time, spec.ingest_time, *spec.clocks.values()):
        if time is not None:
            kind = spec.raw_columns[time.field].kind
            text = time.unit == "iso8601" or kind == "timestamp"
            value = instant_text(at_ms) if text else at_ms * _UNITS[time.unit]
            _put(fields, time.field, int(value) if kind == "integer" else value)
    record_id = str(number) if spec.raw_columns[spec.id].kind == "integer" else f"x{number}"
    _put(fields, spec.id, number if spec.raw_columns[spec.id].kind == "integer" else record_id)
    return Laid(stream, record_id, orjson.dumps(fields), at_ms)


def _put(fields: dict[str, Any], name: str, value: Any) -> None:
    *above, last = name.split(".")
    for each in above:
        fields = fields.setdefault(each, {})
    fields[last] = value
