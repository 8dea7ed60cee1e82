"""Whether a DataFrame has what a stream needs: told before a query starts, and not as dead letters that nobody sees."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema

from crossline.core.basics.errors import UsageError
from crossline.core.streams.schema import FieldSpec, StreamSpec


def check_frame(frame: DataFrame, stream: str, spec: StreamSpec) -> None:
    """Raise UsageError with all fields of ``stream`` that ``frame`` lacks or has in a type that cannot hold them."""
    findings = list(_findings(to_arrow_schema(frame.schema), spec))
    if findings:
        raise UsageError(f"the frame does not fit stream {stream}: {'; '.join(findings)}")


def _findings(schema: pa.Schema, spec: StreamSpec) -> Iterator[str]:
    for name, field in spec.own_columns.items():
        found = _type_of(schema, name)
        if found is None:
            if not field.optional:
                yield f"field {name}: found no such column, expected {field}"
        elif not _fits(found, field):
            yield f"field {name}: found {found}, expected {field}"


def _type_of(schema: pa.Schema, name: str) -> pa.DataType | None:
    """Of a column of this name, or of a field inside a struct."""
    if name in schema.names:
        return schema.field(name).type
    top, *path = name.split(".")
    found = schema.field(top).type if top in schema.names else None
    for part in path:
        inside = found is not None and pa.types.is_struct(found) and found.get_field_index(part) >= 0
        found = found.field(part).type if inside and found is not None else None
    return found


def _fits(found: pa.DataType, field: FieldSpec) -> bool:
    types = pa.types
    if types.is_null(found):
        return field.optional
    if field.is_list:
        return types.is_list(found) and _fits(found.value_type, FieldSpec(field.kind))
    whole = types.is_integer(found) or (types.is_decimal(found) and found.scale <= 0)
    number = whole or types.is_floating(found) or types.is_decimal(found)
    text = types.is_string(found) or types.is_large_string(found)
    fitting = {
        "string": text,
        "integer": whole,
        "number": number,
        "boolean": types.is_boolean(found),
        "timestamp": types.is_timestamp(found) or types.is_date(found) or number or text,
    }
    return bool(fitting[field.kind])
