"""Records that are columns already: Parquet row groups and DataFrames, checked and converted to the declared types."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from crossline.basics.deadletter import DeadLetter
from crossline.basics.errors import UsageError
from crossline.basics.values import F64, I64, Records
from crossline.ingest.decode.arrays import Mask, decimal_doubles, decimal_integers, one_array, plain, shown_values
from crossline.ingest.decode.arrival import Arrival, latest_text
from crossline.ingest.decode.clock import (
    NOT_A_TIME,
    TIME_MS_END,
    TIME_MS_MIN,
    UNIT_CODES,
    real_column_ms,
    text_column_ms,
    whole_column_ms,
)
from crossline.ingest.decode.layout import Column, RecordLayout, Role
from crossline.ingest.decode.letters import letter_of
from crossline.ingest.decode.reasons import Reason, RecordFault
from crossline.ingest.decode.record import TIME_ANY, TIME_NUMBER, TIME_TEXT
from crossline.ingest.decode.slow_path import BELIEVED_TIME, TIME_EXAMPLE, shown
from crossline.ingest.decode.spans import Decoded, as_bytes, no_ids, with_tokens

DAY_S = 86_400


@dataclass(slots=True)
class Faults:
    """The first fault of each row: ``number`` int32[n] indexes ``texts``, 0 is none."""

    number: npt.NDArray[np.int32]
    texts: list[tuple[Reason, str, str]] = field(default_factory=list)

    def add(self, rows: Mask, reason: Reason, name: str, expected: str) -> None:
        """Note a fault of the rows that have none yet."""
        rows = rows & (self.number == 0)
        if rows.any():
            self.texts.append((reason, name, expected))
            self.number[rows] = len(self.texts)


# What a conversion answers: the column in its declared type, and the rows that have no value of it, by reason.
Converted = tuple[pa.Array, dict[Reason, Mask]]


def decode_table(
    layout: RecordLayout,
    table: pa.Table,
    partition: str,
    offsets: I64,
    ingest_ms: I64 | None = None,
    *,
    known_ms: int | None = None,
) -> Decoded:
    """Decode a table whose columns are the stream's fields, nested ones as structs (or by their dotted names).

    ``offsets``: int64[n], increasing. ``ingest_ms``: int64[n], used where the stream names no column of its own.
    ``known_ms``: when the rows are known to have been there, None where that is unknown. Any integer, decimal or float
    type serves a number, any integer type and any whole decimal an integer; a timestamp may be an Arrow timestamp (UTC
    where it has no zone), a date, or what it may be in JSON. How a column is laid out (dictionaries, runs, views) does
    not matter; one of a type that serves nothing is ``wrong_type`` in every row. A dead letter's bytes are the row as
    JSON. Raises UsageError where a column's name comes twice.
    """
    faults = Faults(np.zeros(len(table), np.int32))
    arrays: list[pa.Array] = []
    for column in layout.columns:
        array, wrong, missing = _taken(column, table)
        if not column.spec.optional:
            faults.add(missing, "missing_field", column.name, column.spec.kind)
        for reason, rows in wrong.items():
            faults.add(rows & ~missing, reason, column.name, str(column.spec))
        arrays.append(array)
    ids, event_ms = no_ids(len(table)), np.zeros(len(table), np.int64)
    if layout.id_column is not None:
        ids = arrays[layout.id_column].cast(pa.string())
        faults.add(_mask(pc.equal(ids, "")), "missing_field", layout.columns[layout.id_column].name, "an id")
    if layout.event is not None:
        event_ms = _role_ms(layout, layout.event, arrays, faults, known_ms)
    if layout.ingest is not None:
        ingest_ms = _role_ms(layout, layout.ingest, arrays, faults, known_ms)
    good = faults.number == 0
    if not good.all():
        keep = pa.array(good)
        arrays, ids = [array.filter(keep) for array in arrays], ids.filter(keep)
    records = Records(
        stream=layout.stream,
        partition=partition,
        ids=ids,
        event_ms=event_ms[good],
        ingest_ms=None if ingest_ms is None else ingest_ms[good],
        offsets=offsets[good],
        fields={column.name: array for column, array in zip(layout.columns, arrays, strict=True)},
    )
    return with_tokens(layout, Decoded(records, _letters(layout, table, partition, offsets, faults)))


def _taken(column: Column, table: pa.Table) -> tuple[pa.Array, dict[Reason, Mask], Mask]:
    """A column as ``_convert`` gives it, and where it is missing."""
    try:
        source = _source(table, column.name)
        return *_convert(column, source), _mask(pc.is_null(source))
    except pa.ArrowException:  # a layout that Arrow can write and not take apart: it must not stop the other columns
        return *_refused(column, len(table)), np.zeros(len(table), np.bool_)


def _source(table: pa.Table, name: str) -> pa.Array:
    """A dotted field of the table as one plain array; all null where there is none."""
    top, *path = name.split(".")
    if path and name in table.schema.names:
        top, path = name, []
    places = table.schema.get_all_field_indices(top)
    if len(places) > 1:
        raise UsageError(f"column {top} comes {len(places)} times in the table: give each field one column")
    array = one_array(table.column(places[0])) if places else pa.nulls(len(table))
    for part in path:
        if not pa.types.is_struct(array.type):
            return array
        there = array.type.get_field_index(part) >= 0
        array = plain(pc.struct_field(array, [part])) if there else pa.nulls(len(array))
    return array


def _mask(array: pa.Array) -> Mask:
    return np.asarray(pc.fill_null(array, False))


def _convert(column: Column, array: pa.Array) -> Converted:
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), column.arrow_type), {}
    if column.spec.is_list:
        return _list(column, array)
    found: Converted | None = _CONVERSIONS[column.spec.kind](column, array)
    return _refused(column, len(array)) if found is None else found


def _refused(column: Column, count: int) -> Converted:
    """A column none of whose values is of the declared type."""
    return pa.nulls(count, column.arrow_type), {"wrong_type": np.ones(count, np.bool_)}


def _list(column: Column, array: pa.Array) -> Converted:
    types = pa.types
    if not (types.is_list(array.type) or types.is_large_list(array.type) or types.is_fixed_size_list(array.type)):
        return _refused(column, len(array))
    parents = np.asarray(pc.list_parent_indices(array))
    single = replace(column, kind=TIME_ANY, spec=replace(column.spec, is_list=False))
    source = plain(pc.list_flatten(array))
    items, wrong = _convert(single, source)
    wrong["wrong_type"] = wrong.get("wrong_type", np.zeros(len(items), np.bool_)) | _mask(pc.is_null(source))
    sizes = np.asarray(pc.fill_null(pc.list_value_length(array), 0), np.int64)
    bounds = np.concatenate([np.zeros(1, np.int32), np.cumsum(sizes, dtype=np.int32)])
    lists = pa.ListArray.from_arrays(pa.array(bounds), items, mask=pc.is_null(array))
    rows = {reason: np.bincount(parents[mask], minlength=len(array)) > 0 for reason, mask in wrong.items()}
    return lists, rows


def _string(_: Column, array: pa.Array) -> Converted | None:
    types = pa.types
    if not (types.is_string(array.type) or types.is_large_string(array.type) or types.is_string_view(array.type)):
        return None
    raw = array.cast(pa.string()).cast(pa.binary())
    try:
        # From binary, as this is the cast that looks whether the bytes are UTF-8; files may hold anything.
        return raw.cast(pa.string()), {}
    except pa.ArrowInvalid:
        bad = np.array([not _is_utf8(value) for value in raw.to_pylist()])
        return pc.if_else(pa.array(bad), None, raw).cast(pa.string()), {"bad_encoding": bad}


def _is_utf8(value: bytes | None) -> bool:
    try:
        return value is None or value.decode() is not None
    except UnicodeDecodeError:
        return False


def _integer(_: Column, array: pa.Array) -> Converted | None:
    if pa.types.is_decimal(array.type):
        whole, broken, beyond = decimal_integers(array)
        return _masked(whole, array), {"wrong_type": broken, "bad_number": beyond}
    if not pa.types.is_integer(array.type):
        return None
    if array.type == pa.uint64():
        beyond = _mask(pc.greater(array, pa.scalar(2**63 - 1, pa.uint64())))
        return array.cast(pa.int64(), safe=False), {"bad_number": beyond}
    return array.cast(pa.int64()), {}


def _number(_: Column, array: pa.Array) -> Converted | None:
    types = pa.types
    if not (types.is_integer(array.type) or types.is_floating(array.type) or types.is_decimal(array.type)):
        return None
    given = decimal_doubles(array) if types.is_decimal(array.type) else _doubles(array)
    doubles = given + 0.0  # -0.0 becomes 0.0, so that equal numbers have equal bits
    return _masked(doubles, array), {"bad_number": ~np.isfinite(doubles) & np.asarray(pc.is_valid(array))}


def _doubles(array: pa.Array) -> F64:
    """Integers or floats as doubles, 0 for null."""
    return np.asarray(pc.fill_null(array.cast(pa.float64(), safe=False), 0.0))


def _masked(values: npt.NDArray[Any], array: pa.Array) -> pa.Array:
    """``values`` as Arrow, null where ``array`` is."""
    return pa.array(values, mask=np.asarray(pc.is_null(array)) if array.null_count else None)


def _boolean(_: Column, array: pa.Array) -> Converted | None:
    return (array, {}) if pa.types.is_boolean(array.type) else None


def _timestamp(column: Column, array: pa.Array) -> Converted | None:
    found = _stamps(column, array)
    if found is None:
        return None
    stamps, reason = found
    wrong: dict[Reason, Mask] = {}
    if pa.types.is_floating(array.type):
        wrong["bad_number"] = _mask(pc.invert(pc.is_finite(array)))
    wrong[reason] = stamps == NOT_A_TIME
    return pa.array(stamps, mask=np.asarray(pc.is_null(array))), wrong


def _stamps(column: Column, array: pa.Array) -> tuple[I64, Reason] | None:
    """Epoch ms of each value, NOT_A_TIME where it has none, and that fault's name; None where no times are held."""
    kind, given = column.kind, array.type
    if pa.types.is_timestamp(given):
        return whole_column_ms(_whole(array), UNIT_CODES[given.unit]), "time_out_of_range"
    if pa.types.is_date(given):
        if pa.types.is_date64(given):
            return whole_column_ms(_whole(array), UNIT_CODES["ms"]), "time_out_of_range"
        days = _whole(array.cast(pa.int32()))
        return whole_column_ms(days * DAY_S, UNIT_CODES["s"]), "time_out_of_range"
    if pa.types.is_integer(given) and kind != TIME_TEXT:
        whole, wrong = _integer(column, array) or (array, {})
        stamps = whole_column_ms(_whole(whole), column.unit)
        return np.where(wrong.get("bad_number", False), NOT_A_TIME, stamps), "time_out_of_range"
    if pa.types.is_floating(given) and kind != TIME_TEXT:
        return real_column_ms(np.asarray(pc.fill_null(array.cast(pa.float64()), 0.0)), column.unit), "time_out_of_range"
    texts = _string(column, array) if kind != TIME_NUMBER else None
    return None if texts is None else (_text_ms(texts[0]), "bad_time")


def _whole(array: pa.Array) -> I64:
    """The int64 values of an array, 0 for null."""
    return np.asarray(pc.fill_null(array.cast(pa.int64()), 0))


def _text_ms(texts: pa.Array) -> I64:
    """Epoch ms of RFC 3339 texts; NOT_A_TIME for null and for any other."""
    stamps = np.empty(len(texts), np.int64)
    _, bounds, data = texts.buffers()
    edges = np.frombuffer(bounds or bytes(4), np.int32)[texts.offset : texts.offset + len(texts) + 1]
    text_column_ms(as_bytes(data), edges, stamps)
    return stamps


_CONVERSIONS: dict[str, Any] = {
    "string": _string,
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
    "timestamp": _timestamp,
}


def _role_ms(layout: RecordLayout, role: Role, arrays: list[pa.Array], faults: Faults, known_ms: int | None) -> I64:
    column, array = layout.columns[role.column], arrays[role.column]
    if column.spec.kind == "string":
        stamps = _text_ms(array)
        faults.add(stamps == NOT_A_TIME, "bad_time", column.name, TIME_EXAMPLE)
    elif column.spec.kind == "number":
        stamps = real_column_ms(np.asarray(pc.fill_null(array, 0.0)), role.unit)
    elif column.spec.kind == "integer":
        stamps = whole_column_ms(_whole(array), role.unit)
    else:
        stamps = _whole(array)
    beyond = (stamps < TIME_MS_MIN) | (stamps >= TIME_MS_END)
    faults.add(beyond, "time_out_of_range", column.name, BELIEVED_TIME)
    ahead = Arrival(layout.future_ms, None, known_ms).ahead(stamps)
    if ahead is not None and known_ms is not None:
        faults.add(ahead, "time_in_future", column.name, f"a time {latest_text(known_ms, layout.future_ms)}")
    return stamps


def _letters(layout: RecordLayout, table: pa.Table, partition: str, offsets: I64, faults: Faults) -> list[DeadLetter]:
    numbers = np.flatnonzero(faults.number)
    if len(numbers) == 0:
        return []
    columns = [shown_values(column, pa.array(numbers)) for column in table.columns]
    letters = []
    for number, values in zip(numbers.tolist(), zip(*columns, strict=True), strict=True):
        row = dict(zip(table.column_names, values, strict=True))
        reason, name, expected = faults.texts[faults.number[number] - 1]
        identity = None if layout.id_column is None else _value(row, layout.columns[layout.id_column].name)
        record_id = str(identity) if isinstance(identity, str | int) and identity != "" else None
        fault = RecordFault(reason, shown(repr(_value(row, name))), expected, name)
        raw = json.dumps(row, default=str, ensure_ascii=False).encode("utf-8", "replace")
        letters.append(letter_of(layout, fault, partition, int(offsets[number]), raw, record_id))
    return letters


def _value(row: Any, name: str) -> Any:
    """The value of a dotted field of a row, None where there is none."""
    if name in row:
        return row[name]
    for part in name.split("."):
        row = row.get(part) if isinstance(row, dict) else None
    return row
