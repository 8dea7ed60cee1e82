"""Keys as bytes: a canonical form that is the same in every run, with a stable 64-bit hash, and back to values.

A key of one string field is its UTF-8 bytes. Any other is its values as text, each behind its length in bytes
(``2:a1,3:m10``), which no two different keys share. The form depends only on the stream's declared types, so state
written by one run reads in the next.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from crossline.basics.fields import KeyValue
from crossline.basics.streams.schema import StreamSpec
from crossline.basics.values import I32, I64, U8, Records
from crossline.ingest.decode.keys.pairs import beside_texts_max, number_pairs, write_pairs
from crossline.ingest.route.texts import Encoded, bytes_of, encoded, encoded_field, read_only
from crossline.state.memory.hashing import xxh64_many

U64 = npt.NDArray[np.uint64]
_NUMBER_MAX = 2**62
_BYTES_MAX = 2**31 - 1
_ROOM_BYTES = 8 * 2**20
_ODD = np.uint64(secrets.randbits(64) | 1)
FEW = 32  # rows


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """The key of each row.

    ``rows[i]`` is its number among the distinct ``values`` (-1: no key); ``hashes`` are theirs.
    """

    rows: I32
    values: pa.Array
    hashes: U64


def key_column(spec: StreamSpec, fields: tuple[str, ...], records: Records) -> KeyColumn:
    """Distinct keys of ``records`` by ``fields`` (none: one global key). A null field leaves a record without a key."""
    if not fields:
        rows = np.zeros(len(records), dtype=np.int32)
        return _hashed(rows, pa.array([b"[]"], pa.binary()))
    plain = _is_plain(spec, fields)
    return records.once(("key", fields, plain), lambda: _key_column(fields, records, plain=plain))


def _key_column(fields: tuple[str, ...], records: Records, *, plain: bool) -> KeyColumn:
    if len(records) <= FEW:
        columns = [records.fields[name] for name in fields]
        if _are_few(columns):
            return _keys_of_few(columns, plain=plain)
    return _keys_of_encoded([encoded_field(records, name) for name in fields], plain=plain)


def keys_of(columns: Sequence[pa.Array], *, plain: bool) -> KeyColumn:
    """Distinct keys of rows that have these columns. ``plain``: the one column is of texts, which are the keys."""
    if _are_few(columns):
        return _keys_of_few(columns, plain=plain)
    return _keys_of_encoded([encoded(column) for column in columns], plain=plain)


def _are_few(columns: Sequence[pa.Array]) -> bool:
    return len(columns[0]) <= FEW and all(
        pa.types.is_string(each.type) or pa.types.is_int64(each.type) for each in columns
    )


def _keys_of_encoded(columns: Sequence[Encoded], *, plain: bool) -> KeyColumn:
    codes = [each.codes for each in columns]
    if len(columns) == 1:
        values = columns[0].values
        text = values if plain else _measured(values)
        return _hashed(codes[0], _as_binary(text))
    if len(columns) == 2:
        return _pairs(*columns)
    missing = np.logical_or.reduce([code < 0 for code in codes])
    sizes = [len(each.values) for each in columns]
    pairs = pa.array(_combined([code.astype(np.int64) for code in codes], sizes), mask=missing).dictionary_encode()
    rows = pairs.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int32)
    some_row = np.empty(len(pairs.dictionary), np.int64)  # of each key: they are all alike
    some_row[rows[~missing]] = np.flatnonzero(~missing)
    parts = [_measured(each.values).take(pa.array(each.codes[some_row])) for each in columns]
    return _hashed(rows, _as_binary(pc.binary_join_element_wise(*parts, ",")))


def _as_binary(text: pa.Array) -> pa.Array:
    """Texts as bytes: what a cast gives, without what it takes to find it."""
    if not pa.types.is_string(text.type):
        return text.cast(pa.binary())
    return pa.Array.from_buffers(pa.binary(), len(text), text.buffers(), text.null_count, text.offset)


def _pairs(one: Encoded, other: Encoded) -> KeyColumn:
    """Keys of two fields, by kernels: nearly each record may have one of its own."""
    first, second = read_only(one.codes), read_only(other.codes)
    bits = (2 * len(first) + 1).bit_length()
    rows, some_row = np.empty(len(first), np.int32), np.empty(len(first), np.int64)
    count = number_pairs(first, second, _ODD, bits, np.zeros(1 << bits, np.int32), rows, some_row)
    some_row = some_row[:count]
    (data, bounds), (others, other_bounds) = _texts_of(one), _texts_of(other)
    sizes, other_sizes = np.diff(bounds), np.diff(other_bounds)
    longest, other_longest = int(sizes.max(initial=0)), int(other_sizes.max(initial=0))
    room = count * (longest + other_longest)  # where texts are short; adding them up takes longer
    if room > _ROOM_BYTES:
        room = int(sizes[first[some_row]].sum() + other_sizes[second[some_row]].sum())
    room += count * beside_texts_max(longest, other_longest)
    if room > _BYTES_MAX:
        raise OverflowError(f"keys of {room} bytes in one chunk: expected less than 2 GiB; read smaller chunks")
    out, offsets = np.empty(room, np.uint8), np.empty(count + 1, np.int32)
    size = write_pairs(first, second, some_row, data, bounds, others, other_bounds, out, offsets)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(out[:size])]
    return _hashed(rows, pa.Array.from_buffers(pa.binary(), count, buffers))


def _texts_of(column: Encoded) -> tuple[U8, I64]:
    """The values of a field as texts: bytes and offsets."""
    data, bounds = bytes_of(column.values.cast(pa.string()))
    return read_only(data), read_only(bounds)


def warm_pairs() -> None:
    """Load or compile the kernels for keys of two fields."""
    column = encoded(pa.array(["a"]))
    _keys_of_encoded([column, column], plain=False)


def _keys_of_few(columns: Sequence[pa.Array], *, plain: bool) -> KeyColumn:
    """The same for a few rows of texts and whole numbers, where Arrow's calls would take longer than what they do."""
    numbers: dict[bytes, int] = {}
    rows = []
    for row in zip(*(column.to_pylist() for column in columns), strict=True):
        if None in row:
            rows.append(-1)
            continue
        texts = [str(value).encode() for value in row]
        key = texts[0] if plain else b",".join(b"%d:%b" % (len(text), text) for text in texts)
        rows.append(numbers.setdefault(key, len(numbers)))
    hashes = np.array([xxhash.xxh64_intdigest(key) for key in numbers], np.uint64)
    return KeyColumn(np.array(rows, np.int32), pa.array(list(numbers), pa.binary()), hashes)


def _combined(codes: Sequence[I64], sizes: Sequence[int]) -> I64:
    """One number for the codes of each row, the same for the same codes; anything where a code is missing (-1).

    ``sizes``: the values of each field.
    Numbers are those of a mixed base. Where the next field would leave 64 bits, what there is so far is numbered anew:
    by rows, which are fewer than 2^31, as are the values of a field.
    """
    combined, bound = codes[0], sizes[0]
    for code, each in zip(codes[1:], sizes[1:], strict=True):
        size = max(each, 1)
        if bound * size > _NUMBER_MAX:
            anew = pa.array(combined).dictionary_encode()
            combined = anew.indices.to_numpy(zero_copy_only=False).astype(np.int64)
            bound = len(anew.dictionary)
        combined = combined * size + code
        bound = (bound + 1) * size  # a missing code makes a number less than none
    return combined


def _measured(values: pa.Array) -> pa.Array:
    text = values.cast(pa.string())
    return pc.binary_join_element_wise(pc.binary_length(text).cast(pa.string()), text, ":")


def key_from_text(spec: StreamSpec, name: str, text: str) -> bytes | None:
    """The key of one field whose value is written as ``text``, as in a URL; None where no value is written so.

    Times of type timestamp are epoch ms.
    """
    kind = spec.columns[name].kind
    try:
        value = _READ[kind](text)
    except ValueError:
        return None
    if kind == "boolean" and text not in {"true", "false"}:
        return None
    if kind in {"integer", "timestamp"} and (text != str(value) or not -(2**63) <= int(value) < 2**63):
        return None
    value = value + 0.0 if isinstance(value, float) else value  # there is one zero, as in records
    column = pa.array([value], _WRITTEN.get(kind, pa.int64()))
    (key,) = keys_of([column], plain=_is_plain(spec, (name,))).values.to_pylist()
    return bytes(key)


def _is_plain(spec: StreamSpec, fields: tuple[str, ...]) -> bool:
    return len(fields) == 1 and spec.columns[fields[0]].kind == "string"


def _hashed(rows: I32, values: pa.Array) -> KeyColumn:
    data, offsets = bytes_of(values)
    return KeyColumn(rows, values, xxh64_many(data, offsets, 0))


def key_values(spec: StreamSpec, fields: tuple[str, ...], raw: bytes) -> dict[str, KeyValue]:
    """The key that ``raw`` stands for, by field."""
    if not fields:
        return {}
    if _is_plain(spec, fields):
        return {fields[0]: raw.decode()}
    values: dict[str, KeyValue] = {}
    at = 0
    for name in fields:
        colon = raw.index(b":", at)
        end = colon + 1 + int(raw[at:colon])
        values[name] = _READ[spec.columns[name].kind](raw[colon + 1 : end].decode())
        at = end + 1
    return values


_WRITTEN = {"string": pa.string(), "number": pa.float64(), "boolean": pa.bool_()}
_READ: dict[str, Callable[[str], KeyValue]] = {
    "string": str,
    "integer": int,
    "timestamp": int,
    "number": float,
    "boolean": lambda text: text == "true",
}
