"""Kernels that read JSON's numbers out of bytes, eight digits at a time."""

# ruff: noqa: PLR0911 - kernels are flat: many plain arguments, and a way out at each doubt

from __future__ import annotations

from typing import Any

import numpy as np

from crossline.basics.values import U8
from crossline.ingest.decode.jit import WORD_BYTES, byte_at, eight_bytes, inlined, lowest_bit, part

DOUBT = -1
PLUS, MINUS, DOT, ZERO, NINE, UPPER_E, LOWER_E = 43, 45, 46, 48, 57, 69, 101
# One in each of eight bytes, and the highest bit of each.
ONES = np.uint64(0x0101010101010101)
HIGHS = ONES * np.uint64(128)

# Digits that fit in a double without rounding, and powers of ten that are themselves exact doubles: with both, one
# multiplication or division rounds once, which is the correctly rounded value.
MANTISSA_EXACT = 1 << 53
POWER_EXACT = 22
POWERS = np.array([10.0**power for power in range(POWER_EXACT + 1)])
DIGITS_MAX = 18
# Beyond it a value may overflow or lose digits near zero.
EXPONENT_SAFE = 280

NUMBER_DOUBT, NUMBER_INTEGER, NUMBER_EXACT, NUMBER_HARD = -1, 0, 1, 2

# Eight digits at a time: what they are written as, and what lifts every byte above nine to the highest bit.
ZEROS, ABOVE_NINE = ONES * np.uint64(ZERO), ONES * np.uint64(128 - 10)
EIGHT_BITS, SIXTEEN_BITS, HALF = np.uint64(8), np.uint64(16), np.uint64(32)
PAIRS, TEN = np.uint64(0x000000FF000000FF), np.uint64(10)
HUNDREDS, ONES_OF_PAIRS = np.uint64((1_000_000 << 32) + 100), np.uint64((10_000 << 32) + 1)
TENS = np.array([10**power for power in range(WORD_BYTES + 1)])


@inlined
def eight_digits(word: Any) -> Any:
    """The number that eight digits write, each the value of its byte, the first in the lowest."""
    pairs = word * TEN + (word >> EIGHT_BITS)
    return (((pairs & PAIRS) * HUNDREDS) + (((pairs >> SIXTEEN_BITS) & PAIRS) * ONES_OF_PAIRS)) >> HALF


@inlined
def read_digits(buf: U8, p: int, end: int, before: Any) -> tuple[int, Any]:
    """(past the digits at ``p``, the number that they write behind those of ``before``); none are no error.

    From the 19th digit on the number is anything.
    """
    value: Any = np.int64(before)
    while p + WORD_BYTES <= end:
        word = eight_bytes(buf, p) ^ ZEROS
        # A sum carries into the byte above it only where it is no digit, which is the end.
        unlike = ((word + ABOVE_NINE) | word) & HIGHS
        if unlike != 0:
            count = lowest_bit(unlike) >> 3
            if count > 0:  # what follows the digits is shifted out, and zeros in before them
                word <<= np.uint64(8 * (WORD_BYTES - count))
                value = value * TENS[count] + np.int64(eight_digits(word))
            return p + count, value
        value = value * TENS[WORD_BYTES] + np.int64(eight_digits(word))
        p += WORD_BYTES
    while p < end and ZERO <= byte_at(buf, p) <= NINE:
        value = value * 10 + (np.int64(byte_at(buf, p)) - ZERO)
        p += 1
    return p, value


@part
def read_number(buf: U8, p: int, end: int) -> tuple[int, int, int, float]:
    """``number_at``, as a call."""
    return number_at(buf, p, end)


@inlined
def number_at(buf: U8, p: int, end: int) -> tuple[int, int, int, float]:
    """(past it, what it is, its integer, its double) of the number at ``p``.

    NUMBER_INTEGER has both values; NUMBER_EXACT has the correctly rounded double; NUMBER_HARD is a good number whose
    double takes more care than this; NUMBER_DOUBT is anything else.
    """
    negative = byte_at(buf, p) == MINUS
    if negative:
        p += 1
    first = p
    p, mantissa = read_digits(buf, p, end, 0)
    digits = p - first
    if digits == 0 or (digits > 1 and byte_at(buf, first) == ZERO) or digits > DIGITS_MAX:
        return p, NUMBER_DOUBT, 0, 0.0
    if p >= end or (byte_at(buf, p) != DOT and byte_at(buf, p) != LOWER_E and byte_at(buf, p) != UPPER_E):
        value = -mantissa if negative else mantissa
        return p, NUMBER_INTEGER, value, float(value)
    power = 0
    if byte_at(buf, p) == DOT:
        point = p + 1
        p, mantissa = read_digits(buf, point, end, mantissa)
        power = point - p
        digits -= power
        if power == 0:
            return p, NUMBER_DOUBT, 0, 0.0
    if p < end and (byte_at(buf, p) == LOWER_E or byte_at(buf, p) == UPPER_E):
        p, exponent = read_exponent(buf, p + 1, end)
        if p < 0:
            return p, NUMBER_DOUBT, 0, 0.0
        power += exponent
    if abs(power) > EXPONENT_SAFE or digits > EXPONENT_SAFE:
        return p, NUMBER_DOUBT, 0, 0.0
    if digits > DIGITS_MAX or mantissa > MANTISSA_EXACT or abs(power) > POWER_EXACT:
        return p, NUMBER_HARD, 0, 0.0
    real = float(mantissa)
    real = real * POWERS[power] if power >= 0 else real / POWERS[-power]
    return p, NUMBER_EXACT, 0, -real if negative else real


@part
def read_exponent(buf: U8, p: int, end: int) -> tuple[int, int]:
    """(past it, its value) of the exponent whose sign or first digit is at ``p``; (DOUBT, 0) where there is none."""
    negative = p < end and byte_at(buf, p) == MINUS
    if p < end and (byte_at(buf, p) == MINUS or byte_at(buf, p) == PLUS):
        p += 1
    first = p
    value: Any = 0
    while p < end and ZERO <= byte_at(buf, p) <= NINE:
        value = min(value * 10 + (np.int64(byte_at(buf, p)) - ZERO), 100_000)
        p += 1
    if p == first:
        return DOUBT, 0
    return p, -value if negative else value
