"""The decisions of a batch, of all shards, in the order of their records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import orjson

from crossline.basics import wire
from crossline.basics.values import I64
from crossline.evaluate.decisions.batch import Placed, texts
from crossline.io.sinks.decisions import Decisions


def in_order(few: Sequence[Placed], blocks: Sequence[bytes | memoryview]) -> Sequence[Mapping[str, Any]]:
    """All decisions of a batch, of ``few`` that are values and of ``blocks`` of lines."""
    if not blocks:
        return [decision for _, decision in sorted(few, key=lambda each: tuple(each[0]))]
    parts = [wire.decode(block, "decisions of a batch") for block in blocks]
    chunks = [tuple(chunk) for meta, _ in parts for chunk in meta["chunks"]]
    chunks += [(place[1], place[2], place[3], place[5]) for place, _ in few]
    lines = [text for _, arrays in parts for text in texts(arrays["text"], arrays["ends"])]
    lines += [orjson.dumps(body) for _, body in few]
    words = [meta["words"][code] for meta, arrays in parts for code in arrays["decision"].tolist()]
    words += [body["decision"] for _, body in few]
    order = _order(parts, few, chunks).tolist()
    return Decisions([lines[at] for at in order], [words[at] for at in order])


def _order(parts: Sequence[wire.WirePart], few: Sequence[Placed], chunks: Sequence[tuple[Any, ...]]) -> I64:
    """By the place of their records: time, stream, log, sequence, offset, partition."""
    columns: list[list[Any]] = [[], [], []]
    at = 0
    for meta, arrays in parts:
        for found, name in zip(columns, ("place_ms", "chunk", "offsets"), strict=True):
            found.append(arrays[name] + (at if name == "chunk" else 0))
        at += len(meta["chunks"])
    own = [[place[0] for place, _ in few], range(at, at + len(few)), [place[4] for place, _ in few]]
    place_ms, chunk, offsets = (
        np.concatenate([*found, np.array(mine, np.int64)]) for found, mine in zip(columns, own, strict=True)
    )
    ranks = [np.array(_ranks([each[number] for each in chunks]), np.int64)[chunk] for number in range(4)]
    stream, log, sequence, partition = ranks
    return np.lexsort((partition, offsets, sequence, log, stream, place_ms))


def _ranks(values: Sequence[Any]) -> list[int]:
    rank = {value: number for number, value in enumerate(sorted(set(values)))}
    return [rank[value] for value in values]
