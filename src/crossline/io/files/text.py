"""The text of chunks, whether their file is compressed or not."""

from __future__ import annotations

from crossline.basics.errors import SourceError
from crossline.io.chunks import ChunkRef
from crossline.io.files.compression import PackedError, PackedText, packing_of, read_packed
from crossline.io.files.identity import open_chunk, read_chunk


def read_text(chunk: ChunkRef) -> bytes:
    """The lines of ``chunk``. Raises SourceError where no file has them."""
    return read_chunk(chunk) if chunk.packed is None else read_packed(chunk)


def csv_header(chunk: ChunkRef) -> tuple[list[str], int]:
    """The column names of the CSV file that ``chunk`` is of, and where its first record starts.

    Raises SourceError where the file is gone.
    """
    file = open_chunk(chunk)
    try:
        line = file.readline() if packing_of(file) is None else _first_line(PackedText(file))
    except PackedError as error:
        raise SourceError(f"{chunk.path}: cannot be decompressed any more: {error}; restore the file") from None
    finally:
        file.close()
    names = line.decode("utf-8-sig", errors="replace").rstrip("\r\n").split(",")
    return [name.strip().strip('"') for name in names], len(line)


def _first_line(text: PackedText) -> bytes:
    first = text.read(1 << 12)
    while b"\n" not in first and not text.ended:
        first += text.read(1 << 16)
    text.close()
    end = first.find(b"\n") + 1
    return first[:end] if end else first
