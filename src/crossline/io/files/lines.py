"""Finds line ends, and treats a last line without one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, Literal

import orjson

# What becomes of a last line without an end: it waits for its end; it counts if it is a whole JSON document, which
# nothing that follows could go on with; it counts, as nothing will follow.
Unended = Literal["waits", "document", "counts"]

BLOCK = 1 << 16
DOCUMENT_MAX = 1 << 20
PARQUET_MAGIC = b"PAR1"
# The shortest Parquet file: the magic, the size of the footer in 4 bytes, little-endian, and the magic again.
PARQUET_MIN = 12


def cuts(file: BinaryIO, start: int, size: int, chunk_bytes: int, unended: Unended) -> Iterator[int]:
    """The ends of chunks of about ``chunk_bytes`` from ``start`` on, each the end of a line."""
    while start < size:
        end = _line_end(file, min(start + chunk_bytes, size), size)
        if end is None:
            last = _last_line_start(file, start, size)
            end = size if _counts(file, last, size, unended) else last
        if end <= start:
            return
        yield end
        start = end


def is_whole(file: BinaryIO, size: int) -> bool:
    """Whether a Parquet file has its footer, which is written last."""
    if size < PARQUET_MIN:
        return False
    file.seek(0)
    first = file.read(4)
    file.seek(size - 8)
    last = file.read(8)
    return first == last[4:] == PARQUET_MAGIC and int.from_bytes(last[:4], "little") + PARQUET_MIN <= size


def _counts(file: BinaryIO, start: int, size: int, unended: Unended) -> bool:
    if unended != "document" or size - start > DOCUMENT_MAX:
        return unended == "counts"
    file.seek(start)
    try:
        return isinstance(orjson.loads(file.read(size - start)), dict)
    except orjson.JSONDecodeError:
        return False


def _line_end(file: BinaryIO, position: int, size: int) -> int | None:
    """The end of the line that contains the byte before ``position``; None where it has none."""
    at = position - 1
    while at < size:
        file.seek(at)
        data = file.read(min(BLOCK, size - at))
        found = data.find(b"\n")
        if found >= 0:
            return at + found + 1
        at += len(data) or BLOCK
    return None


def _last_line_start(file: BinaryIO, first: int, size: int) -> int:
    """Where the last line before ``size`` begins; ``first`` where it begins before that."""
    at = size
    while at > first:
        begin = max(first, at - BLOCK)
        file.seek(begin)
        found = file.read(at - begin).rfind(b"\n")
        if found >= 0:
            return begin + found + 1
        at = begin
    return first
