"""Named numpy arrays and a small header as one blob of bytes: what travels to shards and what state segments hold.

Layout: magic, format version, checksum of the rest, length of the header, header (JSON: meta and an array table),
then the arrays, each on an 8-byte boundary. Decoding makes views, no copies.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from functools import cache
from math import prod
from typing import Any

import numpy as np
import orjson
import xxhash

from crossline.basics.errors import StateError

_MAGIC = b"XLW1"
_HEAD = struct.Struct("<4sIQQ")  # magic, format version, checksum, header length
_COUNT = struct.Struct("<Q")
FORMAT_VERSION = 3  # 1 had hashes where there are texts, 2 logs of derived streams without their stream

SMALL_BYTES = 16_384
_PADS = [bytes(size) for size in range(8)]

Arrays = dict[str, "np.ndarray[Any, np.dtype[Any]]"]
WirePart = tuple[Mapping[str, Any], Arrays]  # meta and arrays, as they arrive


_text_of = cache(lambda kind: kind.str)
_kind_of = cache(np.dtype)


def encode(meta: Mapping[str, Any], arrays: Mapping[str, np.ndarray[Any, np.dtype[Any]]]) -> bytes:
    """One blob with ``meta`` (JSON values) and ``arrays`` (one- or two-dimensional, any plain dtype)."""
    return b"".join(encoded_pieces(meta, arrays))


def encoded_pieces(
    meta: Mapping[str, Any], arrays: Mapping[str, np.ndarray[Any, np.dtype[Any]]]
) -> list[bytes | memoryview]:
    """The bytes of ``encode`` in pieces, for who joins them with others; large arrays are views, no copies."""
    table = []
    chunks: list[bytes | memoryview] = []
    position = 0
    for name, array in arrays.items():
        flat = array if array.flags.c_contiguous else np.ascontiguousarray(array)
        pad = -position % 8
        if pad:
            chunks.append(_PADS[pad])
            position += pad
        size = flat.nbytes
        table.append((name, _text_of(flat.dtype), flat.shape, position))
        if size:
            # What is small is copied sooner than shown.
            chunks.append(flat.tobytes() if size < SMALL_BYTES else flat.reshape(-1).view(np.uint8).data)
        position += size
    header = orjson.dumps({"meta": meta, "arrays": table})
    header += b" " * (-(len(header) + _HEAD.size) % 8)
    digest = xxhash.xxh3_64(_COUNT.pack(len(header)))
    digest.update(header)
    for chunk in chunks:
        digest.update(chunk)
    return [_HEAD.pack(_MAGIC, FORMAT_VERSION, digest.intdigest(), len(header)), header, *chunks]


HEAD_BYTES = _HEAD.size


def header_bytes(head: bytes, where: str) -> int:
    """Length of the header of a blob that starts with the ``HEAD_BYTES`` bytes of ``head``."""
    if len(head) < _HEAD.size:
        raise StateError(f"{where}: {len(head)} bytes, shorter than a header; the file was cut short")
    magic, version, _, length = _HEAD.unpack(head)
    if magic != _MAGIC:
        raise StateError(f"{where}: not a crossline blob (starts with {bytes(magic)!r}, expected {_MAGIC!r})")
    if version != FORMAT_VERSION:
        raise StateError(
            f"{where}: state format {version}, this version reads {FORMAT_VERSION}; "
            "run the version that wrote it, or start from a new checkpoint"
        )
    return int(length)


def decode_meta(header: bytes, where: str) -> dict[str, Any]:
    """The meta of a blob from its header alone: the arrays behind it are not checked."""
    try:
        meta: dict[str, Any] = orjson.loads(header)["meta"]
    except orjson.JSONDecodeError as error:
        raise StateError(f"{where}: the header is damaged; restore the file or start a new checkpoint") from error
    return meta


def decode(blob: bytes | memoryview, where: str) -> tuple[dict[str, Any], Arrays]:
    """Meta and arrays (read-only views of ``blob``). ``where`` names the blob in errors.

    Raises:
        StateError: cut short, damaged, or of another format version.
    """
    view = memoryview(blob)
    header_length = header_bytes(bytes(view[: _HEAD.size]), where)
    checksum = _HEAD.unpack(view[: _HEAD.size])[2]
    body = view[_HEAD.size :]
    digest = xxhash.xxh3_64(_COUNT.pack(header_length))
    digest.update(body)
    if digest.intdigest() != checksum:
        raise StateError(
            f"{where}: checksum differs, the bytes are damaged; restore the file or start a new checkpoint"
        )
    header = orjson.loads(body[:header_length])
    whole = np.frombuffer(body, np.uint8)[header_length:]
    arrays: Arrays = {}
    for name, dtype, shape, position in header["arrays"]:
        kind = _kind_of(dtype)
        size = kind.itemsize * prod(shape)
        found = whole[position : position + size].view(kind) if size else np.empty(shape, kind)
        arrays[name] = found if len(shape) == 1 else found.reshape(shape)
    return header["meta"], arrays
