"""Records of an alert's key: their fields in the source, their ingest times, and their batch for the engine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import orjson

from crossline.backtest.workbench.sample import Batch
from crossline.basics.conditions.evaluation import lookup
from crossline.basics.errors import UsageError
from crossline.basics.streams.inputs import tokenised
from crossline.basics.streams.schema import FieldSpec, StreamSpec
from crossline.ingest.decode import decode_lines, make_layout
from crossline.ingest.route.partitioner import Chunk

_PER_MS = {"us": 1_000, "ns": 1_000_000}


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """A record that was read back from its source.

    Attributes:
        stream: Its stream.
        record_id: Its id.
        event_ms: Event time, epoch ms.
        ingest_ms: Ingest time, epoch ms.
        fields: Its fields in the source, dotted or nested.
    """

    stream: str
    record_id: str
    event_ms: int
    ingest_ms: int
    fields: Mapping[str, Any]

    def value(self, name: str) -> Any:
        """A field by its dotted name; None if it is missing."""
        return lookup(self.fields, name)


def batch_of(records: Sequence[KeyRecord], streams: Mapping[str, StreamSpec]) -> Batch:
    """The records as one batch of the engine: a log for each stream, in the given order.

    Raises UsageError if a record cannot be decoded any more.
    """
    inputs = []
    for stream in dict.fromkeys(each.stream for each in records):
        mine = [each for each in records if each.stream == stream]
        spec = tokenised(streams[stream])
        data = b"".join(orjson.dumps(document(each.fields, spec)) + b"\n" for each in mine)
        decoded = decode_lines(make_layout(stream, spec), data, stream, 0)
        if decoded.dead:
            letter = decoded.dead[0]
            raise UsageError(
                f"record {letter.record_id} of {stream} cannot be decoded: {letter.reason}, {letter.detail}"
            )
        came = np.array([each.ingest_ms for each in mine], np.int64)
        inputs.append((replace(decoded.records, ingest_ms=came), Chunk(stream, 0, stream)))
    return Batch(tuple(inputs))


def document(fields: Mapping[str, Any], spec: StreamSpec) -> dict[str, Any]:
    """A record as JSON with the types of its stream: CSV files have texts, Parquet files instants and decimals."""
    found: dict[str, Any] = {}
    units = {each.field: each.unit for each in (spec.event_time, spec.ingest_time) if each is not None}
    for name, kind in spec.own_columns.items():
        value = lookup(fields, name)
        if value is not None:
            _put(found, name, _typed(value, kind, units.get(name)))
    return found


def _put(into: dict[str, Any], name: str, value: Any) -> None:
    *outer, last = name.split(".")
    for part in outer:
        into = into.setdefault(part, {})
    into[last] = value


def _typed(value: Any, kind: FieldSpec, unit: str | None) -> Any:
    if isinstance(value, datetime):
        return _instant(value, unit)
    if kind.is_list or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return _read(value, kind.kind)
    return _read(value.decode() if isinstance(value, bytes) else str(value), kind.kind)


def _read(text: str, kind: str) -> Any:
    try:
        if kind == "integer":
            return int(text)
        if kind == "number":
            return float(text)
    except ValueError:
        return text  # an instant, or what the decoder refuses
    return {"true": True, "false": False}.get(text.lower(), text) if kind == "boolean" else text


def _instant(value: datetime, unit: str | None) -> Any:
    stamp = value if value.tzinfo else value.replace(tzinfo=UTC)
    if unit in {None, "iso8601"}:
        return stamp.isoformat()
    at_ms = round(stamp.timestamp() * 1_000)
    return at_ms / 1_000 if unit == "s" else at_ms * _PER_MS.get(unit or "", 1)


def without(records: Iterable[KeyRecord], record_id: str) -> list[KeyRecord]:
    """All but one."""
    return [each for each in records if each.record_id != record_id]


def changed(records: Iterable[KeyRecord], record_id: str, name: str, value: Any) -> list[KeyRecord]:
    """All, with one field of one of them set to ``value``."""
    return [
        replace(each, fields=_with(each.fields, name, value)) if each.record_id == record_id else each
        for each in records
    ]


def _with(fields: Mapping[str, Any], name: str, value: Any) -> dict[str, Any]:
    if name in fields or "." not in name:
        return {**fields, name: value}
    first, _, rest = name.partition(".")
    inner = fields.get(first)
    return {**fields, first: _with(inner if isinstance(inner, Mapping) else {}, rest, value)}
