"""A kernel that puts rows into the order of the shards of their keys."""

from __future__ import annotations

from typing import Any

import numpy as np

from crossline.basics.values import I32, I64, U8
from crossline.ingest.decode.jit import inlined, kernel

LOCAL_BITS = 32
LOCAL_MASK = (1 << LOCAL_BITS) - 1


@kernel
def share_out(
    key_of_row: I32,
    enters: U8,
    hashes: Any,
    places: I64,
    keys: I64,
    key_ends: I64,
    rows: I64,
    key_index: I32,
    row_ends: I64,
) -> None:
    """Rows and keys by shard, where those of a shard stay in their order. A key's shard is its hash modulo the shards.

    ``key_of_row`` int32[n]: -1: of no shard, as are rows whose ``enters`` (uint8[n]) is 0. ``hashes`` uint64[keys].
    ``keys`` int64[keys]: those of shard s end before ``key_ends[s]``. ``rows`` int64[n]: likewise, by ``row_ends``;
    ``key_index`` int32[n]: beside each row the number of its key among those of its shard. ``places`` int64[keys] is
    filled on the way: of each key its shard, and that number.
    """
    key_ends[:] = 0
    row_ends[:] = 0
    shards = np.uint64(len(row_ends))
    for key in range(len(hashes)):
        shard = np.int64(hashes[key] % shards)
        places[key] = shard << LOCAL_BITS | key_ends[shard]
        key_ends[shard] += 1
    for row in range(len(key_of_row)):
        key = key_of_row[row]
        if key >= 0 and enters[row]:
            row_ends[places[key] >> LOCAL_BITS] += 1
    to_begins(row_ends)
    to_begins(key_ends)
    for key in range(len(hashes)):
        shard = places[key] >> LOCAL_BITS
        keys[key_ends[shard]] = key
        key_ends[shard] += 1
    for row in range(len(key_of_row)):
        key = key_of_row[row]
        if key >= 0 and enters[row]:
            shard = places[key] >> LOCAL_BITS
            at = row_ends[shard]
            rows[at] = row
            key_index[at] = places[key] & LOCAL_MASK
            row_ends[shard] = at + 1


@inlined
def to_begins(counts: I64) -> None:
    """From how many each has to where each begins, which moves to its end as it is filled."""
    at: Any = 0
    for number in range(len(counts)):
        count = counts[number]
        counts[number] = at
        at += count
