"""Rows in files by bucket, so that what does not fit in memory is worked on a bucket at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from crossline.basics.values import I64, U8
from crossline.state.memory.hashing import xxh64_many

BUCKETS_MAX = 256  # open files


def buckets_of(ids: pa.Array, count: int) -> I64:
    """The bucket of each id: int64[n], 0 to ``count`` - 1. Equal ids have equal buckets."""
    if count == 1:
        return np.zeros(len(ids), np.int64)
    texts = ids.cast(pa.string())
    _, offsets, data = texts.buffers()
    spans = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1].astype(np.int64)
    raw: U8 = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    return (xxh64_many(raw, spans) % np.uint64(count)).astype(np.int64)


def bucket_count(rows: int, rows_max: int) -> int:
    """How many buckets ``rows`` take of about ``rows_max`` each."""
    return min(BUCKETS_MAX, max(1, -(-rows // rows_max)))


@dataclass(slots=True)
class Spill:
    """Rows of one schema in a file for each bucket; rows of a bucket keep their order.

    Attributes:
        folder: Where the files are.
        name: The beginning of their names.
        schema: Of the rows.
        count: How many buckets there are.
    """

    folder: Path
    name: str
    schema: pa.Schema
    count: int
    _made: ExitStack = field(default_factory=ExitStack)
    _writers: dict[int, pa.RecordBatchStreamWriter] = field(default_factory=dict)

    def add(self, rows: pa.RecordBatch, buckets: I64) -> None:
        """Append n rows, each to its bucket (int64[n])."""
        if not len(rows):
            return
        order = np.argsort(buckets, kind="stable")
        ordered = rows if self.count == 1 else rows.take(pa.array(order))
        sorted_buckets = buckets[order]
        starts = np.flatnonzero(np.diff(sorted_buckets, prepend=-1)).tolist()
        for start, end in zip(starts, [*starts[1:], len(rows)], strict=True):
            self._writer(int(sorted_buckets[start])).write_batch(ordered.slice(start, end - start))

    def _writer(self, bucket: int) -> pa.RecordBatchStreamWriter:
        if bucket not in self._writers:
            made = pa.ipc.new_stream(str(self._path(bucket)), self.schema)
            self._writers[bucket] = self._made.enter_context(made)
        return self._writers[bucket]

    def close(self) -> None:
        """End the files; rows can be read then."""
        self._made.close()

    def read(self, bucket: int) -> pa.Table:
        """The rows of a bucket."""
        if bucket not in self._writers:
            return self.schema.empty_table()
        with pa.memory_map(str(self._path(bucket))) as source, pa.ipc.open_stream(source) as found:
            return found.read_all().combine_chunks()

    def buckets(self) -> Iterator[tuple[int, pa.Table]]:
        """The buckets that have rows, and their rows; each file is deleted once its rows are used."""
        self.close()
        for bucket in sorted(self._writers):
            yield bucket, self.read(bucket)
            self._path(bucket).unlink()

    def _path(self, bucket: int) -> Path:
        return self.folder / f"{self.name}-{bucket:03d}.arrow"
