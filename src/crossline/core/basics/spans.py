"""Byte strings that stand end to end, by their offsets."""

from __future__ import annotations

import numpy as np

from crossline.core.basics.values import I64, U8


def take_bytes(data: U8, starts: I64, lengths: I64) -> tuple[U8, I64]:
    """The byte strings at ``starts`` laid end to end, and their offsets."""
    out = np.zeros(len(starts) + 1, dtype=np.int64)
    np.cumsum(lengths, out=out[1:])
    source = np.arange(out[-1]) + np.repeat(starts - out[:-1], lengths)
    return data[source], out
