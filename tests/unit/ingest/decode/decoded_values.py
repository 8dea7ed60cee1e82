"""The output of a decoder as plain values, for comparison with expected ones."""

from __future__ import annotations

import struct
from typing import Any

from crossline.ingest.decode import REASONS, Decoded


def bits(value: Any) -> Any:
    """A value that equals another only where both are the same, floats to the last bit."""
    if isinstance(value, list):
        return [bits(item) for item in value]
    return ("float", struct.pack("<d", value)) if isinstance(value, float) else (type(value).__name__, value)


def by_offset(decoded: Decoded) -> dict[int, Any]:
    """Offset -> the values of the record there, or the reason of its dead letter."""
    records = decoded.records
    for column in records.fields.values():
        column.validate(full=True)
    columns = {name: column.to_pylist() for name, column in records.fields.items()}
    columns |= {"@id": records.ids.to_pylist(), "@event": records.event_ms.tolist()}
    columns |= {} if records.ingest_ms is None else {"@ingest": records.ingest_ms.tolist()}
    out: dict[int, Any] = {}
    for row, offset in enumerate(records.offsets.tolist()):
        out[offset] = {name: bits(column[row]) for name, column in columns.items()}
    for letter in decoded.dead:
        assert letter.offset not in out
        assert letter.reason in REASONS
        assert letter.detail
        out[letter.offset] = letter.reason
    assert records.offsets.tolist() == sorted(records.offsets.tolist())
    return out
