"""Checks of columns against a stream: an error before anything is judged, and not a dead letter for each row."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from crossline.basics.errors import UsageError
from crossline.basics.streams.schema import FieldSpec, StreamSpec


def check_columns(schema: pa.Schema, stream: str, spec: StreamSpec, what: str, *, empty: bool = False) -> None:
    """Compare the columns of ``what`` (a frame, a table) with the fields of ``stream``.

    Where it is ``empty``, a column of no type fits any field: pandas knows the type of texts by the texts alone.

    Raises UsageError with all fields that are missing or have a type that cannot hold them.
    """
    findings = list(_findings(schema, spec, empty=empty))
    if findings:
        raise UsageError(f"the {what} does not fit stream {stream}: {'; '.join(findings)}")


def _findings(schema: pa.Schema, spec: StreamSpec, *, empty: bool) -> Iterator[str]:
    for name, count in ((name, schema.names.count(name)) for name in dict.fromkeys(schema.names)):
        if count > 1:
            yield f"column {name}: found {count} of this name, expected one"
    for name, field in spec.raw_columns.items():
        found = _type_of(schema, name)
        if found is None:
            if not field.optional:
                yield f"field {name}: found no such column, expected {field}"
        elif not (empty and pa.types.is_null(found)) and not _fits(found, field):
            yield f"field {name}: found {found}, expected {field}"


def _type_of(schema: pa.Schema, name: str) -> pa.DataType | None:
    """Of a column of this name, or of a field inside a struct."""
    if name in schema.names:
        return schema.field(schema.names.index(name)).type
    top, *path = name.split(".")
    found = schema.field(schema.names.index(top)).type if top in schema.names else None
    for part in path:
        if found is not None and pa.types.is_null(found):
            return found
        inside = found is not None and pa.types.is_struct(found) and found.get_field_index(part) >= 0
        found = found.field(part).type if inside and found is not None else None
    return found


def _fits(found: pa.DataType, field: FieldSpec) -> bool:
    types = pa.types
    if types.is_dictionary(found) or types.is_run_end_encoded(found):
        return _fits(found.value_type, field)
    if types.is_null(found):
        return field.optional
    if field.is_list:
        lists = (types.is_list, types.is_large_list, types.is_fixed_size_list, types.is_list_view)
        return any(each(found) for each in lists) and _fits(found.value_type, FieldSpec(field.kind))
    whole = types.is_integer(found) or (types.is_decimal(found) and found.scale <= 0)
    number = whole or types.is_floating(found) or types.is_decimal(found)
    text = types.is_string(found) or types.is_large_string(found) or types.is_string_view(found)
    fitting = {
        "string": text,
        "integer": whole,
        "number": number,
        "boolean": types.is_boolean(found),
        "timestamp": types.is_timestamp(found) or types.is_date(found) or number or text,
    }
    return bool(fitting[field.kind])
