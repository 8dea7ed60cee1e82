"""The bytes of one record again, for dead letters and late records that were found out after decoding."""

from __future__ import annotations

from pathlib import Path

from crossline.generate.source import GeneratorSource

GENERATED_SHIFT = 32  # a generated record's offset: number of its chunk's first record, then its byte in the chunk
_LINE_MAX = 1 << 20


def fetch_file(form: str, path: str, offset: int) -> bytes | None:
    """The line of ``path`` that starts at byte ``offset``; None where the file is gone or has no lines."""
    if form == "parquet":
        return None
    try:
        with Path(path).open("rb") as file:
            file.seek(offset)
            line = file.readline(_LINE_MAX)
    except OSError:
        return None
    return line.removesuffix(b"\n") if line else None


def fetch_generated(source: GeneratorSource, offset: int) -> bytes | None:
    """The line made again; ``offset`` as ``ChunkIntake`` counts it."""
    first, at = offset >> GENERATED_SHIFT, offset & ((1 << GENERATED_SHIFT) - 1)
    lines = source.lines(first, at // 32 + 2)  # no line is shorter than 32 bytes
    return lines[at : lines.find(b"\n", at)]
