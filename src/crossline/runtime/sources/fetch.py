"""The bytes of records again, for dead letters and late records that were found out after decoding."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence

from crossline.basics.errors import SourceError
from crossline.generate.source import Generator
from crossline.io.chunks import ChunkRef
from crossline.io.files.identity import open_chunk
from crossline.io.files.listing import ChunkList
from crossline.io.files.text import read_text
from crossline.runtime.sources.positions import GENERATED_SHIFT

_LINE_MAX = 1 << 20


class FileFetch:
    """Lines of the files of a chunk list, by the name that positions have; rows of Parquet files are no lines."""

    def __init__(self, form: str, folder: str) -> None:
        self._form = form
        self._list = ChunkList(folder)

    def __call__(self, name: str, offsets: Sequence[int], until_s: float) -> dict[int, bytes]:
        """The lines that start at ``offsets``, without deleted ones and those not read in time."""
        if self._form == "parquet":
            return {}
        self._list.refresh()
        by_chunk: defaultdict[ChunkRef, list[int]] = defaultdict(list)
        for offset in offsets:
            chunk = self._list.find(name, offset)
            if chunk is not None:
                by_chunk[chunk].append(offset)
        found: dict[int, bytes] = {}
        for chunk, mine in by_chunk.items():
            if time.monotonic() < until_s:
                found |= _lines(chunk, mine, until_s)
        return found


def _lines(chunk: ChunkRef, offsets: Sequence[int], until_s: float) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    try:
        if chunk.packed is not None:
            text = read_text(chunk)
            return {at: _line(text, at - chunk.start) for at in offsets}
        with open_chunk(chunk) as file:
            for offset in offsets:
                if time.monotonic() >= until_s:
                    break
                file.seek(offset)
                found[offset] = file.readline(min(_LINE_MAX, chunk.end - offset)).removesuffix(b"\n")
    except (OSError, SourceError):  # the file is gone; what was read of it stays
        return found
    return found


def _line(text: bytes, at: int) -> bytes:
    end = text.find(b"\n", at)
    return text[at : min(end if end >= 0 else len(text), at + _LINE_MAX)]


def fetch_generated(source: Generator, offsets: Sequence[int]) -> dict[int, bytes]:
    """The lines made again; ``offsets`` as ``ChunkIntake`` counts them."""
    by_chunk: defaultdict[int, list[int]] = defaultdict(list)
    for offset in offsets:
        by_chunk[offset >> GENERATED_SHIFT].append(offset & ((1 << GENERATED_SHIFT) - 1))
    found: dict[int, bytes] = {}
    for first, places in by_chunk.items():
        lines = source.lines(first, max(places) // 32 + 2)  # no line is shorter than 32 bytes
        found |= {first << GENERATED_SHIFT | at: lines[at : lines.find(b"\n", at)] for at in places}
    return found
