"""Reads Parquet files backwards, to search for records."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from crossline.backtest.record_search import SourceRecord
from crossline.backtest.reverse_readers import ReverseFileReader
from crossline.basics.errors import SourceError
from crossline.io.chunks import ChunkRef
from crossline.io.files.identity import open_chunk
from crossline.io.files.parquet_rows import rows_between


class ReverseParquetReader(ReverseFileReader):
    """Reads chunks of Parquet files backwards, a row group at a time. An offset is the number of a row in its file."""

    def _has(self, chunk: ChunkRef, offset: int) -> bool:
        first, end = rows_between(chunk)
        return chunk.row_bytes is None or first <= offset < end

    def _of(self, chunk: ChunkRef, ids: Collection[str], last: int | None) -> Iterator[SourceRecord]:
        """Rows that have one of ``ids``."""
        try:
            with open_chunk(chunk) as file:
                table = pq.ParquetFile(file)
                first, end = (0, table.metadata.num_rows) if chunk.row_bytes is None else rows_between(chunk)
                yield from self._rows(table, chunk.place, ids, range(first, end if last is None else last + 1))
        except (ValueError, KeyError, pa.ArrowException) as error:
            raise SourceError(f"{chunk.path}: cannot be read: {error}") from None

    def _rows(self, table: pq.ParquetFile, place: str, ids: Collection[str], wanted: range) -> Iterator[SourceRecord]:
        sizes = [table.metadata.row_group(number).num_rows for number in range(table.num_row_groups)]
        for number in reversed(range(len(sizes))):
            before = sum(sizes[:number])
            if before >= wanted.stop or before + sizes[number] <= wanted.start:
                continue
            group = table.read_row_group(number)
            texts = _column(group, self._spec.id).cast(pa.string())
            mine = pc.is_in(texts, pa.array(list(ids), pa.string()))
            for at in reversed(pc.indices_nonzero(mine).to_pylist()):
                if before + at in wanted:
                    (fields,) = group.slice(at, 1).to_pylist()
                    yield SourceRecord(place, before + at, fields)


def _column(table: pa.Table, name: str) -> Any:
    """A column by its name, or by that of a field within structs."""
    if name in table.column_names:
        return table.column(name)
    top, *path = name.split(".")
    return pc.struct_field(table.column(top), path)
