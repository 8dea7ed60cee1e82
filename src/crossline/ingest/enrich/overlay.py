"""Changes to a table since its content was written whole: rows put and deleted, each from an instant.

A table of a million rows of which a hundred change each second is not written anew each second: the content stays, and
the changes lie over it. Looking up costs one look more, however many changes there were.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from crossline.basics.conditions.lists import starts_ms
from crossline.basics.times import BEGINNING_MS
from crossline.basics.values import I64
from crossline.ingest.enrich.messages import GONE
from crossline.ingest.enrich.table import FIELD, FROM, HASH, KEY, U64, Table, row_order

CHANGE = "change"  # the number of the change that a row is of
_BEGINS = "begins."  # and by stream, from which ingest time on it holds


def overlaid(rows: pa.Table, begins: Sequence[Mapping[str, int]], streams: Sequence[str]) -> pa.Table:
    """``rows`` of changes (each with its number), as ``Overlay`` reads them: by key, the later the further behind.

    ``begins``: of each change, by stream, the ingest time from which it holds; else from the beginning.
    """
    keys = rows.column(KEY).combine_chunks().dictionary_encode()
    codes = _one(keys).indices.to_numpy(zero_copy_only=False).astype(np.int64)
    change = rows.column(CHANGE).to_numpy()
    order = row_order(rows.column(HASH).to_numpy(), codes, change)
    sorted_rows = rows.take(pa.array(order)).combine_chunks()
    for stream in streams:
        # The first one is that of a table which has a content before, so it begins when it reports it.
        instants = np.array(starts_ms([{}, *begins], stream)[1:], np.int64)
        sorted_rows = sorted_rows.append_column(f"{_BEGINS}{stream}", pa.array(instants[change[order]], pa.int64()))
    return sorted_rows.drop_columns([CHANGE])


class Overlay:
    """``rows``: as ``overlaid`` made them; as they hold for records of ``stream``."""

    def __init__(self, rows: pa.Table, stream: str) -> None:
        instants = _one(rows.column(f"{_BEGINS}{stream}")) if f"{_BEGINS}{stream}" in rows.column_names else None
        if instants is None:  # no record of this stream had come
            instants = pa.array(np.full(rows.num_rows, BEGINNING_MS, np.int64))
        fields = {name: rows.column(name) for name in rows.column_names if name.startswith(FIELD)}
        self.table = Table(pa.table({HASH: rows.column(HASH), KEY: rows.column(KEY), FROM: instants, **fields}))
        self._gone: npt.NDArray[np.bool_] = np.asarray(_one(rows.column(GONE)))

    def over(
        self, base: tuple[I64, I64, I64], hashes: U64, keys: pa.Array, start_ms: int, first_ms: int, last_ms: int
    ) -> tuple[I64, I64, I64, npt.NDArray[np.bool_]]:
        """The points of ``base`` and those over them, as of ``Table.points``, and which of them are rows of this."""
        at, starts, rows = base
        found = self.table.find(hashes, keys)
        changed = np.flatnonzero(found >= 0)
        if not len(changed):
            return at, starts, rows, np.zeros(len(at), np.bool_)
        mine, my_starts, my_rows = self.table.points(found[changed], start_ms, first_ms, last_ms)
        # Where none of them holds at first, what lies beneath does.
        over = my_rows >= 0
        mine, my_starts, my_rows = changed[mine[over]], my_starts[over], my_rows[over]
        since = np.full(len(hashes), np.iinfo(np.int64).max, np.int64)
        np.minimum.at(since, mine, my_starts)
        kept = starts < since[at]
        all_at = np.concatenate([at[kept], mine])
        all_starts = np.concatenate([starts[kept], my_starts])
        all_rows = np.concatenate([rows[kept], np.where(self._gone[my_rows], -1, my_rows)])
        which = np.concatenate([np.zeros(int(kept.sum()), np.bool_), np.ones(len(mine), np.bool_)])
        order = np.lexsort((np.arange(len(all_at)), all_starts, all_at))
        return all_at[order], all_starts[order], all_rows[order], which[order]


def _one(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
