"""A description of an address, to debug a kernel's memory faults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from crossline.state.memory.bounds_check import Piece
from crossline.state.memory.declarations import Row


def whereabouts(address: int, pieces: Sequence[Piece], words: Any, rows: Mapping[str, Row]) -> str:
    """Told from the piece of memory that begins before it; ``rows``: declared, by the names of pieces."""
    begun = [piece for piece in pieces if piece.start <= address]
    if not begun:
        return f"at {address:#x}, before all memory that is alive"
    piece = max(begun, key=lambda each: each.start)
    if not piece.width:
        return f"{address - piece.start} bytes from the beginning of {piece.name}, which has {piece.size}"
    there = int(words[(piece.rows_at - words.ctypes.data) // 8])
    row, offset = divmod(address - piece.start, piece.width)
    places = list(rows[piece.name].places(words)) if piece.name in rows else []
    name = next((place.name for place in reversed(places) if place.offset <= offset), "a byte")
    return f"at {name}, {offset} bytes into row {row} of {piece.name}, which has {there}"
