"""Compressed files (gzip, zstd): their text is read forwards only, and cut at line ends.

Positions are those of the text. A file is known as compressed by its first bytes, whatever its name is.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib import import_module
from typing import Any, BinaryIO, Literal

from crossline.basics.errors import SourceError
from crossline.io.chunks import ChunkRef
from crossline.io.files.forward_readers import ForwardReaders
from crossline.io.files.identity import open_chunk

Packing = Literal["gzip", "zstd"]

MAGIC: dict[bytes, Packing] = {
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    # Frames of zstd that readers pass over; pzstd and seekable archives begin with one.
    **{bytes([first, 0x2A, 0x4D, 0x18]): "zstd" for first in range(0x50, 0x60)},
}
PIECE = 1 << 20


class PackedError(Exception):
    """The archive is truncated (``short``) or damaged."""

    def __init__(self, text: str, *, short: bool) -> None:
        super().__init__(text)
        self.short = short


def packing_of(file: BinaryIO) -> Packing | None:
    """The compression of a file; None where it is not compressed."""
    first = os.pread(file.fileno(), max(map(len, MAGIC)), 0)
    return next((packing for magic, packing in MAGIC.items() if first.startswith(magic)), None)


class PackedText:
    """The text of an open file, from its start; ``at``: the position in the text. Closes the file."""

    def __init__(self, file: BinaryIO) -> None:
        packing = packing_of(file)
        if packing is None:
            raise PackedError("the file does not begin as gzip and zstd do", short=False)
        # Named, not imported: who reads no compressed file need not load it.
        arrow = import_module("pyarrow")
        file.seek(0)
        self._file = file
        self._stream: Any = arrow.CompressedInputStream(arrow.PythonFile(file, "r"), packing)
        self._ahead = b""
        self.at = 0

    def read(self, size: int) -> bytes:
        """The next ``size`` bytes of text, fewer at its end. Raises PackedError where the archive is not whole."""
        pieces = [self._ahead[:size]]
        self._ahead = self._ahead[size:]
        left = size - len(pieces[0])
        while left and (data := self._next(left)):
            pieces.append(data)
            left -= len(data)
        text = b"".join(pieces)
        self.at += len(text)
        return text

    def _next(self, size: int) -> bytes:
        try:
            return bytes(self._stream.read(min(size, PIECE)))
        except OSError as error:
            if error.errno is not None:  # the disk, not what is on it
                raise
            short = "truncated" in str(error).lower()
            raise PackedError("the bytes end before the archive does" if short else str(error), short=short) from None

    def skip(self, to: int) -> None:
        """Go on to byte ``to`` of the text."""
        while self.at < to and self.read(min(PIECE, to - self.at)):
            pass

    @property
    def ended(self) -> bool:
        """Whether all of the text was read."""
        if not self._ahead:
            self._ahead = self._next(1)
        return not self._ahead

    def close(self) -> None:
        """Let go of the file."""
        self._stream.close()
        self._file.close()


def packed_cuts(text: PackedText, start: int, chunk_bytes: int) -> Iterator[int]:
    """The ends of chunks of about ``chunk_bytes`` from byte ``start`` of the text on, each the end of a line.

    What is compressed is finished: a last line counts without an end. Raises PackedError where it is not whole.
    """
    text.skip(start)
    cut, goal = start, start + chunk_bytes
    while data := text.read(PIECE):
        begin = text.at - len(data)
        while (found := data.find(b"\n", max(0, goal - 1 - begin))) >= 0:
            cut = begin + found + 1
            goal = cut + chunk_bytes
            yield cut
    if text.at > cut:
        yield text.at


FORWARD_READERS: ForwardReaders[PackedText] = ForwardReaders()


def read_packed(chunk: ChunkRef) -> bytes:
    """The text of ``chunk``.

    A process that reads the chunks of a file in their order decompresses it once; for one before those that it has
    read it begins anew. Raises SourceError where no file has those bytes.
    """
    key = (chunk.path, chunk.packed, chunk.head, chunk.tail)
    text = FORWARD_READERS.take(key, chunk.start) or PackedText(open_chunk(chunk))
    try:
        text.skip(chunk.start)
        data = text.read(chunk.end - chunk.start)
        FORWARD_READERS.keep(key, text)
    except PackedError as error:
        text.close()
        raise SourceError(f"{chunk.path}: cannot be decompressed any more: {error}; restore the file") from None
    except BaseException:
        text.close()
        raise
    if len(data) < chunk.end - chunk.start:
        raise SourceError(f"{chunk.path}: its text ends before byte {chunk.end}, which was read; restore the file")
    return data
