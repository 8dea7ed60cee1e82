"""The naive twins of what numbers texts and cuts rows by shard: Arrow's dictionaries and numpy, a shard at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from crossline.basics.values import I64, Records
from crossline.basics.wire import Arrays
from crossline.ingest.route.key_rows import Rows
from crossline.ingest.route.texts import Encoded


def encoded(column: pa.Array) -> tuple[list[int], list[Any]]:
    """The codes of the rows (-1: null), and the distinct values in the order in which they first come."""
    numbers: dict[Any, int] = {}
    values = column.to_pylist()
    codes = [-1 if each is None else numbers.setdefault(each, len(numbers)) for each in values]
    return codes, list(numbers)


def bytes_of(texts: Sequence[Any]) -> Arrays:
    raw = [each.encode() if isinstance(each, str) else each for each in texts]
    ends = np.cumsum([0, *map(len, raw)], dtype=np.int64)
    return {"bytes": np.frombuffer(b"".join(raw), np.uint8), "offsets": ends}


def named(name: str, arrays: Arrays) -> Arrays:
    return {f"{name}_{each}": array for each, array in arrays.items()}


def shares(entering: Rows, wanted: npt.NDArray[np.bool_], shards: int) -> list[I64]:
    """The rows of each shard."""
    keys = entering.keys
    shard_of_key = (keys.hashes % np.uint64(shards)).astype(np.int64)
    rows = np.flatnonzero(wanted & (keys.rows >= 0))
    shard_of_row = shard_of_key[keys.rows[rows]]
    return [rows[shard_of_row == shard] for shard in range(shards)]


def arrays_of(
    entering: Rows, mine: I64, shard: int, shards: int, records: Records, times: Mapping[str, I64], columns: list[Any]
) -> Arrays:
    """What the rows ``mine`` of a shard are."""
    keys, of = entering.keys, entering.of(mine)
    my_keys = keys.hashes % np.uint64(shards) == shard
    local = np.cumsum(my_keys, dtype=np.int32) - np.int32(1)
    arrays: Arrays = {
        "event_ms": records.event_ms[of],
        **{name: values[of] for name, values in times.items()},
        "offsets": records.offsets[of],
        "key_index": local[keys.rows[mine]],
        **named("key", bytes_of(keys.values.filter(pa.array(my_keys)).to_pylist())),
        "key_hash": keys.hashes[my_keys],
        **named("id", bytes_of(records.ids.take(pa.array(of)).to_pylist())),
        "bits": entering.bits[mine],
    }
    for number, column in enumerate(columns):
        arrays |= _texts(number, column, of) if isinstance(column, Encoded) else {f"value{number}": column[of]}
    return arrays


def _texts(number: int, column: Encoded, of: I64) -> Arrays:
    codes = column.codes[of]
    used = np.unique(codes)
    local = np.searchsorted(used, codes).astype(np.int32)
    texts = bytes_of([column.values[int(code)].as_py() for code in used])
    return {f"value{number}": local, **named(f"text{number}", texts)}
