"""Bits packed into bytes, the low end first."""

from __future__ import annotations

import numpy as np

from crossline.basics.values import I64, U8


def set_bits(bits: U8) -> tuple[I64, I64]:
    """Row and number of each bit that is set in ``bits`` (uint8[n, ceil(count/8)]), by row and then by number."""
    row, byte = np.nonzero(bits)
    which, bit = np.nonzero(np.unpackbits(bits[row, byte][:, None], axis=1, bitorder="little"))
    return row[which], byte[which] * np.int64(8) + bit
