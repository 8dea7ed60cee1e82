"""The kinds of fields that records have, and the values that keys are made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import orjson

FieldKind = Literal["string", "integer", "number", "boolean", "timestamp"]
KeyValue = str | int | float | bool


def canonical_key(fields: Mapping[str, KeyValue]) -> str:
    """The key as compact JSON, its fields in the order given, which is that of ``group_by``."""
    return orjson.dumps(fields).decode()
