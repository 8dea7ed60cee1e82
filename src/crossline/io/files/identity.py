"""File identity: by the first bytes of a file, and by those before the position it was read to.

Rotation moves names from file to file, and inodes are reused. A file with both pieces of content is the same file, or a
copy, which serves as well.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from xxhash import xxh64_hexdigest

from crossline.basics.errors import SourceError
from crossline.io.chunks import ChunkRef
from crossline.io.files.patterns import entries

PIECE = 256  # bytes of a file at each end by which it is known


def head_at(file: BinaryIO, end: int) -> str:
    """The digest of the first bytes of a file that was read up to ``end``."""
    return xxh64_hexdigest(os.pread(file.fileno(), min(PIECE, end), 0))


def tail_at(file: BinaryIO, end: int) -> str:
    """The digest of the bytes before ``end``."""
    size = min(PIECE, end)
    return xxh64_hexdigest(os.pread(file.fileno(), size, end - size))


def has(file: BinaryIO, end: int, head: str | None, tail: str | None) -> bool:
    """Whether the file has ``head`` and ``tail`` at ``end``; without digests, whether it is long enough."""
    if os.fstat(file.fileno()).st_size < end:
        return False
    return head is None or (head == head_at(file, end) and tail == tail_at(file, end))


def open_chunk(chunk: ChunkRef) -> BinaryIO:
    """The file that has the bytes of ``chunk``: under its name, or under any other in the same folder.

    Raises:
        SourceError: there is none.
    """
    for path in _places(chunk):
        try:
            file = Path(path).open("rb")  # noqa: SIM115 - the caller's to close
        except OSError:
            continue
        try:
            fits = has(file, chunk.stands_to, chunk.head, chunk.tail)
        except OSError:
            fits = False
        if fits:
            return file
        file.close()
    raise SourceError(_missing(chunk))


def _places(chunk: ChunkRef) -> Iterator[str]:
    yield chunk.path
    if chunk.head is not None:
        yield from sorted(path for path, _ in entries(str(Path(chunk.path).parent), lambda *_: None))


def _missing(chunk: ChunkRef) -> str:
    path, start, end = chunk.path, 0 if chunk.packed is not None else chunk.start, chunk.stands_to
    try:
        with Path(path).open("rb") as file:
            size = os.fstat(file.fileno()).st_size
    except OSError as error:
        return (
            f"{path}: cannot read bytes {start}-{end}: {error.strerror}; put the file back, the run goes on from there"
        )
    if size < end:
        return f"{path}: {size} bytes, expected at least {end}; the file was truncated after it was read"
    return (
        f"{path}: bytes {start}-{end} are not those that were read before, and no file in its folder has them; "
        "put the file back under any name there, the run goes on from there"
    )


def read_chunk(chunk: ChunkRef) -> bytes:
    """The bytes of ``chunk``. Raises SourceError where no file has them."""
    with open_chunk(chunk) as file:
        return read_span(file, chunk, chunk.start)


def read_span(file: BinaryIO, chunk: ChunkRef, start: int) -> bytes:
    """Bytes from ``start`` to the end of ``chunk`` of its opened file. Raises SourceError where they are gone."""
    file.seek(start)
    data = file.read(chunk.end - start)
    if len(data) < chunk.end - start:
        raise SourceError(
            f"{chunk.path}: {start + len(data)} bytes, expected at least {chunk.end}; "
            "the file was truncated after it was read"
        )
    return data
