"""The decisions of a batch in the order of their records: values one by one, and lines of JSON as they came."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self, overload

import numpy as np
import orjson

from crossline.basics import wire
from crossline.basics.values import I64
from crossline.evaluate.alerts.alert_json import json_bytes
from crossline.evaluate.decisions.batch import Placed, texts


class Decisions(Sequence[Mapping[str, Any]]):
    """Decisions, each as a line of JSON without its end; all are parsed at the first access, and kept.

    ``words``: what each of them decided; None: not known without parsing.
    """

    def __init__(self, lines: Sequence[bytes], words: Sequence[str] | None = None) -> None:
        self._lines = lines
        self._words = words
        self._parsed: list[Mapping[str, Any]] | None = None
        self._parsing = threading.Lock()  # several sinks read them, each from a thread of its own

    @classmethod
    def of(cls, few: Sequence[Placed], blocks: Sequence[bytes | memoryview]) -> Self:
        """Those of ``few``, which are values, and of ``blocks`` of lines, in the order of their records."""
        parts = [wire.decode(block, "decisions of a batch") for block in blocks]
        chunks = [tuple(chunk) for meta, _ in parts for chunk in meta["chunks"]]
        chunks += [(place[1], place[2], place[3], place[5]) for place, _ in few]
        lines = [text for _, arrays in parts for text in texts(arrays["text"], arrays["ends"])]
        lines += [orjson.dumps(body) for _, body in few]
        words = [meta["words"][code] for meta, arrays in parts for code in arrays["decision"].tolist()]
        words += [body["decision"] for _, body in few]
        return cls([lines[at] for at in _order(parts, few, chunks).tolist()], words)

    def __len__(self) -> int:
        return len(self._lines)

    @overload
    def __getitem__(self, index: int) -> Mapping[str, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Mapping[str, Any]]: ...
    def __getitem__(self, index: int | slice) -> Mapping[str, Any] | Sequence[Mapping[str, Any]]:
        return self._values()[index]

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        return iter(self._values())

    def _values(self) -> list[Mapping[str, Any]]:
        with self._parsing:
            if self._parsed is None:
                self._parsed = [orjson.loads(line) for line in self._lines]
            return self._parsed

    def lines(self) -> Sequence[bytes]:
        """Each as JSON, without an end of line."""
        return self._lines

    def counts(self) -> Mapping[str, int]:
        """How many there are, by what was decided."""
        return Counter(each["decision"] for each in self._values()) if self._words is None else Counter(self._words)


def in_order(few: Sequence[Placed], blocks: Sequence[bytes | memoryview]) -> Sequence[Mapping[str, Any]]:
    """All decisions of a batch, of ``few`` that are values and of ``blocks`` of lines."""
    if blocks:
        return Decisions.of(few, blocks)
    return [decision for _, decision in sorted(few, key=lambda each: tuple(each[0]))]


def json_lines(decisions: Sequence[Mapping[str, Any]]) -> Sequence[bytes]:
    """Each decision as JSON, without an end of line: as it came, where it came as a line."""
    return decisions.lines() if isinstance(decisions, Decisions) else [json_bytes(each) for each in decisions]


def counted(decisions: Sequence[Mapping[str, Any]]) -> Mapping[str, int]:
    """How many decisions there are, by what was decided."""
    return decisions.counts() if isinstance(decisions, Decisions) else Counter(each["decision"] for each in decisions)


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
