"""Messages of a topic as rows of a table: the key of a message is the row's key, its value the row's columns.

A row is known by its key and, where rows hold from an instant on, by that. Of several messages of one row the last one
counts; one without a value takes the row away.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from crossline.basics.streams.schema import FieldSpec
from crossline.basics.values import I64, Records
from crossline.ingest.decode import Decoded, decode_values, table_layout
from crossline.ingest.enrich.rows import MAKE_TOKENS, PLAIN_KEY, TableForm
from crossline.ingest.enrich.table import FIELD, FROM, HASH, KEY, U64, from_of, row_order, stored
from crossline.ingest.route.keys import keys_of
from crossline.ingest.tokens.token import is_token

if TYPE_CHECKING:
    from crossline.settings.tables import KeyFormat

Bools = npt.NDArray[np.bool_]
GONE, MESSAGE = "gone", "message"  # columns of rows: whether it is deleted; the number of its message
NUMBER = re.compile(rb"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?|true|false")
_NULL = b"\0"  # no JSON: of a key that does not say anything
_TEXT_KEY = "key"


@dataclass(frozen=True, slots=True)
class ReadMessages:
    """The rows that messages are, in their order, and by the number of the message why others are refused.

    ``rows``: hash, key, gone, message; from, where rows hold from an instant on; and the fields, null where gone.
    """

    rows: pa.Table
    refused: Mapping[int, str]


def read_messages(
    form: TableForm, keyed: KeyFormat, keys: pa.Array, values: pa.Array, *, lenient: bool = False
) -> ReadMessages:
    """Binary arrays of keys and values, null where a message has none.

    ``lenient``: messages that were good under an earlier declaration; what they lack now is null.
    """
    refused: dict[int, str] = {}
    known = _keys(form, keyed, keys, refused)
    refused |= _no_tokens(form, known)
    there = np.asarray(values.is_valid())
    valued = np.flatnonzero(there & known.good)
    optional = {*form.key, form.valid_from} if not lenient else set(form.columns)
    columns = {name: replace(each, optional=True) if name in optional else each for name, each in form.columns.items()}
    texts = values.take(pa.array(valued)) if len(valued) < len(values) else values
    decoded = decode_values(table_layout(form.name, columns), _plain(texts), "", valued, None)
    _refuse(decoded, refused)
    places = decoded.records.offsets  # of the good ones among all messages
    for name, column in known.columns.items():
        _compare(name, column.take(pa.array(places)), decoded.records.fields[name], places, refused)
    good = known.good.copy()
    good[list(refused)] = False
    index = np.flatnonzero(good)
    # Which of the decoded rows each message is; none where it takes its row away.
    at = np.full(len(keys), -1, np.int64)
    at[places] = np.arange(len(places))
    places = pa.array(at[index], mask=at[index] < 0)
    fields = {name: decoded.records.fields[name].take(places) for name in form.fields}
    there_now = pa.array(index, mask=at[index] < 0)
    for name, column in known.columns.items():  # the key of the message is always there, its value is not
        if name in fields:
            fields[name] = column.take(there_now)
    return ReadMessages(_rows(form, known.columns, index, at[index] < 0, fields), refused)


@dataclass(frozen=True, slots=True)
class _Known:
    """What the keys of messages say, by column, and which of them say it."""

    columns: dict[str, pa.Array]
    good: Bools


def _keys(form: TableForm, keyed: KeyFormat, keys: pa.Array, refused: dict[int, str]) -> _Known:
    specs = {name: FieldSpec(form.columns[name].kind) for name in form.key}
    if form.valid_from is not None:
        specs[form.valid_from] = FieldSpec("timestamp", optional=True)
    if keyed == "text":
        (name,) = form.key
        if specs[name].kind == "string":
            return _texts(name, keys, refused)
        texts = pa.array([_scalar(each) for each in keys.to_pylist()], pa.binary())
        decoded = decode_values(table_layout(form.name, {_TEXT_KEY: specs[name]}), texts, "", _all(keys), None)
        found = {name: decoded.records.fields[_TEXT_KEY]}
    else:
        texts = keys.fill_null(_NULL)
        decoded = decode_values(table_layout(form.name, specs), _plain(texts), "", _all(keys), None)
        found = {name: decoded.records.fields[name] for name in specs}
    for letter in decoded.dead:
        text = "no key" if not keys[letter.offset].is_valid else f"the key {_key_text(keys[letter.offset].as_py())}"
        refused[letter.offset] = f"{text}: {letter.detail.replace(f'field {_TEXT_KEY}: ', '')}"
    good = np.zeros(len(keys), np.bool_)
    good[decoded.records.offsets] = True
    back = np.full(len(keys), -1, np.int64)
    back[decoded.records.offsets] = np.arange(len(decoded.records))
    index = pa.array(back, mask=back < 0)
    return _Known({name: column.take(index) for name, column in found.items()}, good)


def _no_tokens(form: TableForm, known: _Known) -> dict[int, str]:
    """Keys that records look up by tokens, and that are none."""
    refused: dict[int, str] = {}
    for name in form.key:
        if form.columns[name].sensitive:
            keys = known.columns[name].to_pylist()
            plain = [row for row in np.flatnonzero(known.good).tolist() if not is_token(keys[row])]
            refused |= dict.fromkeys(plain, f"the key {name}: found {PLAIN_KEY}; {MAKE_TOKENS}")
    return refused


def _texts(name: str, keys: pa.Array, refused: dict[int, str]) -> _Known:
    try:
        texts = keys.cast(pa.string())
    except pa.ArrowInvalid:
        given = [_text(each) for each in keys.to_pylist()]
        texts = pa.array(given, pa.string())
    good = np.asarray(texts.is_valid())
    for row in np.flatnonzero(~good).tolist():
        key = keys[row].as_py()
        refused[row] = f"found {'no key' if key is None else f'the key {_key_text(key)}'}, expected a text in UTF-8"
    return _Known({name: texts}, good)


def _text(key: bytes | None) -> str | None:
    try:
        return None if key is None else key.decode()
    except UnicodeDecodeError:
        return None


def _scalar(key: bytes | None) -> bytes:
    """A key as text, as a value that the decoder reads: numbers and truth as they are, all else as text."""
    if key is None:
        return _NULL
    text = key if NUMBER.fullmatch(key) else orjson.dumps(key.decode(errors="backslashreplace"))
    return b'{"%s":%s}' % (_TEXT_KEY.encode(), text)


def _key_text(key: bytes) -> str:
    return key[:100].decode(errors="backslashreplace")


def _all(keys: pa.Array) -> I64:
    return np.arange(len(keys), dtype=np.int64)


def _plain(values: pa.Array) -> pa.Array:
    """An array that the decoder takes: of bytes, with a buffer of its own."""
    return values if values.buffers()[2] is not None else pa.array(values.to_pylist(), pa.binary())


def _refuse(decoded: Decoded, refused: dict[int, str]) -> None:
    for letter in decoded.dead:
        refused.setdefault(letter.offset, letter.detail)


def _compare(name: str, keys: pa.Array, values: pa.Array, places: I64, refused: dict[int, str]) -> None:
    """Where the key columns of a value differ from the message's key."""
    other = np.asarray(pc.fill_null(pc.not_equal(values, keys), False))
    other |= np.asarray(pc.and_(values.is_valid(), keys.is_null()))
    for row in np.flatnonzero(other).tolist():
        found = f"field {name}: found {values[row].as_py()} in the value, expected what the key has"
        refused.setdefault(int(places[row]), f"{found}: {keys[row].as_py()}")


def _rows(
    form: TableForm, known: Mapping[str, pa.Array], index: I64, gone: Bools, fields: Mapping[str, pa.Array]
) -> pa.Table:
    mine = {name: column.take(pa.array(index)) for name, column in known.items()}
    keys = keys_of([mine[name] for name in form.key], plain=form.plain)
    columns: dict[str, Any] = {
        HASH: pa.array(keys.hashes[keys.rows]),
        KEY: keys.values.take(pa.array(keys.rows)),
        GONE: pa.array(gone),
        MESSAGE: pa.array(index),
    }
    if form.valid_from is not None:
        columns[FROM] = pa.array(from_of(mine[form.valid_from]))
    return pa.table({**columns, **{f"{FIELD}{name}": column for name, column in fields.items()}})


def last_of_each(rows: pa.Table) -> pa.Table:
    """Of ``rows`` in the order in which they came, the last one of each key and instant; in the order of a table."""
    hashes, numbers, from_ms = _order_of(rows)
    order = row_order(hashes, numbers, from_ms)  # stable: of equal ones the last came last
    same = numbers[order][1:] == numbers[order][:-1]
    if from_ms is not None:
        same &= from_ms[order][1:] == from_ms[order][:-1]
    last = np.append(~same, np.ones(min(len(order), 1), np.bool_))
    return rows.take(pa.array(order[last])).combine_chunks()


def whole_table(rows: pa.Table) -> pa.Table:
    """Those of ``last_of_each`` that stand there, as ``Table`` takes them."""
    there = rows.filter(pc.invert(rows.column(GONE))).combine_chunks()
    from_ms = there.column(FROM).to_numpy() if FROM in there.column_names else None
    names = [name for name in there.column_names if name.startswith(FIELD)]
    fields = {name.removeprefix(FIELD): _one(there.column(name)) for name in names}
    return stored(there.column(HASH).to_numpy(), _one(there.column(KEY)), from_ms, fields)


def _order_of(rows: pa.Table) -> tuple[U64, I64, I64 | None]:
    codes = _one(rows.column(KEY)).dictionary_encode().indices.to_numpy(zero_copy_only=False).astype(np.int64)
    from_ms = rows.column(FROM).to_numpy() if FROM in rows.column_names else None
    return rows.column(HASH).to_numpy(), codes, from_ms


def _one(column: pa.ChunkedArray) -> pa.Array:
    found = column.combine_chunks()
    return found if isinstance(found, pa.Array) else pa.concat_arrays(found.chunks)


def messages_of(form: TableForm, keyed: KeyFormat, rows: Records) -> list[tuple[bytes, bytes]]:
    """Rows as messages that ``read_messages`` reads as them: the key and the value of each."""
    columns = {name: rows.fields[name].to_pylist() for name in form.columns}
    known = [*form.key, *([form.valid_from] if form.valid_from is not None else [])]
    found = []
    for number in range(len(rows)):
        row = {name: values[number] for name, values in columns.items()}
        if keyed == "text":
            value = row[form.key[0]]
            key = value.encode() if isinstance(value, str) else orjson.dumps(value)
        else:
            key = orjson.dumps(_nested({name: row[name] for name in known if row[name] is not None}))
        found.append((key, orjson.dumps(_nested({name: value for name, value in row.items() if value is not None}))))
    return found


def _nested(row: Mapping[str, Any]) -> dict[str, Any]:
    """Columns of dotted names as objects within each other."""
    whole: dict[str, Any] = {}
    for name, value in row.items():
        *path, leaf = name.split(".")
        here = whole
        for part in path:
            here = here.setdefault(part, {})
        here[leaf] = value
    return whole
