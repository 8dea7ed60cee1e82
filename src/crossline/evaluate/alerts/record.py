"""The record that an alert carries: fields of the record that was hit, nested as in its stream."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from crossline.basics.streams.schema import FieldSpec
from crossline.basics.times import instant_text
from crossline.programs.alert_fields import CarriedRecord


def record_json(carried: CarriedRecord, record_id: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """``carried`` of a record as JSON values; ``values``: of its fields, by name. What is missing is null."""
    found: dict[str, Any] = {}
    for name, spec in carried.fields:
        value = _id(record_id, spec) if name == carried.id else _json(values.get(name), spec)
        *outer, last = name.split(".")
        inside = found
        for part in outer:
            inside = inside.setdefault(part, {})
        inside[last] = value
    return found


def _id(record_id: str, spec: FieldSpec) -> str | int:
    return int(record_id) if spec.kind == "integer" else record_id


def _json(value: Any, spec: FieldSpec) -> Any:
    if value is None:
        return None
    if spec.is_list:  # it came as text where it went along with rows
        values = orjson.loads(value) if isinstance(value, str) else value
        return [_json(each, FieldSpec(spec.kind)) for each in values]
    return instant_text(value) if spec.kind == "timestamp" else value
