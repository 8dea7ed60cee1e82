"""Kernels that number the texts of a column, and write chosen texts end to end."""

from __future__ import annotations

from typing import Any

import numpy as np

from crossline.basics.values import I32, I64, U8
from crossline.ingest.decode.cells import AHEAD, copy_text
from crossline.ingest.decode.jit import WORD_BYTES, eight_bytes, fetch, folded, inlined, kernel, put_eight_bytes

SLOTS_FIRST = 256
SPARE_BYTES = WORD_BYTES  # behind what is written: the last text too is written by whole words
NUMBER_BITS = 32
NUMBER_MASK = (1 << NUMBER_BITS) - 1


@inlined
def last_bytes(data: U8, at: int, size: int) -> Any:
    """The ``size`` bytes from ``at`` on as one number: 1 to 7 of them."""
    if at + WORD_BYTES <= len(data):
        return eight_bytes(data, at) & ((np.uint64(1) << np.uint64(8 * size)) - np.uint64(1))
    word = np.uint64(0)
    for step in range(size):
        word |= np.uint64(data[at + step]) << np.uint64(8 * step)
    return word


@inlined
def hash_of(data: U8, start: int, size: int, secret: Any) -> Any:
    """A number for the text, which senders of records cannot tell without ``secret``."""
    mixed = secret ^ np.uint64(size)
    done: Any = 0
    while done + WORD_BYTES <= size:
        mixed = folded(mixed ^ eight_bytes(data, start + done), secret)
        done += WORD_BYTES
    if done < size:
        mixed = folded(mixed ^ last_bytes(data, start + done, size - done), secret)
    return mixed


@inlined
def is_same(data: U8, start: int, others: U8, at: int, size: int) -> bool:
    """Whether two texts of ``size`` bytes are the same."""
    done: Any = 0
    while done + WORD_BYTES <= size:
        if eight_bytes(data, start + done) != eight_bytes(others, at + done):
            return False
        done += WORD_BYTES
    rest = size - done
    same: bool = rest == 0 or last_bytes(data, start + done, rest) == last_bytes(others, at + done, rest)
    return same


@kernel
def number_texts(data: U8, places: I64, secret: Any, slots: I64, hashes: I64, codes: I32, out: U8, offsets: I32) -> int:
    """Number the distinct texts of rows in the order in which they first come; how many there are.

    ``places`` int64[n]: where each row's text starts in ``data``, and its size (see ``TextPlaces``). ``codes``
    int32[n]: the number of each row's text, -1 where it has none. The distinct texts are written into ``out``, which
    has room for all and SPARE_BYTES, and begin at ``offsets`` int32[n + 1].
    ``slots`` int64, a power of two, more than four times n and SLOTS_FIRST at least: a table of upper halves of hashes,
    and numbers counted from 1; of it only as much is used as there are texts. ``hashes`` int64[n].
    """
    count, end = 0, 0
    used: Any = np.int64(SLOTS_FIRST)
    slots[:used] = 0
    offsets[0] = 0
    for row in range(len(places)):
        if row + AHEAD < len(places):
            fetch(data, places[row + AHEAD] >> NUMBER_BITS)
        start, size = places[row] >> NUMBER_BITS, places[row] & NUMBER_MASK
        if start < 0:
            codes[row] = -1
            continue
        mixed = np.int64(hash_of(data, start, size, secret))
        upper = mixed & ~NUMBER_MASK
        at = mixed & (used - 1)
        found: Any = -1
        while slots[at] != 0:
            if slots[at] & ~NUMBER_MASK == upper:
                number = (slots[at] & NUMBER_MASK) - 1
                begin: Any = np.int64(offsets[number])
                if offsets[number + 1] - begin == size and is_same(data, start, out, begin, size):
                    found = number
                    break
            at = (at + 1) & (used - 1)
        if found < 0:
            found = count
            copy_text(data, start, size, out, end)
            end += size
            hashes[count] = mixed
            count += 1
            offsets[count] = end
            slots[at] = upper | count
            if 4 * count > used:  # in a fuller table texts stand in each other's way more often
                used *= 2
                put_again(slots, used, hashes, count)
        codes[row] = found
    return count


@inlined
def put_again(slots: I64, used: int, hashes: I64, count: int) -> None:
    """Put the texts into a table of ``used`` slots."""
    slots[:used] = 0
    for number in range(count):
        at = hashes[number] & (used - 1)
        while slots[at] != 0:
            at = (at + 1) & (used - 1)
        slots[at] = (hashes[number] & ~NUMBER_MASK) | (number + 1)


@kernel
def gather_texts(data: U8, bounds: I32, order: I64, ends: I64, offsets: I64, out: U8) -> int:
    """Write the texts of each share of rows one after the other; the bytes written.

    Share s has the rows ``order[ends[s - 1]:ends[s]]``, whose texts stand in ``data`` by ``bounds``. ``offsets``
    int64[rows + shares]: for each share, from 0 on, where each of its texts begins, and where the last one ends.
    ``out`` has room for all and SPARE_BYTES.
    """
    at, place, k = 0, 0, 0
    for share in range(len(ends)):
        begin = at
        while k < ends[share]:
            offsets[place] = at - begin
            start: Any = np.int64(bounds[order[k]])
            size: Any = np.int64(bounds[order[k] + 1]) - start
            if size <= WORD_BYTES <= len(data) - start:
                put_eight_bytes(out, at, eight_bytes(data, start))
            else:
                copy_text(data, start, size, out, at)
            at += size
            place += 1
            k += 1
        offsets[place] = at - begin
        place += 1
    return at
