"""The decisions of a batch, of all shards, in the order of their records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from crossline.basics import wire
from crossline.basics.values import I64
from crossline.evaluate.alerts.alert_json import json_bytes
from crossline.evaluate.decisions.batch import Placed, texts
from crossline.evaluate.decisions.columns import DecisionColumns, DecisionHead, text_bytes
from crossline.io.sinks.decisions import Decisions


def in_order(few: Sequence[Placed], blocks: Sequence[bytes | memoryview]) -> Sequence[Mapping[str, Any]]:
    """All decisions of a batch, of ``few`` that are values and of ``blocks`` of lines."""
    if not blocks:
        return [decision for _, decision in sorted(few, key=lambda each: tuple(each[0]))]
    parts = [wire.decode(block, "decisions of a batch") for block in blocks]
    chunks = [tuple(chunk) for meta, _ in parts for chunk in meta["chunks"]]
    chunks += [(place[1], place[2], place[3], place[5]) for place, _ in few]
    values = [body for _, body in few]
    order = _order(parts, few, chunks)
    lines = _joined(parts, "text", "ends", map(json_bytes, values))
    record_ids = _joined(parts, "record_ids", "record_ends", text_bytes(each["record_id"] for each in values))
    ids = [own for _, arrays in parts for own in _rows(arrays["ids"])]
    ids += text_bytes(each["decision_id"] for each in values)
    head, heads = _heads(parts, values)
    event_ms = np.concatenate([*(arrays["event_ms"] for _, arrays in parts), np.zeros(len(few), np.int64)])
    at, first = order.tolist(), len(lines) - len(few)
    return Decisions(
        DecisionColumns(
            lines=[lines[n] for n in at],
            ids=[ids[n] for n in at],
            record_ids=[record_ids[n] for n in at],
            head=head[order],
            heads=heads,
            event_ms=event_ms[order],
            values={int(n): values[order[n] - first] for n in np.flatnonzero(order >= first)},
        )
    )


def _joined(parts: Sequence[wire.WirePart], name: str, ends: str, more: Iterable[bytes]) -> list[bytes]:
    return [*(text for _, arrays in parts for text in texts(arrays[name], arrays[ends])), *more]


def _rows(ids: Any) -> list[bytes]:
    """The rows of uint8[n, m]."""
    raw, width = ids.tobytes(), ids.shape[1]
    return [raw[start : start + width] for start in range(0, len(raw), width)]


def _heads(parts: Sequence[wire.WirePart], values: Sequence[Mapping[str, Any]]) -> tuple[I64, list[DecisionHead]]:
    numbers: dict[DecisionHead, int] = {}
    found = []
    for meta, arrays in parts:
        of = [numbers.setdefault(DecisionHead(*each), len(numbers)) for each in meta["heads"]]
        found.append(np.array(of, np.int64)[arrays["head"]])
    own = [numbers.setdefault(DecisionHead.of(each), len(numbers)) for each in values]
    return np.concatenate([*found, np.array(own, np.int64)]), list(numbers)


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
