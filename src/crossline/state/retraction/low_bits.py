"""A first look for some hashes among very many: by their low bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from crossline.basics.values import I64

_BITS_OF_EACH = 32  # of a wanted hash in the table of low bits: one in so many others is looked at too
_PART = 1 << 15  # hashes that are looked at together, so that what is computed stays in the processor's cache


def low_bits_in(wanted: Any, hashes: Any) -> I64:
    """The places in ``hashes`` of those whose low bits any of ``wanted`` has: few besides these are left to sort."""
    size = 1 << (_BITS_OF_EACH * max(len(wanted), 1)).bit_length()
    marked, mask = np.zeros(size, np.bool_), np.uint64(size - 1)
    marked[wanted & mask] = True
    parts = (np.flatnonzero(marked[hashes[at : at + _PART] & mask]) + at for at in range(0, len(hashes), _PART))
    return np.concatenate([np.zeros(0, np.int64), *parts])
