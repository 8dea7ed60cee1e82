"""Keys as bytes: a canonical form that is the same in every run, with a stable 64-bit hash, and back to values.

A key of one string field is its UTF-8 bytes. Any other is its values as text, each behind its length in bytes
(``2:a1,3:m10``), which no two different keys share. The form depends only on the stream's declared types, so state
written by one run reads in the next.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from crossline.basics.fields import KeyValue
from crossline.basics.streams.schema import StreamSpec
from crossline.basics.values import I32, I64, U8, Records
from crossline.ingest.decode.pairs import beside_texts_max, number_pairs, write_pairs
from crossline.state.memory.hashing import xxh64_many

U64 = npt.NDArray[np.uint64]
_NUMBER_MAX = 2**62
_BYTES_MAX = 2**31 - 1
_ODD = np.uint64(secrets.randbits(64) | 1)
Array = TypeVar("Array", bound=npt.NDArray[Any])
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
    columns, plain = [records.fields[name] for name in fields], _is_plain(spec, fields)
    if _are_few(columns):
        return _keys_of_few(columns, plain=plain)
    return _keys_of_encoded([records.encoded(name) for name in fields], plain=plain)


def keys_of(columns: Sequence[pa.Array], *, plain: bool) -> KeyColumn:
    """Distinct keys of rows that have these columns. ``plain``: the one column is of texts, which are the keys."""
    if _are_few(columns):
        return _keys_of_few(columns, plain=plain)
    return _keys_of_encoded([column.dictionary_encode() for column in columns], plain=plain)


def _are_few(columns: Sequence[pa.Array]) -> bool:
    return len(columns[0]) <= FEW and all(
        pa.types.is_string(each.type) or pa.types.is_int64(each.type) for each in columns
    )


def _keys_of_encoded(encoded: Sequence[pa.DictionaryArray], *, plain: bool) -> KeyColumn:
    codes = [_codes(each) for each in encoded]
    if len(encoded) == 1:
        values = encoded[0].dictionary
        text = values if plain else _measured(values)
        return _hashed(codes[0], _as_binary(text))
    if len(encoded) == 2:
        return _pairs(codes, encoded)
    missing = np.logical_or.reduce([code < 0 for code in codes])
    pairs = pa.array(_combined([code.astype(np.int64) for code in codes], encoded), mask=missing).dictionary_encode()
    rows = pairs.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int32)
    some_row = np.empty(len(pairs.dictionary), np.int64)  # of each key: they are all alike
    some_row[rows[~missing]] = np.flatnonzero(~missing)
    parts = [_measured(e.dictionary).take(pa.array(code[some_row])) for code, e in zip(codes, encoded, strict=True)]
    return _hashed(rows, _as_binary(pc.binary_join_element_wise(*parts, ",")))


def _as_binary(text: pa.Array) -> pa.Array:
    """Texts as bytes: what a cast gives, without what it takes to find it."""
    if not pa.types.is_string(text.type):
        return text.cast(pa.binary())
    return pa.Array.from_buffers(pa.binary(), len(text), text.buffers(), text.null_count, text.offset)


def _codes(encoded: pa.DictionaryArray) -> I32:
    """The codes of rows, -1 where there is none."""
    indices = encoded.indices
    codes = (indices.fill_null(-1) if indices.null_count else indices).to_numpy(zero_copy_only=False)
    return _read_only(np.ascontiguousarray(codes, np.int32))


def _pairs(codes: Sequence[I32], encoded: Sequence[pa.DictionaryArray]) -> KeyColumn:
    """Keys of two fields, by kernels: nearly each record may have one of its own."""
    first, second = codes
    bits = (2 * len(first) + 1).bit_length()
    rows, some_row = np.empty(len(first), np.int32), np.empty(len(first), np.int64)
    count = number_pairs(first, second, _ODD, bits, np.zeros(1 << bits, np.int32), rows, some_row)
    some_row = some_row[:count]
    (data, bounds), (others, other_bounds) = map(_texts_of, encoded)
    sizes, other_sizes = np.diff(bounds), np.diff(other_bounds)
    room = int(sizes[first[some_row]].sum() + other_sizes[second[some_row]].sum())
    room += count * beside_texts_max(int(sizes.max(initial=0)), int(other_sizes.max(initial=0)))
    if room > _BYTES_MAX:
        raise OverflowError(f"keys of {room} bytes in one chunk: expected less than 2 GiB; read smaller chunks")
    out, offsets = np.empty(room, np.uint8), np.empty(count + 1, np.int32)
    size = write_pairs(first, second, some_row, data, bounds, others, other_bounds, out, offsets)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(out[:size])]
    return _hashed(rows, pa.Array.from_buffers(pa.binary(), count, buffers))


def _texts_of(encoded: pa.DictionaryArray) -> tuple[U8, I64]:
    """The values of a field as texts: bytes and offsets."""
    data, bounds = bytes_of(encoded.dictionary.cast(pa.string()))
    return _read_only(data), _read_only(bounds)


def warm_pairs() -> None:
    """Load or compile the kernels for keys of two fields."""
    column = pa.array(["a"]).dictionary_encode()
    _keys_of_encoded([column, column], plain=False)


def _read_only(array: Array) -> Array:
    """So that kernels are compiled for one kind of it alone."""
    array.flags.writeable = False
    return array


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


def _combined(codes: Sequence[I64], encoded: Sequence[pa.DictionaryArray]) -> I64:
    """One number for the codes of each row, the same for the same codes; anything where a code is missing (-1).

    Numbers are those of a mixed base. Where the next field would leave 64 bits, what there is so far is numbered anew:
    by rows, which are fewer than 2^31, as are the values of a field.
    """
    combined, bound = codes[0], len(encoded[0].dictionary)
    for code, e in zip(codes[1:], encoded[1:], strict=True):
        size = max(len(e.dictionary), 1)
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


def bytes_of(array: pa.Array) -> tuple[U8, I64]:
    """The bytes of a string or binary array without nulls, and int64 offsets starting at 0."""
    if len(array) == 0:
        return np.empty(0, dtype=np.uint8), np.zeros(1, dtype=np.int64)
    buffers = array.buffers()
    offsets = np.frombuffer(buffers[1], dtype=np.int32)[array.offset : array.offset + len(array) + 1].astype(np.int64)
    data = np.frombuffer(buffers[2], dtype=np.uint8) if buffers[2] is not None else np.empty(0, dtype=np.uint8)
    return data[offsets[0] : offsets[-1]], offsets - offsets[0]
