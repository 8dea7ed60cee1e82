"""The rows of a state store by shard: each array is put into their order once, and a shard has a piece of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from crossline.basics.values import I32, I64, Records
from crossline.basics.wire import Arrays
from crossline.ingest.decode.keys.shares import share_out
from crossline.ingest.route.key_rows import Rows
from crossline.ingest.route.texts import Encoded, bytes_of, gathered, read_only

Array = TypeVar("Array", bound=npt.NDArray[Any])


@dataclass(frozen=True, slots=True)
class Shares:
    """Rows and keys by shard.

    ``rows``: ascending within a shard, whose rows end before ``ends[shard]``; ``of``: their records; ``key_index``: of
    each the number of its key among those of the shard. ``keys``: the numbers of keys, whose shards end before
    ``key_ends[shard]``. ``every``: the rows are all records, as they stand.
    """

    rows: I64
    of: I64
    ends: I64
    key_index: I32
    keys: I64
    key_ends: I64
    every: bool

    def taken(self, array: Array) -> Array:
        """``array``, which has an item for each record, as the rows stand."""
        return array if self.every else taken(array, self.of)


def shared_out(entering: Rows, wanted: npt.NDArray[np.bool_], shards: int) -> Shares:
    """The ``wanted`` rows by the shards of their keys."""
    keys = entering.keys
    count, distinct = len(keys.rows), len(keys.hashes)
    places, of_keys, key_ends = np.empty(distinct, np.int64), np.empty(distinct, np.int64), np.empty(shards, np.int64)
    rows, key_index, ends = np.empty(count, np.int64), np.empty(count, np.int32), np.empty(shards, np.int64)
    given = (read_only(keys.rows), read_only(wanted.view(np.uint8)), read_only(keys.hashes))
    share_out(*given, places, of_keys, key_ends, rows, key_index, ends)
    total = int(ends[-1])
    rows = rows[:total]
    every = shards == 1 and total == count and entering.records is None
    return Shares(rows, entering.of(rows), ends, key_index[:total], of_keys, key_ends, every)


def arrays_by_shard(
    shares: Shares, entering: Rows, records: Records, times: Mapping[str, I64], columns: Sequence[Any]
) -> list[Arrays]:
    """What the rows of each shard are; ``columns``: n numbers each, or texts by their distinct values."""
    keys, taken_of = entering.keys, shares.taken
    by_row: Arrays = {"event_ms": taken_of(records.event_ms), **{name: taken_of(each) for name, each in times.items()}}
    by_row |= {"offsets": taken_of(records.offsets), "key_index": shares.key_index}
    key_hash = taken(keys.hashes, shares.keys)
    bits = entering.bits if shares.every else taken(entering.bits, shares.rows)
    values = [taken_of(each.codes if isinstance(each, Encoded) else each) for each in columns]
    alone = len(shares.key_ends) == 1
    key_texts = [bytes_of(keys.values)] if alone else gathered(keys.values, shares.keys, shares.key_ends)
    repeated = entering.records is not None
    ids = records.ids
    id_texts = [bytes_of(ids)] if shares.every else gathered(ids, shares.of, shares.ends, repeated=repeated)
    found: list[Arrays] = []
    for shard, (mine, my_keys) in enumerate(zip(pieces(shares.ends), pieces(shares.key_ends), strict=True)):
        arrays: Arrays = {name: each[mine] for name, each in by_row.items()}
        arrays["key_bytes"], arrays["key_offsets"] = key_texts[shard]
        arrays["key_hash"] = key_hash[my_keys]
        arrays["id_bytes"], arrays["id_offsets"] = id_texts[shard]
        arrays["bits"] = bits[mine]
        for number, (column, each) in enumerate(zip(columns, values, strict=True)):
            if isinstance(column, Encoded):
                arrays |= _texts(number, column.values, each[mine])
            else:
                arrays[f"value{number}"] = each[mine]
        found.append(arrays)
    return found


def _texts(number: int, values: pa.Array, codes: I32) -> Arrays:
    """Column ``number`` of the rows as numbers of texts, and those of the texts that they use."""
    used = np.zeros(len(values), np.bool_)
    used[codes] = True
    text_bytes, text_offsets = bytes_of(values.filter(pa.array(used)))
    local = np.cumsum(used, dtype=np.int32) - np.int32(1)
    return {
        f"value{number}": local.take(codes),
        f"text{number}_bytes": text_bytes,
        f"text{number}_offsets": text_offsets,
    }


def pieces(ends: I64) -> list[slice]:
    """Each piece of what ends before ``ends``."""
    bounds = [0, *ends.tolist()]
    return [slice(start, end) for start, end in pairwise(bounds)]


def taken(array: Array, places: I64) -> Array:
    """``array[places]``, in less time."""
    if array.ndim > 1 and array.shape[1] == 1:
        found: Any = array.reshape(-1).take(places).reshape(-1, 1)
    else:
        found = array.take(places, axis=0)
    return cast("Array", found)
