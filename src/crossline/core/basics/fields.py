"""The kinds of fields that records have, and the values that keys are made of."""

from __future__ import annotations

from typing import Literal

FieldKind = Literal["string", "integer", "number", "boolean", "timestamp"]
KeyValue = str | int | float | bool
