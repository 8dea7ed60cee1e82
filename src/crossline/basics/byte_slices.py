"""Byte strings that stand end to end, by their offsets."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from crossline.basics.values import I64, U8


def take_bytes(data: U8, starts: I64, lengths: I64) -> tuple[U8, I64]:
    """The byte strings at ``starts`` laid end to end, and their offsets."""
    out = np.zeros(len(starts) + 1, dtype=np.int64)
    np.cumsum(lengths, out=out[1:])
    source = np.arange(out[-1]) + np.repeat(starts - out[:-1], lengths)
    return data[source], out


def gathered(data: U8, offsets: I64, order: I64) -> tuple[U8, I64]:
    """As ``take_bytes`` of ``data[offsets[i]:offsets[i + 1]]`` for each i of ``order``: faster where they are long."""
    buffers = [None, *(pa.py_buffer(np.ascontiguousarray(each)) for each in (offsets, data))]
    slices = pa.Array.from_buffers(pa.large_binary(), len(offsets) - 1, buffers).take(pa.array(order))
    _, ends, raw = slices.buffers()
    found: I64 = np.frombuffer(ends, np.int64, len(order) + 1, 8 * slices.offset)
    text = np.zeros(0, np.uint8) if raw is None else np.frombuffer(raw, np.uint8)[found[0] : found[-1]]
    return text, found - found[0]
