"""Fields that formulas read at a record: they travel with its part, and are not kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from crossline.basics.streams.schema import FieldSpec, StreamSpec
from crossline.basics.values import Records
from crossline.basics.wire import Arrays
from crossline.ingest.route.texts import encoded

Facts = list[tuple[Any, npt.NDArray[np.bool_]]]


def facts_of(names: Sequence[str], records: Records) -> Facts:
    """Of each field its values, as numbers or as texts by their distinct values, and where there are any."""
    found: Facts = []
    for name in names:
        column = records.fields[name]
        if pa.types.is_list(column.type):
            # Of many values nothing asks but alerts, which carry them as they stand.
            texts = (None if each is None else orjson.dumps(each).decode() for each in column.to_pylist())
            column = pa.array(texts, pa.string())
        valid = np.asarray(column.is_valid().to_numpy(zero_copy_only=False))
        if pa.types.is_string(column.type):
            found.append((encoded(pc.fill_null(column, "")), valid))
        else:
            kind = pa.float64() if pa.types.is_floating(column.type) else pa.int64()
            found.append((pc.fill_null(column.cast(kind), 0).to_numpy(zero_copy_only=False), valid))
    return found


def valid_name(number: int) -> str:
    """The name of the validity array of value ``number``."""
    return f"valid{number}"


def facts_from(spec: StreamSpec, names: Sequence[str], rows: Arrays, first: int) -> Mapping[str, pa.Array]:
    """The fields again, null where missing, from the values that are numbered from ``first`` on."""
    return {name: _fact(_kind(spec.columns[name]), number, rows) for number, name in enumerate(names, first)}


def _kind(spec: FieldSpec) -> str:
    return "string" if spec.is_list else spec.kind


def _fact(kind: str, number: int, rows: Arrays) -> pa.Array:
    values, missing = rows[f"value{number}"], ~rows[valid_name(number)]
    if kind == "string":
        data, offsets = rows[f"text{number}_bytes"], rows[f"text{number}_offsets"]
        buffers = [None, pa.py_buffer(np.ascontiguousarray(offsets)), pa.py_buffer(np.ascontiguousarray(data))]
        texts = pa.Array.from_buffers(pa.large_string(), len(offsets) - 1, buffers).cast(pa.string())
        return texts.take(pa.array(values, mask=missing))
    array = pa.array(values, mask=missing)
    return array.cast(pa.bool_()) if kind == "boolean" else array
