"""References to chunks as rows: what travels to the tasks, which read the bytes themselves."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

import pyarrow as pa

from crossline.io.chunks import ChunkRef

# Paths are bytes: a file's name need not be text.
CHUNK_SCHEMA = (
    "sequence long, path binary, start long, end long, name string, head string, tail string, listed_ms long, "
    "packed long, fault string, row_bytes long"
)
_ARROW = pa.schema(
    [
        *(("sequence", pa.int64()), ("path", pa.binary()), ("start", pa.int64()), ("end", pa.int64())),
        *(("name", pa.string()), ("head", pa.string()), ("tail", pa.string()), ("listed_ms", pa.int64())),
        *(("packed", pa.int64()), ("fault", pa.string()), ("row_bytes", pa.int64())),
    ]
)
_PLAIN = ("sequence", "start", "end", "head", "tail", "listed_ms", "packed", "fault", "row_bytes")
CHUNKS_MAX = 4_096  # of one batch, however small they are


def chunk_rows(chunks: Iterable[ChunkRef]) -> pa.RecordBatch:
    """References as rows of CHUNK_SCHEMA."""
    rows = [
        {
            **{name: getattr(c, name) for name in _PLAIN},
            "path": os.fsencode(c.path),
            "name": c.place,
        }
        for c in chunks
    ]
    return pa.RecordBatch.from_pylist(rows, schema=_ARROW)


def chunks_of(rows: pa.RecordBatch) -> list[ChunkRef]:
    """Inverse of ``chunk_rows``."""
    return [ChunkRef(**{**row, "path": os.fsdecode(row["path"])}) for row in rows.to_pylist()]


def deal_chunks(chunks: Sequence[ChunkRef], tasks: int) -> list[list[ChunkRef]]:
    """Chunks dealt out in runs of about the same size, one run a task; none is empty."""
    tasks = min(len(chunks), tasks)
    runs: list[list[ChunkRef]] = [[] for _ in range(tasks)]
    twice, done = 2 * sum(c.end - c.start for c in chunks), 0
    for chunk in chunks:  # to the task in whose share of the bytes its middle lies
        runs[(2 * done + chunk.end - chunk.start) * tasks // twice].append(chunk)
        done += chunk.end - chunk.start
    return [run for run in runs if run]
