"""Rows of records in the order of their logs, cut into runs of one log and chunk each, as intakes take them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from crossline.lake.table_layouts import LOG, POSITION, SEQUENCE
from crossline.runtime.sources.intake import StreamIntake


def in_log_order(rows: pa.Table) -> pa.Table | None:
    """``rows`` by chunk, log and position; None: there are none."""
    if not len(rows):
        return None
    return rows.sort_by([(SEQUENCE, "ascending"), (LOG, "ascending"), (POSITION, "ascending")]).combine_chunks()


def runs_of(rows: pa.Table) -> list[tuple[int, int]]:
    """The runs of rows, each of one log and chunk, as [start, end)."""
    logs = np.asarray(rows.column(LOG).combine_chunks().dictionary_encode().indices)
    sequences = np.asarray(rows.column(SEQUENCE).combine_chunks().fill_null(-1))
    changes = np.flatnonzero((np.diff(logs) != 0) | (np.diff(sequences) != 0)) + 1
    return list(itertools.pairwise([0, *changes.tolist(), len(rows)]))


def marked_runs(stream: str, rows: pa.Table) -> Iterator[pa.RecordBatch]:
    """The runs of ``rows``, which are in the order of their logs, as batches of ``stream``."""
    for start, end in runs_of(rows):
        run = rows.slice(start, end - start).combine_chunks()
        (batch,) = run.to_batches() or [pa.RecordBatch.from_pylist([], schema=rows.schema)]
        yield StreamIntake.marked(stream, batch)
