"""Files that are not JSON lines, decoded chunk by chunk."""

from __future__ import annotations

from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from crossline.connectors.chunks import ChunkRef
from crossline.connectors.files.identity import open_chunk, read_chunk, read_span
from crossline.core.decode import Decoded, Layout, decode_csv, decode_lines, decode_table
from crossline.core.errors import SourceError


def decode_chunk(form: str, layout: Layout, chunk: ChunkRef) -> Decoded:
    """The records of a chunk: of JSON lines, of a CSV file, whose first line names the columns, of a Parquet file."""
    if form == "json":
        data = read_chunk(chunk)
        return decode_lines(layout, data, chunk.place, chunk.start, known_ms=chunk.listed_ms)
    if form == "parquet":
        return _decode_parquet(layout, chunk)
    with open_chunk(chunk) as file:
        header, first = _csv_header(file)
        begin = max(chunk.start, first)
        data = read_span(file, chunk, begin) if chunk.end > begin else b""
    return decode_csv(layout, header, data, chunk.place, begin, known_ms=chunk.listed_ms)


def _decode_parquet(layout: Layout, chunk: ChunkRef) -> Decoded:
    try:
        table = pq.read_table(pa.BufferReader(read_chunk(chunk)))
    except (OSError, ValueError) as error:
        raise SourceError(f"{chunk.path}: not a Parquet file that can be read: {error}") from error
    offsets = np.arange(table.num_rows, dtype=np.int64)
    return decode_table(layout, table, chunk.place, offsets, known_ms=chunk.listed_ms)


def _csv_header(file: BinaryIO) -> tuple[list[str], int]:
    """The column names of a CSV file, and where its first record starts."""
    file.seek(0)
    line = file.readline()
    names = line.decode("utf-8-sig", errors="replace").rstrip("\r\n").split(",")
    return [name.strip().strip('"') for name in names], len(line)
