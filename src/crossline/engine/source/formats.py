"""Files that are not JSON lines, decoded chunk by chunk."""

from __future__ import annotations

from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from crossline.connectors.chunks import ChunkRef
from crossline.connectors.files.identity import open_chunk, read_chunk, read_span
from crossline.core.basics.deadletter import DeadLetter
from crossline.core.decode import Decoded, Layout, decode_csv, decode_lines, decode_table
from crossline.core.decode.spans import RAW_KEPT


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
    """The rows of a file; one dead letter where its bytes are there and are no table."""
    data = read_chunk(chunk)
    table, dead = pa.table({}), []
    try:
        read = pq.read_table(pa.BufferReader(data))
        table = read.rename_columns(read.column_names)  # a name that is no text is found out here
    except (MemoryError, pa.ArrowCancelled):
        raise  # not the file's fault
    except (OSError, ValueError, pa.ArrowException) as error:
        dead.append(_not_parquet(layout, chunk, data, error))
    offsets = np.arange(table.num_rows, dtype=np.int64)
    decoded = decode_table(layout, table, chunk.place, offsets, known_ms=chunk.listed_ms)
    return Decoded(decoded.records, dead + decoded.dead)


def _not_parquet(layout: Layout, chunk: ChunkRef, data: bytes, error: Exception) -> DeadLetter:
    return DeadLetter(
        stream=layout.stream,
        reason="malformed_parquet",
        detail=f"{chunk.path}: found {len(data)} bytes, expected a Parquet file that can be read: {error}",
        partition=chunk.place,
        offset=0,
        raw=data[:RAW_KEPT],
    )


def _csv_header(file: BinaryIO) -> tuple[list[str], int]:
    """The column names of a CSV file, and where its first record starts."""
    file.seek(0)
    line = file.readline()
    names = line.decode("utf-8-sig", errors="replace").rstrip("\r\n").split(",")
    return [name.strip().strip('"') for name in names], len(line)
