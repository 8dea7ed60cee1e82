"""Kernels for keys of two fields: their number is nearly that of the records, so what each costs is paid a record."""

from __future__ import annotations

from typing import Any

import numpy as np

from crossline.basics.values import I32, I64, U8
from crossline.ingest.decode.cells import copy_text
from crossline.ingest.decode.jit import kernel, part

COLON, COMMA, ZERO = 58, 44, 48
WORD_BITS = 64


@kernel
def number_pairs(first: I32, second: I32, odd: Any, bits: int, slots: I32, rows: I32, some_row: I64) -> int:
    """Number the distinct pairs of codes in the order in which they first come; how many there are.

    ``rows`` int32[n]: the number of each row's pair, -1 where one of its codes is negative. ``some_row`` int64[n]: the
    first row of each pair. ``slots`` int32[2^bits], more than twice n, zeros: a table of numbers, counted from 1.
    ``odd``: the multiplier of its hash, which senders of records do not know, so that they choose none that meet.
    """
    count = 0
    mask = np.int64(len(slots) - 1)
    for row in range(len(first)):
        a, b = first[row], second[row]
        if a < 0 or b < 0:
            rows[row] = -1
            continue
        mixed = (np.uint64(a) << np.uint64(32) | np.uint64(b)) * odd
        at: Any = np.int64(mixed >> np.uint64(WORD_BITS - bits))
        while slots[at] != 0 and (first[some_row[slots[at] - 1]] != a or second[some_row[slots[at] - 1]] != b):
            at = (at + 1) & mask
        if slots[at] == 0:
            some_row[count] = row
            count += 1
            slots[at] = count
        rows[row] = slots[at] - 1
    return count


@kernel
def write_pairs(
    first: I32, second: I32, some_row: I64, data: U8, bounds: I64, others: U8, other_bounds: I64, out: U8, offsets: I32
) -> int:
    """Write ``SIZE:TEXT,SIZE:TEXT`` of each pair, whose codes are those of its row in ``some_row``; the bytes written.

    ``data``, ``bounds``: the texts of ``first`` by code, ``others``, ``other_bounds`` those of ``second``. ``offsets``
    int32[pairs + 1]: where each begins in ``out``, which has room for
    all texts and ``beside_texts_max`` of each pair.
    """
    at = 0
    for pair in range(len(some_row)):
        offsets[pair] = at
        a, b = first[some_row[pair]], second[some_row[pair]]
        at = write_measured(data, bounds[a], bounds[a + 1], out, at)
        out[at] = COMMA
        at = write_measured(others, other_bounds[b], other_bounds[b + 1], out, at + 1)
    offsets[len(some_row)] = at
    return at


@part
def write_measured(data: U8, start: int, end: int, out: U8, at: int) -> int:
    """Write ``SIZE:TEXT`` of the text in [start, end) at ``at``; the place behind it."""
    size = end - start
    if size < 10:  # most
        out[at] = ZERO + size
        at += 1
    else:
        power: Any = 10
        while size >= power * 10:
            power *= 10
        while power > 0:
            out[at] = ZERO + size // power % 10
            at += 1
            power //= 10
    out[at] = COLON
    at += 1
    copy_text(data, start, size, out, at)
    return at + size


def beside_texts_max(longest: int, other_longest: int) -> int:
    """Bytes that a pair takes beside its texts, at most, where these have up to so many."""
    return len(str(longest)) + len(str(other_longest)) + len(":,:")
