"""Files that are not JSON lines, decoded chunk by chunk."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from crossline.basics.deadletter import DeadLetter
from crossline.basics.texts.problems import listed
from crossline.basics.texts.separators import header_text
from crossline.ingest.decode import Decoded, RecordLayout, decode_csv, decode_lines, decode_table
from crossline.ingest.decode.spans import RAW_KEPT
from crossline.io.chunks import ChunkRef
from crossline.io.files.identity import open_chunk, read_chunk
from crossline.io.files.parquet_rows import read_rows, rows_between
from crossline.io.files.text import csv_header, read_text


def decode_chunk(form: str, layout: RecordLayout, chunk: ChunkRef) -> Decoded:
    """The records of a chunk: of JSON lines, of a CSV file, whose first line names the columns, of a Parquet file."""
    if chunk.fault is not None:
        return _broken_archive(layout, chunk)
    if form == "json":
        data = read_text(chunk)
        return decode_lines(layout, data, chunk.place, chunk.start, known_ms=chunk.listed_ms)
    if form == "parquet":
        return _decode_parquet(layout, chunk)
    header, first = csv_header(chunk)
    begin, data = max(chunk.start, first), read_text(chunk)
    if begin > chunk.start:
        data = data[begin - chunk.start :]
    return _with_header(layout, header, decode_csv(layout, header, data, chunk.place, begin, known_ms=chunk.listed_ms))


def _with_header(layout: RecordLayout, header: list[str], decoded: Decoded) -> Decoded:
    """The same; where the header lacks a field that every record needs, its letters say what it has."""
    if layout.tokens is not None:  # a file without a header has values in its first line
        return decoded
    lacking = [each.name for each in layout.columns if not each.spec.optional and each.name not in header]
    if not lacking:
        return decoded
    declared = [each.name for each in layout.columns]
    text = f"the header has no {listed(lacking)}: {header_text(header, lacking, declared)}"
    lines = (
        replace(letter, detail=f"{letter.detail}; {text}") if letter.reason == "missing_field" else letter
        for letter in decoded.dead
    )
    return Decoded(decoded.records, list(lines))


def _broken_archive(layout: RecordLayout, chunk: ChunkRef) -> Decoded:
    """No record, and one dead letter for a compressed file whose content is unknown."""
    with open_chunk(chunk) as file:
        raw = file.read(RAW_KEPT)
    letter = DeadLetter(
        stream=layout.stream,
        reason="malformed_archive",
        detail=f"{chunk.path}: found {chunk.packed} bytes, expected a whole gzip or zstd archive: {chunk.fault}",
        partition=chunk.place,
        offset=chunk.start,
        raw=raw,
    )
    nothing = decode_lines(layout, b"", chunk.place, chunk.start, known_ms=chunk.listed_ms)
    return Decoded(nothing.records, _letters(layout, [letter]))


def _decode_parquet(layout: RecordLayout, chunk: ChunkRef) -> Decoded:
    """The rows of a chunk; one dead letter where its bytes are there and are no table."""
    import pyarrow.parquet as pq  # noqa: PLC0415 - for files of it alone

    data = read_chunk(chunk) if chunk.row_bytes is None else b""
    table, dead = pa.table({}), []
    try:
        read = read_rows(chunk) if chunk.row_bytes is not None else pq.read_table(pa.BufferReader(data))
        table = read.rename_columns(read.column_names)  # a name that is no text is found out here
    except (MemoryError, pa.ArrowCancelled):
        raise  # not the file's fault
    except (OSError, ValueError, pa.ArrowException) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # the disk's
        dead.append(_not_parquet(layout, chunk, error))
    first = 0 if chunk.row_bytes is None else rows_between(chunk)[0]
    offsets = np.arange(first, first + table.num_rows, dtype=np.int64)
    decoded = decode_table(layout, table, chunk.place, offsets, known_ms=chunk.listed_ms)
    return Decoded(decoded.records, _letters(layout, dead) + decoded.dead)


def _letters(layout: RecordLayout, letters: list[DeadLetter]) -> list[DeadLetter]:
    return letters if layout.tokens is None else layout.tokens.letters(letters)


def _not_parquet(layout: RecordLayout, chunk: ChunkRef, error: Exception) -> DeadLetter:
    what = "a Parquet file that can be read"
    first = 0
    if chunk.row_bytes is not None:
        first, end = rows_between(chunk)
        what = f"{what}, of which rows {first}-{end} are missing now"
    with open_chunk(chunk) as file:
        raw = file.read(RAW_KEPT)
    return DeadLetter(
        stream=layout.stream,
        reason="malformed_parquet",
        detail=f"{chunk.path}: found {chunk.stands_to} bytes, expected {what}: {error}",
        partition=chunk.place,
        offset=first,
        raw=raw,
    )
