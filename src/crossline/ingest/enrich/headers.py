"""Headers of messages as fields of records."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from crossline.basics.streams.schema import HeaderSpec, StreamSpec
from crossline.basics.texts.problems import shown
from crossline.basics.values import I64, Columns, Records

_INTEGER = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?", re.ASCII)
_TYPES = {"string": pa.string(), "integer": pa.int64(), "number": pa.float64(), "boolean": pa.bool_()}


def _integer(text: str) -> int:
    value = int(text) if _INTEGER.fullmatch(text) else 2**63
    if not -(2**63) <= value < 2**63:
        raise ValueError
    return value


def _number(text: str) -> float:
    value = float(text) if _NUMBER.fullmatch(text) else math.inf
    if math.isinf(value):
        raise ValueError
    return value


def _boolean(text: str) -> bool:
    return {"true": True, "false": False}[text]


_READ: dict[str, Callable[[str], Any]] = {"string": str, "integer": _integer, "number": _number, "boolean": _boolean}


def header_columns(spec: StreamSpec, headers: pa.Array) -> tuple[dict[str, pa.Array], dict[int, str]]:
    """By field, the values of the messages that have these ``headers`` (lists of key and value); null for one without.

    Second, by number of the message, what is wrong with its headers. Of headers of one name the last counts.
    """
    fields = spec.header_fields.items()
    wanted = {each.header: [(name, one) for name, one in fields if one.header == each.header] for _, each in fields}
    values: dict[str, list[Any]] = {name: [None] * len(headers) for name in spec.header_fields}
    wrong: dict[int, str] = {}
    for row, each in enumerate(headers.to_pylist()):
        last = {pair["key"]: pair["value"] for pair in each or () if pair["key"] in wanted}
        for header, raw in last.items():
            for name, field in wanted[header] if raw is not None else ():
                try:
                    values[name][row] = _READ[field.kind](raw.decode())
                except (ValueError, KeyError):
                    wrong.setdefault(row, _problem(header, raw, field))
    return {name: pa.array(values[name], _TYPES[field.kind]) for name, field in spec.header_fields.items()}, wrong


def _problem(header: str, raw: bytes, field: HeaderSpec) -> str:
    return f"header {header}: found {shown(raw.decode(errors='backslashreplace'))}, expected {field.kind}"


def with_headers(
    spec: StreamSpec, records: Records, columns: Mapping[str, pa.Array] | None = None, offsets: I64 | None = None
) -> Records:
    """``records`` with the fields that are headers: of messages with ``offsets``; null where there are no messages."""
    if not spec.header_fields:
        return records
    if columns is None or offsets is None:
        made = {name: pa.nulls(len(records), _TYPES[each.kind]) for name, each in spec.header_fields.items()}
    else:
        index = pa.array(np.searchsorted(offsets, records.offsets))
        made = {name: column.take(index) for name, column in columns.items()}
    own, fields = tuple(records.fields), records.fields
    added = tuple(made)

    def make(number: int) -> pa.Array:
        return fields[own[number]] if number < len(own) else made[added[number - len(own)]]

    return replace(records, fields=Columns((*own, *added), make))
