"""Sums as whole numbers of any width, divided and rounded once: what no order of adding and no overflow can blur.

A wide number is ``LIMBS`` words of 32 bits, lowest first, each kept in an int64, so that two thousand million summands
may be added before any carry is looked at. Its lowest words are a fraction, for division. Limb ``FRACTION`` counts
units: of 1 for integers, of 2^-1074 for floats, of which every float is a whole number.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from crossline.state.memory.access import jit
from crossline.state.memory.fields import load, store
from crossline.state.memory.layout import LIMB

FRACTION = 3
LIMBS = FRACTION + 68  # 2^31 floats of 2^1023 take 2129 bits
BITS = 32
MASK = 0xFFFFFFFF
MANTISSA_BITS, EXPONENT_MAX = 52, 0x7FF
FLOAT_UNIT = -1074


@jit
def wide_clear(at: int) -> None:
    """Make the number at ``at`` nothing."""
    for k in range(LIMBS):
        store(at + 8 * k, LIMB, 0)


@jit
def _add_limb(at: int, limb: int, part: int) -> None:
    place = at + 8 * limb
    store(place, LIMB, load(place, LIMB) + part)


@jit
def wide_add_bits(at: int, bits: int) -> None:
    """Add the finite float whose bits are ``bits``, in units of 2^-1074."""
    exponent = (bits >> MANTISSA_BITS) & EXPONENT_MAX
    digits = bits & ((1 << MANTISSA_BITS) - 1)
    if exponent != 0:
        digits |= 1 << MANTISSA_BITS
        exponent -= 1
    limb, shift = FRACTION + (exponent >> 5), exponent & 31
    sign = -1 if bits < 0 else 1
    _add_limb(at, limb, sign * ((digits << shift) & MASK))
    _add_limb(at, limb + 1, sign * ((digits >> (BITS - shift)) & MASK))
    _add_limb(at, limb + 2, sign * ((digits >> BITS) >> (BITS - shift)))


@jit
def wide_add_whole(at: int, low: int, high: int) -> None:
    """Add low + high * 2^64, in units of 1."""
    _add_limb(at, FRACTION, low & MASK)
    _add_limb(at, FRACTION + 1, low >> BITS)
    _add_limb(at, FRACTION + 2, high)


@jit
def _carry(at: int) -> Any:
    """Bring every limb to 32 bits, of the number's size; whether it was negative."""
    over = 0
    for k in range(LIMBS):
        limb = load(at + 8 * k, LIMB) + over
        store(at + 8 * k, LIMB, limb & MASK)
        over = limb >> BITS
    if over == 0:
        return False
    over = 1
    for k in range(LIMBS):
        limb = (load(at + 8 * k, LIMB) ^ MASK) + over
        store(at + 8 * k, LIMB, limb & MASK)
        over = limb >> BITS
    return True


@jit
def wide_rounded(at: int, unit: int, n: int) -> Any:
    """The number in units of 2^``unit``, divided by ``n`` (1 to 2^31), as the nearest float; infinite beyond all.

    What stands at ``at`` is used up. The result is not to be so small that floats there have less than 53 bits, unless
    ``n`` is 1.
    """
    negative = _carry(at)
    top, rest = -1, 0
    for k in range(LIMBS - 1, -1, -1):
        limb = load(at + 8 * k, LIMB)
        if limb == 0 and rest == 0:
            continue
        rest = (rest << BITS) | limb
        quotient = rest // n
        rest -= quotient * n
        store(at + 8 * k, LIMB, quotient)
        if top < 0 and quotient != 0:
            top = k
    if top < 0:
        return 0.0
    # The 63 highest bits; the lowest of them also stands for all that are left out, so that halves are distinguished.
    first, second, third = load(at + 8 * top, LIMB), load(at + 8 * top - 8, LIMB), load(at + 8 * top - 16, LIMB)
    bits = math.frexp(np.float64(first))[1]
    digits = first << (63 - bits)
    if bits < BITS:
        digits |= (second << (31 - bits)) | (third >> (bits + 1))
        rest |= third & ((1 << (bits + 1)) - 1)
    else:
        digits |= second >> 1
        rest |= (second & 1) | third
    for k in range(top - 2):
        rest |= load(at + 8 * k, LIMB)
    if rest != 0:
        digits |= 1
    rounded = np.ldexp(np.float64(digits), unit + BITS * (top - 2 - FRACTION) + bits + 1)
    return -rounded if negative else rounded
