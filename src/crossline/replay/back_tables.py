"""Parquet files read backwards, for records that are looked for."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from crossline.connectors.chunks import ChunkRef
from crossline.connectors.files.identity import open_chunk
from crossline.core.basics.errors import SourceError
from crossline.replay.back import FilesBack
from crossline.replay.records import Row


class TablesBack(FilesBack):
    """Chunks that are whole Parquet files, a group of rows at a time; an offset is the number of a row in its file."""

    def _has(self, chunk: ChunkRef, offset: int) -> bool:  # noqa: ARG002 - a file is one chunk
        return True

    def _of(self, chunk: ChunkRef, ids: Collection[str], last: int | None) -> Iterator[Row]:
        """Rows that have one of ``ids``."""
        try:
            with open_chunk(chunk) as file:
                yield from self._rows(pq.ParquetFile(file), chunk.place, ids, last)
        except (ValueError, KeyError, pa.ArrowException) as error:
            raise SourceError(f"{chunk.path}: cannot be read: {error}") from None

    def _rows(self, table: pq.ParquetFile, place: str, ids: Collection[str], last: int | None) -> Iterator[Row]:
        sizes = [table.metadata.row_group(number).num_rows for number in range(table.num_row_groups)]
        for number in reversed(range(len(sizes))):
            before = sum(sizes[:number])
            if last is not None and before > last:
                continue
            group = table.read_row_group(number)
            texts = _column(group, self._spec.id).cast(pa.string())
            mine = pc.is_in(texts, pa.array(list(ids), pa.string()))
            for at in reversed(pc.indices_nonzero(mine).to_pylist()):
                if last is None or before + at <= last:
                    (fields,) = group.slice(at, 1).to_pylist()
                    yield Row(place, before + at, fields)


def _column(table: pa.Table, name: str) -> Any:
    """A column by its name, or by that of a field within structs."""
    if name in table.column_names:
        return table.column(name)
    top, *path = name.split(".")
    return pc.struct_field(table.column(top), path)
