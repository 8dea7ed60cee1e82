"""A stream's declared fields, compiled once into what the decoders walk."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from crossline.basics.errors import UsageError
from crossline.basics.streams.schema import FieldSpec, StreamSpec, TimeField
from crossline.basics.values import I32, U8
from crossline.ingest.decode.clock import UNIT_CODES
from crossline.ingest.decode.jit import WORD_BYTES
from crossline.ingest.decode.record import (
    BOOLEAN,
    COLUMN,
    COUNT,
    FIRST,
    INNER,
    INTEGER,
    KEY_AT,
    KEY_END,
    KEY_END_BYTES,
    KEY_SIZE,
    KIND,
    LIST,
    NEXT,
    NUMBER,
    PARENT,
    REQUIRED,
    STRING,
    TIME_ANY,
    TIME_NUMBER,
    TIME_TEXT,
    TREE_WIDTH,
    UNIT,
)
from crossline.ingest.tokens.tokeniser import Tokeniser

PLAIN_KINDS = {"string": STRING, "integer": INTEGER, "number": NUMBER, "boolean": BOOLEAN}
ARROW_TYPES = {
    "string": pa.string(),
    "integer": pa.int64(),
    "number": pa.float64(),
    "boolean": pa.bool_(),
    "timestamp": pa.int64(),
}
NEEDS_ESCAPE = re.compile(r'["\\\x00-\x1f]')
NEVER = 2**31 - 1 - KEY_END_BYTES


@dataclass(frozen=True, slots=True)
class Column:
    """One declared field. ``kind``: how it is read (record.STRING …); ``unit``: of a time, a code of ``clock``."""

    name: str
    kind: int
    unit: int
    spec: FieldSpec

    @property
    def arrow_type(self) -> pa.DataType:
        """The type of its column in ``Records.fields``."""
        plain = ARROW_TYPES[self.spec.kind]
        return pa.list_(plain) if self.spec.is_list else plain


@dataclass(frozen=True, slots=True)
class Role:
    """The column that holds a time of the record, and its unit's code; -1 is RFC 3339 text."""

    column: int
    unit: int


@dataclass(frozen=True, slots=True)
class RecordLayout:
    """What decoding needs to know of a stream. ``tree``, ``keys``: see ``record``; ``root``: the record's row there.

    ``id_column`` and ``event`` None: rows of a table, which have neither. ``future_ms``: how far ahead of its being
    there a record may be dated. ``tokens``: makes those of sensitive fields; None: the stream has none.
    """

    stream: str
    columns: tuple[Column, ...]
    id_column: int | None
    event: Role | None
    ingest: Role | None
    tree: I32
    keys: U8
    root: int
    future_ms: int
    tokens: Tokeniser | None = None


def make_layout(stream: str, spec: StreamSpec, tokens: Tokeniser | None = None) -> RecordLayout:
    """Compile a stream. ``stream``: its name, which stands in what is decoded.

    Raises UsageError where it has sensitive fields and ``tokens`` is None: no value of them leaves the decoder.
    """
    if spec.sensitive and tokens is None:
        raise UsageError(f"stream {stream} has sensitive fields: expected what makes their tokens, found none")
    names = list(spec.raw_columns)
    roles = (*spec.clocks.values(), spec.ingest_time, spec.event_time)
    times = {time.field: time for time in roles if time is not None}
    columns = tuple(_column(name, field, times.get(name)) for name, field in spec.raw_columns.items())
    tree, keys, root = _tree(columns)

    def role(time: TimeField) -> Role:
        return Role(names.index(time.field), UNIT_CODES.get(time.unit, -1))

    return RecordLayout(
        stream=stream,
        columns=columns,
        id_column=names.index(spec.id),
        event=role(spec.event_time),
        ingest=role(spec.ingest_time) if spec.ingest_time else None,
        tree=tree,
        keys=keys,
        root=root,
        future_ms=spec.future_bound,
        tokens=tokens,
    )


def table_layout(table: str, fields: Mapping[str, FieldSpec]) -> RecordLayout:
    """Compile the columns of a table, whose rows have no id and no time of their own."""
    columns = tuple(_column(name, field, None) for name, field in fields.items())
    tree, keys, root = _tree(columns)
    return RecordLayout(table, columns, None, None, None, tree, keys, root, future_ms=0)


def _column(name: str, field: FieldSpec, time: TimeField | None) -> Column:
    if field.is_list:
        return Column(name, LIST, 0, field)
    if field.kind != "timestamp":
        return Column(name, PLAIN_KINDS[field.kind], 0, field)
    if time is None:
        return Column(name, TIME_ANY, 0, field)
    return Column(name, TIME_TEXT if time.unit == "iso8601" else TIME_NUMBER, UNIT_CODES.get(time.unit, 0), field)


def _tree(columns: tuple[Column, ...]) -> tuple[I32, U8, int]:
    """(tree, keys, root) of the columns: objects are numbered as they are met, and their fields laid side by side."""
    objects: list[dict[str, int]] = [{}]  # key -> column number, or ~number of the inner object
    parents = [0]
    for number, column in enumerate(columns):
        here = 0
        *path, leaf = column.name.split(".")
        for part in path:
            if part not in objects[here]:
                objects[here][part] = ~len(objects)
                objects.append({})
                parents.append(here)
            here = ~objects[here][part]
        objects[here][leaf] = number
    root = sum(len(fields) for fields in objects)
    tree = np.zeros((root + len(objects), TREE_WIDTH), np.int32)
    keys = b""
    child = 0
    for number, fields in enumerate(objects):
        row = tree[root + number]
        row[[NEXT, FIRST, COUNT, PARENT]] = child, child, len(fields), root + parents[number]
        for key, target in fields.items():
            # A key that JSON can only write with escapes is never met as it stands.
            raw = key.encode()
            size = len(raw) if NEEDS_ESCAPE.search(key) is None else NEVER
            inner = root + ~target if target < 0 else -1
            tree[child, [NEXT, KEY_AT, KEY_SIZE, INNER]] = child + 1, len(keys), size, inner
            if target >= 0:
                column = columns[target]
                required = int(not column.spec.optional)
                tree[child, [COLUMN, KIND, UNIT, REQUIRED]] = target, column.kind, column.unit, required
            keys += raw + KEY_END
            child += 1
    return tree, np.frombuffer(keys + bytes(WORD_BYTES), np.uint8), root
