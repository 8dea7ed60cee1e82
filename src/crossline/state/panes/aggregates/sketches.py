"""Sketches: how many different values there are, and quantiles, each of which merges without regard to order.

Different values: up to ``CODES_MAX`` of them as a set of codes of 32 bits (26 bits of the hash, then how many zeros
follow), which is as good as exact; more as 4,096 registers of a HyperLogLog, made of the same codes. So what a sketch
returns depends on the values alone, not on their order or panes. The estimate is that of Ertl (2017, algorithm 6),
whose standard error is 1.04 / sqrt(4096) = 1.6 %.

Quantiles: a DDSketch whose buckets are the floats that share sign, exponent and the upper six bits of the mantissa;
its estimate for a bucket is off by at most 1/129 of the value. Counts are whole, so it is the same in any order.

How often each value comes: the same buckets, by the hash of the value. Two values of one bucket count as one.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from crossline.state.memory.access import highest, jit, zeros_on_stack
from crossline.state.memory.fields import address, get, load, put, store
from crossline.state.panes import layout as at
from crossline.state.panes.heap import block, fitting, give, take, units_of

CODES_MAX = 1024
CODE_PLACES = 4096  # of the set that is read into
PRECISION = 12
REGISTERS = 1 << PRECISION
INDEX_BITS, ZERO_BITS = 26, 6
REST_BITS = 64 - INDEX_BITS
LONGEST = 64 - PRECISION  # zeros that a register may count, less one
COUNTS = LONGEST + 2
MANTISSA_BITS = 6
SHIFT = 52 - MANTISSA_BITS
BUCKETS_BITS = 12 + MANTISSA_BITS
BUCKETS_HALF = 1 << (BUCKETS_BITS - 1)  # buckets of one sign
BUCKETS = 2 * BUCKETS_HALF
# A block of codes, of registers or of buckets begins with its size's number and how many items it has.
ITEMS_AT = at.SKETCH_HEAD.bytes
DENSE = -1  # items of a block of registers
A, B = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)


@jit
def _mixed(value: int) -> Any:
    x = np.uint64(value)
    x = (x ^ (x >> np.uint64(33))) * A
    x = (x ^ (x >> np.uint64(33))) * B
    return x ^ (x >> np.uint64(33))


@jit
def code_of(value: int) -> Any:
    """The code of a value, which stands for itself or for the hash of a text."""
    x = _mixed(value)
    index = np.int64(x >> np.uint64(64 - INDEX_BITS))
    rest = np.int64((x << np.uint64(INDEX_BITS)) >> np.uint64(INDEX_BITS))
    return (index << ZERO_BITS) | (REST_BITS + 1 - highest(2 * rest + 1))


@jit
def register(registers: int, code: int) -> None:
    """Count a code into registers."""
    index, zeros = code >> ZERO_BITS, code & ((1 << ZERO_BITS) - 1)
    rest = index & ((1 << (INDEX_BITS - PRECISION)) - 1)
    zeros = zeros + INDEX_BITS - PRECISION if rest == 0 else INDEX_BITS - PRECISION - highest(rest)
    place = registers + (index >> (INDEX_BITS - PRECISION))
    if zeros > load(place, at.REGISTER):
        store(place, at.REGISTER, zeros)


@jit
def _made(h: int, units: int, count: int) -> Any:
    """A block of at least ``units``, that has ``count`` items."""
    size = fitting(h, units)
    handle = take(h, size)
    store(block(h, handle), at.SKETCH_SIZE, size)
    store(block(h, handle), at.SKETCH_ITEMS, count)
    return handle


@jit
def _larger(h: int, handle: int, bytes_: int, more: int) -> Any:
    """The block with room for ``more`` bytes after the ``bytes_`` that are used, moved where it must be."""
    size = load(block(h, handle), at.SKETCH_SIZE)
    if units_of(h, size) * at.UNIT >= bytes_ + more:
        return handle
    made = take(h, size + 1)
    _note_size(h, size + 1)
    source, target = block(h, handle), block(h, made)
    for k in range(0, units_of(h, size) * at.UNIT, 8):
        store(target + k, at.EIGHT_BYTES, load(source + k, at.EIGHT_BYTES))
    store(target, at.SKETCH_SIZE, size + 1)
    give(h, handle, size)
    return made


@jit
def _note_size(h: int, size: int) -> None:
    """A sketch of this size was made."""
    put(h, at.N_LARGEST, max(get(h, at.N_LARGEST), units_of(h, size)))


@jit
def add_code(h: int, handle: int, code: int) -> Any:
    """The sketch ``handle`` (0: none yet) with a code more: where it stands now."""
    if handle == 0:
        handle = _made(h, 2, 1)
        store(block(h, handle) + ITEMS_AT, at.CODE, code)
        return handle
    n = load(block(h, handle), at.SKETCH_ITEMS)
    if n == DENSE:
        register(block(h, handle) + ITEMS_AT, code)
        return handle
    low, high, items = 0, n, block(h, handle) + ITEMS_AT
    while low < high:
        middle = (low + high) >> 1
        if load(items + 4 * middle, at.CODE) < code:
            low = middle + 1
        else:
            high = middle
    if low < n and load(items + 4 * low, at.CODE) == code:
        return handle
    if n == CODES_MAX:
        return _dense(h, handle, code)
    handle = _larger(h, handle, ITEMS_AT + 4 * n, 4)
    items = block(h, handle) + ITEMS_AT
    for k in range(n, low, -1):
        store(items + 4 * k, at.CODE, load(items + 4 * (k - 1), at.CODE))
    store(items + 4 * low, at.CODE, code)
    store(block(h, handle), at.SKETCH_ITEMS, n + 1)
    return handle


@jit
def _dense(h: int, handle: int, code: int) -> Any:
    made = _made(h, 1 + REGISTERS // at.UNIT, DENSE)
    source, registers = block(h, handle) + ITEMS_AT, block(h, made) + ITEMS_AT
    for k in range(0, REGISTERS, 8):
        store(registers + k, at.EIGHT_BYTES, 0)
    for k in range(CODES_MAX):
        register(registers, load(source + 4 * k, at.CODE))
    register(registers, code)
    give(h, handle, load(block(h, handle), at.SKETCH_SIZE))
    return made


@jit
def drop(h: int, handle: int) -> None:
    """Give a sketch up."""
    if handle != 0:
        give(h, handle, load(block(h, handle), at.SKETCH_SIZE))


@jit
def union_code(h: int, n: int, code: int) -> Any:
    """Count a code into the set that is read into, of ``n`` so far (DENSE: registers): how many there are then."""
    if n == DENSE:
        register(address(h, at.REGISTERS), code)
        return n
    place = (code >> ZERO_BITS) & (CODE_PLACES - 1)
    while True:
        known = get(h, at.CODES, place)
        if known == code:
            return n
        if known == 0:
            break
        place = (place + 1) & (CODE_PLACES - 1)
    put(h, at.CODES, place, code)
    put(h, at.TOUCHED, n, place)
    return _spread(h, n + 1) if n == CODES_MAX else n + 1


@jit
def _spread(h: int, n: int) -> Any:
    """Put the ``n`` codes of the set into registers."""
    registers = address(h, at.REGISTERS)
    for k in range(0, REGISTERS, 8):
        store(registers + k, at.EIGHT_BYTES, 0)
    for k in range(n):
        place = get(h, at.TOUCHED, k)
        register(registers, get(h, at.CODES, place))
        put(h, at.CODES, place, 0)
    return DENSE


@jit
def union_sketch(h: int, n: int, handle: int) -> Any:
    """As ``union_code``, for all that a sketch has."""
    if handle == 0:
        return n
    items, count = block(h, handle) + ITEMS_AT, load(block(h, handle), at.SKETCH_ITEMS)
    if count != DENSE:
        for k in range(count):
            n = union_code(h, n, load(items + 4 * k, at.CODE))
        return n
    if n != DENSE:
        n = _spread(h, n)
    for k in range(REGISTERS):
        zeros = load(items + k, at.REGISTER)
        if zeros > get(h, at.REGISTERS, k):
            put(h, at.REGISTERS, k, zeros)
    return n


@jit
def different(h: int, n: int) -> Any:
    """How many different values the set has, which is empty then."""
    if n == DENSE:
        return np.int64(np.floor(_estimate(address(h, at.REGISTERS)) + 0.5))
    for k in range(n):
        put(h, at.CODES, get(h, at.TOUCHED, k), 0)
    return n


@jit
def _estimate(registers: int) -> Any:
    counts = zeros_on_stack(COUNTS)
    for k in range(REGISTERS):
        counts[load(registers + k, at.REGISTER)] += 1
    z = REGISTERS * _tau(1.0 - counts[LONGEST + 1] / REGISTERS)
    for k in range(LONGEST, 0, -1):
        z = 0.5 * (z + counts[k])
    z += REGISTERS * _sigma(counts[0] / REGISTERS)
    return REGISTERS / (2.0 * 0.6931471805599453) * (REGISTERS / z)


@jit
def _sigma(x: float) -> Any:
    y, z, before = 1.0, x, -1.0
    while z != before:
        x *= x
        before = z
        z += x * y
        y += y
    return z


@jit
def _tau(x: float) -> Any:
    if x in (0.0, 1.0):
        return 0.0
    y, z, before = 1.0, 1.0 - x, -1.0
    while z != before:
        x = math.sqrt(x)
        before = z
        y *= 0.5
        z -= (1.0 - x) * (1.0 - x) * y
    return z / 3.0


@jit
def bucket_of(bits: int) -> Any:
    """The bucket of the float whose bits are ``bits``: ascending, 0 for 0 and what is next to it."""
    size = (bits & 0x7FFFFFFFFFFFFFFF) >> SHIFT
    return -size if bits < 0 else size


@jit
def value_of(bucket: int) -> Any:
    """The estimate of the values of a bucket: of equal relative distance to its least and its greatest."""
    size = abs(bucket)
    if size < 1 << MANTISSA_BITS:
        return 0.0
    digits = (1 << MANTISSA_BITS) + (size & ((1 << MANTISSA_BITS) - 1))
    exponent = (size >> MANTISSA_BITS) - 1023 - MANTISSA_BITS
    estimate = math.ldexp(2.0 * digits * (digits + 1) / (2 * digits + 1), exponent)
    return -estimate if bucket < 0 else estimate


@jit
def add_bucket(h: int, handle: int, bucket: int) -> Any:
    """The sketch ``handle`` (0: none yet) with a value more in a bucket: where it stands now."""
    if handle == 0:
        handle = _made(h, 2, 0)
    n = load(block(h, handle), at.SKETCH_ITEMS)
    low, high, items = 0, n, block(h, handle) + ITEMS_AT
    while low < high:
        middle = (low + high) >> 1
        if load(items + 8 * middle, at.BUCKET) < bucket:
            low = middle + 1
        else:
            high = middle
    if low < n and load(items + 8 * low, at.BUCKET) == bucket:
        mine = items + 8 * low
        store(mine, at.BUCKET_COUNT, load(mine, at.BUCKET_COUNT) + 1)
        return handle
    handle = _larger(h, handle, ITEMS_AT + 8 * n, 8)
    items = block(h, handle) + ITEMS_AT
    for k in range(n, low, -1):
        store(items + 8 * k, at.EIGHT_BYTES, load(items + 8 * (k - 1), at.EIGHT_BYTES))
    store(items + 8 * low, at.BUCKET, bucket)
    store(items + 8 * low, at.BUCKET_COUNT, 1)
    store(block(h, handle), at.SKETCH_ITEMS, n + 1)
    return handle


@jit
def tally_of(value: int) -> Any:
    """The bucket in which it is counted how often a value comes, by its hash: as many as there are for quantiles."""
    return np.int64(_mixed(value) >> np.uint64(64 - BUCKETS_BITS)) - BUCKETS_HALF
