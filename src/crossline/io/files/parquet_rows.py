"""Parquet files in pieces: how their rows are cut, and rows read forwards.

A row counts as so many bytes, which stand in the list with each piece: so pieces of tables and of text are weighed
alike. Groups of rows may be large; a process that reads the pieces of a file in order reads each group once.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from itertools import accumulate, chain
from typing import Any, BinaryIO

from crossline.basics.errors import SourceError
from crossline.io.chunks import ChunkRef
from crossline.io.files.forward_readers import ForwardReaders
from crossline.io.files.identity import open_chunk

COLUMN_BYTES = 16  # what a value counts for at least: a column of few values takes nearly nothing in the file
BATCH_ROWS = 1 << 16


def table_size(file: BinaryIO) -> tuple[int, int]:
    """How many rows a file has, and what one of them counts for; no rows where it cannot be read as Parquet."""
    # Named, not imported: who reads no such file need not load it.
    arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    try:
        file.seek(0)
        footer = parquet.read_metadata(arrow.PythonFile(file, "r"))
        size = sum(footer.row_group(number).total_byte_size for number in range(footer.num_row_groups))
        return footer.num_rows, max(1, COLUMN_BYTES * footer.num_columns, size // max(1, footer.num_rows))
    except (OSError, ValueError, arrow.ArrowException) as error:
        if isinstance(error, OSError) and error.errno is not None:  # the disk, not what is on it
            raise
        return 0, 1


def group_ends(chunk: ChunkRef) -> list[int]:
    """The row behind the last one of each group of rows in the file of a piece; none where it cannot be read now."""
    parquet = import_module("pyarrow.parquet")
    try:
        with open_chunk(chunk) as file:
            footer = parquet.read_metadata(file)
    except (OSError, ValueError, SourceError, import_module("pyarrow").ArrowException):
        return []  # who reads the piece says so
    return list(accumulate(footer.row_group(number).num_rows for number in range(footer.num_row_groups)))


def rows_between(chunk: ChunkRef) -> tuple[int, int]:
    """The first row of a piece of a table, and the one behind its last."""
    each = chunk.row_bytes or 1
    return chunk.start // each, chunk.end // each


class _Rows:
    """The rows of an opened file from a group of rows on; ``at``: the next one. It closes the file."""

    def __init__(self, file: BinaryIO, first: int) -> None:
        self._file = file
        table = import_module("pyarrow.parquet").ParquetFile(file)
        self._count = table.metadata.num_rows
        sizes = [table.metadata.row_group(number).num_rows for number in range(table.num_row_groups)]
        skipped = 0
        while skipped < len(sizes) and sum(sizes[: skipped + 1]) <= first:
            skipped += 1
        self.at = sum(sizes[:skipped])
        # No batch reaches over the end of a group: which rows a damaged one takes along is then the same for who begins
        # anywhere.
        groups = (table.iter_batches(batch_size=BATCH_ROWS, row_groups=[each]) for each in range(skipped, len(sizes)))
        self._batches: Iterator[Any] = chain.from_iterable(groups)
        self._schema = table.schema_arrow
        self._rest: Any = None

    def read(self, first: int, end: int) -> Any:
        """Rows [``first``, ``end``) as a table."""
        arrow = import_module("pyarrow")
        pieces = []
        while self.at < end:
            batch = self._rest if self._rest is not None else next(self._batches, None)
            if batch is None:
                raise ValueError(f"the rows end at row {self.at}, expected {self._count} of them")
            skip = min(len(batch), max(0, first - self.at))
            piece = batch.slice(skip, end - self.at - skip)
            used = skip + len(piece)
            self._rest = batch.slice(used) if used < len(batch) else None
            self.at += used
            if len(piece):
                pieces.append(piece)
        return arrow.Table.from_batches(pieces, pieces[0].schema if pieces else self._schema)

    @property
    def ended(self) -> bool:
        """Whether all rows were read."""
        return bool(self.at >= self._count)

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()


FORWARD_READERS: ForwardReaders[_Rows] = ForwardReaders()


def read_rows(chunk: ChunkRef) -> Any:
    """The rows of ``chunk`` as an Arrow table.

    Raises SourceError where no file has them; OSError, ValueError or an error of Arrow where its bytes are no table.
    """
    first, end = rows_between(chunk)
    key = (chunk.path, chunk.packed, chunk.head, chunk.tail)
    rows = FORWARD_READERS.take(key, first) or _opened(chunk, first)
    try:
        table = rows.read(first, end)
    except BaseException:
        rows.close()
        raise
    FORWARD_READERS.keep(key, rows)
    return table


def _opened(chunk: ChunkRef, first: int) -> _Rows:
    file = open_chunk(chunk)
    try:
        return _Rows(file, first)
    except BaseException:
        file.close()
        raise
