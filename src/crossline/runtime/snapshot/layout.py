"""The state stores of a layout, read from a plan snapshot."""

from __future__ import annotations

from typing import Any

from crossline.plan.spaces import PanePart
from crossline.plan.state_stores import FilterSpec, StateStore


def state_store_of(item: dict[str, Any]) -> StateStore:
    """A state store, of its fields as JSON values."""
    return StateStore(
        name=item["name"],
        group_fields=tuple(item["group_fields"]),
        time_mode=item["time_mode"],
        columns=tuple((name, kind) for name, kind in item["columns"]),
        filters=tuple(_filter(each) for each in item["filters"]),
        retention_ms=item["retention_ms"],
        lateness_ms=item["lateness_ms"],
        home=item["home"],
        resolution_ms=item.get("resolution_ms", 0),
        parts=tuple(PanePart(**part) for part in item.get("parts", ())),
        fresh_ms=item.get("fresh_ms", 0),
        ordered=item.get("ordered", False),
        waits=item.get("waits", False),
        reevaluate=item.get("reevaluate", False),
    )


def _filter(item: dict[str, Any]) -> FilterSpec:
    key_fields = item.get("key_fields")
    return FilterSpec(**{**item, "key_fields": None if key_fields is None else tuple(key_fields)})
