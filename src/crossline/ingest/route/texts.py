"""Columns of texts as numpy arrays, for kernels: their buffers, their distinct texts, and chosen ones end to end."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from crossline.basics.values import I32, I64, U8, Columns, Records, TextPlaces
from crossline.ingest.decode.cells import NO_TEXT
from crossline.ingest.decode.keys.texts import (
    NUMBER_BITS,
    NUMBER_MASK,
    SLOTS_FIRST,
    SPARE_BYTES,
    gather_texts,
    number_texts,
)

_SECRET = np.uint64(secrets.randbits(64) | 1)
_BYTES_MAX = 2**31 - 1
_NO_BYTES: U8 = np.empty(0, np.uint8)
Array = TypeVar("Array", bound=npt.NDArray[Any])


@dataclass(frozen=True, slots=True)
class Encoded:
    """A column by its distinct values: ``codes`` int32[n] are places among ``values``, -1 of a null."""

    codes: I32
    values: pa.Array


def encoded_field(records: Records, name: str) -> Encoded:
    """A field by its distinct values; found once. Texts that stand in what was decoded are read there."""
    return records.once(("encoded", name), lambda: _encoded_field(records.fields, name))


def _encoded_field(fields: Mapping[str, pa.Array], name: str) -> Encoded:
    if isinstance(fields, Columns) and name not in fields.made:
        places = fields.places(fields.names.index(name))
        if places is not None:
            return _encoded_texts(places)
    return encoded(fields[name])


def encoded(column: pa.Array) -> Encoded:
    """``column`` by its distinct values, in the order in which they first come."""
    if pa.types.is_string(column.type):
        return _encoded_texts(_places_of(column))
    found = column.dictionary_encode()
    codes = found.indices.fill_null(-1) if found.indices.null_count else found.indices
    return Encoded(np.ascontiguousarray(codes.to_numpy(zero_copy_only=False), np.int32), found.dictionary)


def _places_of(column: pa.Array) -> TextPlaces:
    data, offsets = buffers_of(column)
    bounds = offsets.astype(np.int64)
    places = bounds[:-1] << NUMBER_BITS | np.diff(bounds)
    if column.null_count:
        places[column.is_null().to_numpy(zero_copy_only=False)] = NO_TEXT
    return TextPlaces(data, places)


def _encoded_texts(texts: TextPlaces) -> Encoded:
    places = np.ascontiguousarray(texts.places)
    count, size = len(places), int((places & NUMBER_MASK).sum())
    if size > _BYTES_MAX:
        raise OverflowError("a column of one chunk holds more than 2 GiB of text: read smaller chunks")
    codes, hashes = np.empty(count, np.int32), np.empty(count, np.int64)
    slots = np.empty(max(SLOTS_FIRST, 1 << (4 * count).bit_length()), np.int64)
    out, offsets = np.empty(size + SPARE_BYTES, np.uint8), np.empty(count + 1, np.int32)
    given = (read_only(texts.data), read_only(places), _SECRET)
    distinct = number_texts(*given, slots, hashes, codes, out, offsets)
    offsets = offsets[: distinct + 1]
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(out[: offsets[-1]])]
    return Encoded(codes, pa.Array.from_buffers(pa.string(), distinct, buffers))


def gathered(texts: pa.Array, order: I64, ends: I64, *, repeated: bool = False) -> list[tuple[U8, I64]]:
    """The texts of each share of rows end to end, and int64 offsets of them, which start at 0.

    Share s has the rows ``order[ends[s - 1]:ends[s]]``; ``repeated``: a text may be of several.
    """
    data, bounds = buffers_of(texts)
    room = int(np.diff(bounds).take(order).sum(dtype=np.int64) if repeated else bounds[-1] - bounds[0])
    out, offsets = np.empty(room + SPARE_BYTES, np.uint8), np.empty(len(order) + len(ends), np.int64)
    gather_texts(data, bounds, read_only(order), ends, offsets, out)
    found, place, at, begin = [], 0, 0, 0
    for end in ends.tolist():
        own = offsets[place : place + end - begin + 1]
        size = int(own[-1])
        found.append((out[at : at + size], own))
        place, at, begin = place + len(own), at + size, end
    return found


def warm() -> None:
    """Load or compile these kernels."""
    gathered(encoded(pa.array(["a"])).values, np.zeros(1, np.int64), np.ones(1, np.int64))


def buffers_of(array: pa.Array) -> tuple[U8, I32]:
    """The bytes and the offsets of a string or binary array, as they stand."""
    _, bounds, data = array.buffers()
    if bounds is None or not bounds.size:
        return read_only(_NO_BYTES), read_only(np.zeros(1, np.int32))
    raw = np.frombuffer(data, np.uint8) if data is not None and data.size else _NO_BYTES
    return read_only(raw), read_only(np.frombuffer(bounds, np.int32)[array.offset : array.offset + len(array) + 1])


def bytes_of(array: pa.Array) -> tuple[U8, I64]:
    """The bytes of a string or binary array without nulls, and int64 offsets starting at 0."""
    if len(array) == 0:
        return np.empty(0, dtype=np.uint8), np.zeros(1, dtype=np.int64)
    data, bounds = buffers_of(array)
    offsets = bounds.astype(np.int64)
    if not offsets[0]:
        return data[: offsets[-1]], offsets
    return data[offsets[0] : offsets[-1]], offsets - offsets[0]


def read_only(array: Array) -> Array:
    """``array``, not to be written, so that kernels are compiled for one kind of it alone."""
    found = array.view()
    found.flags.writeable = False
    return found
