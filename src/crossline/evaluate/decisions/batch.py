"""What a shard of ids decided in a batch: values one by one, and lines of JSON as columns, as they travel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import orjson

from crossline.basics import wire
from crossline.basics.byte_slices import gathered, take_bytes
from crossline.basics.values import I64
from crossline.evaluate.decisions.blocks import Table
from crossline.evaluate.decisions.json_lines import DecisionLines

Placed = tuple[Sequence[Any], dict[str, Any]]  # a decision, behind what puts it among the others


@dataclass(slots=True)
class Decided:
    """What a shard of ids decided: ``few``, as JSON values, and the rest as lines, each with its table."""

    few: list[Placed]
    lines: Sequence[tuple[Table, DecisionLines]] = ()

    def values(self) -> list[Placed]:
        """All of them as JSON values, in no order."""
        found = list(self.few)
        for table, lines in self.lines:
            for number, text in zip(lines.record.tolist(), texts(lines.text, lines.offsets), strict=True):
                found.append((table.place(number), orjson.loads(text)))
        return found


def texts(text: Any, offsets: I64) -> Iterator[bytes]:
    """Each of the texts that stand end to end."""
    raw, ends = text.tobytes(), offsets.tolist()
    return (raw[start:end] for start, end in pairwise(ends))


def packed(table: Table, lines: DecisionLines, *, bare: bool) -> bytes:
    """Lines as they travel to who delivers them; ``bare``: also those without a reason."""
    kept = np.arange(len(lines.record)) if bare else np.flatnonzero(~lines.bare)
    at, columns = table.first[lines.record[kept]], table.columns
    arrays = {name: columns[name][at] for name in ("place_ms", "chunk", "offsets", "event_ms")}
    starts, ends = columns["id_offsets"][at], columns["id_offsets"][at + 1]
    arrays["record_ids"], arrays["record_ends"] = take_bytes(columns["id_bytes"], starts, ends - starts)
    text, ends = lines.text, lines.offsets
    if len(kept) < len(lines.record):
        text, ends = gathered(text, ends, kept)
    arrays |= {"text": text, "ends": ends, "ids": lines.ids[kept], "head": lines.head[kept]}
    return wire.encode({"chunks": table.chunks, "heads": [list(head) for head in lines.heads]}, arrays)
