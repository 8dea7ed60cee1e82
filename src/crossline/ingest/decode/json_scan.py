"""Kernels that read JSON's parts out of bytes: white space, strings, and values of undeclared fields.

They know one subset of JSON, chosen so that it can be read without a doubt. Everything outside it, broken or merely
rare, is answered with ``DOUBT``; the line then goes to ``slow_path``, which alone decides what is refused and why. So a
kernel may doubt what is good, but must never take what ``slow_path`` refuses, nor read another value from it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from crossline.basics.values import I64, U8
from crossline.ingest.decode.jit import WORD_BYTES, byte_at, eight_bytes, inlined, lowest_bit, part
from crossline.ingest.decode.json_numbers import (
    DOUBT,
    HIGHS,
    LOWER_E,
    MINUS,
    NINE,
    NUMBER_DOUBT,
    ONES,
    ZERO,
    read_number,
)

DEPTH_MAX = 64
UNKNOWN_KEYS_MAX = 512

# Places in ``notes``, an int64 array that lives as long as a scan: the number of the record, how many objects and
# unknown keys it had so far, then the containers now open (an object's number, 0 for an array), then a hash set of
# those keys: in each slot a hash and the record that put it there.
RECORD, OBJECTS, UNKNOWN, OPEN = 0, 1, 2, 3
HASHES = OPEN + DEPTH_MAX + 1
SLOTS = 2 * UNKNOWN_KEYS_MAX
NOTES_SIZE = HASHES + 2 * SLOTS

SPACE, QUOTE, COMMA, COLON, BACKSLASH = 32, 34, 44, 58, 92
BRACE, BRACE_END, BRACKET, BRACKET_END = 123, 125, 91, 93
LOWER_F, LOWER_N, LOWER_T, LOWER_U = 102, 110, 116, 117


def byte_classes() -> U8:
    """What each byte is inside a string: 0 plain, 1 the end, 2 an escape, 3 a control character, 4 beyond ASCII."""
    classes = np.zeros(256, np.uint8)
    classes[:32] = 3
    classes[QUOTE] = 1
    classes[BACKSLASH] = 2
    classes[128:] = 4
    return classes


CLASSES = byte_classes()


# Eight bytes at a time: a quote, a backslash, the first byte that is no control.
QUOTES, BACKSLASHES = ONES * np.uint64(QUOTE), ONES * np.uint64(BACKSLASH)
SPACES = ONES * np.uint64(SPACE)


@inlined
def unlike_plain(word: Any) -> Any:
    """The highest bit of the first of eight bytes that is not plain (see ``byte_classes``), and perhaps later ones.

    A difference borrows from the byte above it where it is below zero, which only what is not plain is.
    """
    return ((word - SPACES) | ((word ^ QUOTES) - ONES) | ((word ^ BACKSLASHES) - ONES) | word) & HIGHS


@inlined
def skip_space(buf: U8, p: int, end: int) -> int:
    """The first place from ``p`` that is not JSON white space, or ``end``."""
    while p < end:
        b = byte_at(buf, p)
        if b > SPACE or (b not in (SPACE, 9, 13, 10)):  # nearly always the first says it
            return p
        p += 1
    return p


@part
def utf8_step(buf: U8, p: int, end: int) -> int:
    """Past the character that starts at ``p`` (a byte beyond ASCII), or DOUBT where that is not valid UTF-8."""
    lead = byte_at(buf, p)
    if lead < 0xC2 or lead > 0xF4:
        return DOUBT
    size = 2 if lead < 0xE0 else (3 if lead < 0xF0 else 4)
    if p + size > end:
        return DOUBT
    for k in range(1, size):
        if byte_at(buf, p + k) & 0xC0 != 0x80:
            return DOUBT
    second = byte_at(buf, p + 1)
    # Overlong forms, surrogates, and what lies beyond U+10FFFF.
    if (lead == 0xE0 and second < 0xA0) or (lead == 0xED and second > 0x9F):
        return DOUBT
    if (lead == 0xF0 and second < 0x90) or (lead == 0xF4 and second > 0x8F):
        return DOUBT
    return p + size


@part
def hex_quad(buf: U8, p: int, end: int) -> Any:
    """The number that four hexadecimal digits at ``p`` write, or DOUBT."""
    if p + 4 > end:
        return DOUBT
    value: Any = 0
    for k in range(4):
        digit: Any = np.int64(byte_at(buf, p + k))
        if 48 <= digit <= 57:
            digit -= 48
        elif 97 <= digit <= 102:
            digit -= 87
        elif 65 <= digit <= 70:
            digit -= 55
        else:
            return DOUBT
        value = value * 16 + digit
    return value


@part
def escape_step(buf: U8, p: int, end: int) -> int:
    """Past the escape whose backslash is at ``p``, or DOUBT. A surrogate must be half of a pair."""
    if p + 1 >= end:
        return DOUBT
    kind = byte_at(buf, p + 1)
    if kind != LOWER_U:
        plain = kind in (QUOTE, BACKSLASH, 47, 98, 102, 110, 114, 116)
        return p + 2 if plain else DOUBT
    code = hex_quad(buf, p + 2, end)
    if code < 0 or 0xDC00 <= code <= 0xDFFF:
        return DOUBT
    if code < 0xD800 or code > 0xDFFF:
        return p + 6
    if p + 8 > end or byte_at(buf, p + 6) != BACKSLASH or byte_at(buf, p + 7) != LOWER_U:
        return DOUBT
    low = hex_quad(buf, p + 8, end)
    return p + 12 if 0xDC00 <= low <= 0xDFFF else DOUBT


@inlined
def string_end(buf: U8, p: int, end: int) -> tuple[int, bool]:
    """``skip_string``, which is only called where something else than a plain character comes before the end."""
    while p + WORD_BYTES <= end:
        unlike = unlike_plain(eight_bytes(buf, p))
        if unlike != 0:
            p += lowest_bit(unlike) >> 3
            if byte_at(buf, p) == QUOTE:
                return p, False
            break
        p += WORD_BYTES
    return skip_string(buf, p, end)


@part
def skip_string(buf: U8, p: int, end: int) -> tuple[int, bool]:
    """The place of the quote that ends the string whose text starts at ``p``, and whether it has escapes; or DOUBT."""
    escaped = False
    while p < end:
        if p + WORD_BYTES <= end:
            unlike = unlike_plain(eight_bytes(buf, p))
            if unlike == 0:
                p += WORD_BYTES
                continue
            p += lowest_bit(unlike) >> 3
        kind = CLASSES[byte_at(buf, p)]
        if kind == 0:
            p += 1
        elif kind == 1:
            return p, escaped
        elif kind == 2:
            escaped = True
            p = escape_step(buf, p, end)
        elif kind == 4:
            p = utf8_step(buf, p, end)
        else:
            return DOUBT, escaped
        if p < 0:
            return DOUBT, escaped
    return DOUBT, escaped


@part
def read_literal(buf: U8, p: int, end: int) -> tuple[int, int]:
    """(past it, 1 true, 0 false, 2 null) of the literal at ``p``, or (DOUBT, 0)."""
    b = byte_at(buf, p)
    if (
        p + 4 <= end
        and b == LOWER_T
        and byte_at(buf, p + 1) == 114
        and byte_at(buf, p + 2) == LOWER_U
        and byte_at(buf, p + 3) == LOWER_E
    ):
        return p + 4, 1
    if (
        p + 4 <= end
        and b == LOWER_N
        and byte_at(buf, p + 1) == LOWER_U
        and byte_at(buf, p + 2) == 108
        and byte_at(buf, p + 3) == 108
    ):
        return p + 4, 2
    if (
        p + 5 <= end
        and b == LOWER_F
        and byte_at(buf, p + 1) == 97
        and byte_at(buf, p + 2) == 108
        and byte_at(buf, p + 3) == 115
    ):
        return (p + 5, 0) if byte_at(buf, p + 4) == LOWER_E else (DOUBT, 0)
    return DOUBT, 0


@part
def unknown_key(buf: U8, p: int, end: int, owner: int, notes: I64) -> int:
    """Past the key whose text starts at ``p`` and its colon, noting it; DOUBT where its object may have it twice.

    ``owner`` numbers the object within its record. Two keys whose hashes agree need not be the same, but only
    ``slow_path`` can tell. A key with escapes may equal one without: doubted too.
    """
    stop, escaped = skip_string(buf, p, end)
    if stop < 0 or escaped:
        return DOUBT
    seen = np.int64(owner) * np.int64(1_000_003) + np.int64(stop - p)
    for k in range(p, stop):
        seen = (seen ^ np.int64(byte_at(buf, k))) * np.int64(1_099_511_628_211)
    count = notes[UNKNOWN]
    if count >= UNKNOWN_KEYS_MAX:
        return DOUBT
    at: Any = HASHES + 2 * (seen & (SLOTS - 1))
    while notes[at + 1] == notes[RECORD]:
        if notes[at] == seen:
            return DOUBT
        at = at + 2 if at + 2 < NOTES_SIZE else HASHES
    notes[at] = seen
    notes[at + 1] = notes[RECORD]
    notes[UNKNOWN] = count + 1
    return past_colon(buf, stop + 1, end)


@part
def past_colon(buf: U8, p: int, end: int) -> int:
    """The place of the value behind the colon that must come at ``p``, or DOUBT."""
    p = skip_space(buf, p, end)
    if p >= end or byte_at(buf, p) != COLON:
        return DOUBT
    p = skip_space(buf, p + 1, end)
    return p if p < end else DOUBT


@part
def skip_scalar(buf: U8, p: int, end: int) -> int:
    """Past the string, number or literal at ``p``, or DOUBT."""
    b = byte_at(buf, p)
    if b == QUOTE:
        stop, _ = skip_string(buf, p + 1, end)
        return stop + 1 if stop >= 0 else DOUBT
    if b == MINUS or ZERO <= b <= NINE:
        stop, kind, _, _ = read_number(buf, p, end)
        return stop if kind != NUMBER_DOUBT else DOUBT
    stop, _ = read_literal(buf, p, end)
    return stop


@part
def skip_value(buf: U8, p: int, end: int, depth: int, notes: I64) -> int:
    """Past the value at ``p`` (p < end), read strictly and forgotten; or DOUBT. ``depth``: containers around it."""
    level = 0
    while True:
        b = byte_at(buf, p)
        if b in (BRACE, BRACKET):
            level += 1
            if depth + level > DEPTH_MAX:
                return DOUBT
            notes[OPEN + level] = 0
            if b == BRACE:
                notes[OBJECTS] += 1
                notes[OPEN + level] = notes[OBJECTS]
            p = skip_space(buf, p + 1, end)
            if p >= end:
                return DOUBT
            if byte_at(buf, p) == b + 2:
                p += 1
                level -= 1
            elif b == BRACKET:
                continue
            else:
                p = unknown_key(buf, p + 1, end, notes[OBJECTS], notes) if byte_at(buf, p) == QUOTE else DOUBT
                if p < 0:
                    return DOUBT
                continue
        else:
            p = skip_scalar(buf, p, end)
        while p >= 0 and level > 0:
            p, more = after_value(buf, p, end, notes[OPEN + level], notes)
            if more:
                break
            level -= 1
        if p < 0 or level == 0:
            return p


@part
def after_value(buf: U8, p: int, end: int, owner: int, notes: I64) -> tuple[int, bool]:
    """(place, whether a value stands there) behind a value in a container: the next value or past its end; or DOUBT."""
    p = skip_space(buf, p, end)
    if p >= end:
        return DOUBT, True
    b = byte_at(buf, p)
    if b == (BRACE_END if owner else BRACKET_END):
        return p + 1, False
    if b != COMMA:
        return DOUBT, True
    p = skip_space(buf, p + 1, end)
    if p >= end:
        return DOUBT, True
    if owner:
        return (unknown_key(buf, p + 1, end, owner, notes) if byte_at(buf, p) == QUOTE else DOUBT), True
    return p, True
