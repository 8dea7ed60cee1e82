"""How positions are made that are no place in a file."""

from __future__ import annotations

GENERATED_SHIFT = 32  # a generated record's offset: number of its chunk's first record, then its byte in the chunk
