"""Parts for one shard as one blob, and back; dead letters travel along: every outcome leaves by the same door."""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import orjson

from crossline.basics import wire
from crossline.basics.deadletter import DeadLetter
from crossline.basics.wire import WirePart
from crossline.ingest.route.partitioner import Part

_LENGTH = struct.Struct("<Q")


def pack(parts: Iterable[Part]) -> bytes:
    """One blob of the ``parts``, each a wire blob behind its length."""
    return b"".join(packed_views(parts))


def packed_views(parts: Iterable[Part]) -> list[bytes | memoryview]:
    """The bytes of ``pack`` in pieces, for who joins them with others; they are views of the parts' arrays."""
    out: list[bytes | memoryview] = []
    for part in parts:
        pieces = wire.encoded_pieces(part.meta, part.arrays)
        out += (_LENGTH.pack(sum(map(len, pieces))), *pieces)
    return out


def unpack(blob: bytes | memoryview, where: str) -> Iterator[WirePart]:
    """The parts in ``blob``. ``where`` names it in errors."""
    view = memoryview(blob)
    position = 0
    while position < len(view):
        (length,) = _LENGTH.unpack_from(view, position)
        position += _LENGTH.size
        meta, arrays = wire.decode(view[position : position + length], where)
        if "pieces" in meta:
            yield from parts_within(meta, arrays)
        else:
            yield meta, arrays
        position += length


def parts_within(meta: Mapping[str, Any], arrays: wire.Arrays) -> Iterator[WirePart]:
    """The parts that stand in one, of several chunks. They share its keys, and the texts that rows have by number."""
    shared = {name for name in arrays if name.startswith(("key_", "text")) and name != "key_index"}
    texts = {name for name in arrays if name in ("id_offsets", "figure_offsets")}
    bodies = {f"{name.removesuffix('_offsets')}_bytes" for name in texts}
    start = 0
    for piece in meta["pieces"]:
        end = piece["end"]
        mine = {
            name: array if name in shared else array[start:end]
            for name, array in arrays.items()
            if name not in texts and name not in bodies
        }
        for name in texts:
            offsets, of_bytes = arrays[name][start : end + 1], f"{name.removesuffix('_offsets')}_bytes"
            mine[of_bytes], mine[name] = arrays[of_bytes][offsets[0] : offsets[-1]], offsets - offsets[0]
        known = {name: each for name, each in piece.items() if name != "end"}
        yield {**{name: each for name, each in meta.items() if name != "pieces"}, **known}, mine
        start = end


def dead_to_json(letters: Sequence[DeadLetter]) -> bytes:
    """Dead letters as a JSON list, bytes in base 64."""
    return orjson.dumps(
        [{**asdict(d), "raw": base64.b64encode(d.raw).decode() if d.raw is not None else None} for d in letters]
    )


def dead_from_json(raw: bytes) -> list[DeadLetter]:
    """Inverse of ``dead_to_json``."""
    items: list[dict[str, Any]] = orjson.loads(raw)
    return [DeadLetter(**{**i, "raw": base64.b64decode(i["raw"]) if i["raw"] is not None else None}) for i in items]
