"""The kernel that reads whole JSON records into columns, line by line, none touching another."""

# ruff: noqa: PLR0911 - kernels are flat: many plain arguments, and a way out at each doubt

from __future__ import annotations

from typing import Any

import numpy as np

from crossline.basics.values import I32, I64, U8
from crossline.ingest.decode.clock import NOT_A_TIME, real_to_ms, rfc3339_ms, whole_to_ms
from crossline.ingest.decode.jit import WORD_BYTES, byte_at, eight_bytes, inlined, kernel, part
from crossline.ingest.decode.json_numbers import (
    DOUBT,
    MINUS,
    NINE,
    NUMBER_DOUBT,
    NUMBER_HARD,
    NUMBER_INTEGER,
    ZERO,
    number_at,
    read_number,
)
from crossline.ingest.decode.json_scan import (
    BRACE,
    BRACE_END,
    BRACKET,
    COMMA,
    LOWER_N,
    OBJECTS,
    QUOTE,
    RECORD,
    SPACE,
    UNKNOWN,
    past_colon,
    read_literal,
    skip_space,
    skip_string,
    skip_value,
    string_end,
    unknown_key,
)

# How a column is read. TIME_ANY: a number is epoch ms, a text is RFC 3339.
STRING, INTEGER, NUMBER, BOOLEAN, LIST, TIME_NUMBER, TIME_TEXT, TIME_ANY = range(8)

# What stands in a cell: nothing came, null, a value, a text with escapes, a double still to be read from its digits.
ABSENT, NULL, VALUE, ESCAPED, HARD = range(5)

# What became of a line.
GOOD, BLANK, SLOW, DEAD = range(4)

# The declared fields, nested, are one int32 table: first a row for each field, those of one object side by side, then a
# row for each object, the record itself first. NEXT is the kernel's own guess of which field comes next; MET and CAME
# are its notes.
NEXT = 0
KEY_AT, KEY_SIZE, INNER, COLUMN, KIND, UNIT, REQUIRED = range(1, 8)
FIRST, COUNT, PARENT, MET, CAME = range(1, 6)
TREE_WIDTH = 8

KEY_END = b'":'  # stands behind each of the keys, as in a record without white space
KEY_END_BYTES = len(KEY_END)


@part
def same_key(buf: U8, p: int, end: int, tree: I32, keys: U8, child: int) -> bool:
    """Whether the text at ``p`` is the child's key and its closing quote."""
    size = tree[child, KEY_SIZE]
    if p + size >= end or byte_at(buf, p + size) != QUOTE:
        return False
    at = tree[child, KEY_AT]
    k: Any = 0
    while size - k >= WORD_BYTES:
        if eight_bytes(buf, p + k) != eight_bytes(keys, at + k):
            return False
        k += WORD_BYTES
    if k < size and p + k + WORD_BYTES <= end:
        # What follows the key is shifted out of both.
        unlike = eight_bytes(buf, p + k) ^ eight_bytes(keys, at + k)
        return bool(unlike << np.uint64(8 * (WORD_BYTES - (size - k))) == 0)
    while k < size:
        if byte_at(buf, p + k) != keys[at + k]:
            return False
        k += 1
    return True


@inlined
def expected_key(buf: U8, p: int, end: int, tree: I32, keys: U8, child: int) -> int:
    """The place of the value behind the child's key, its quote and a colon, if the text at ``p`` is these; or DOUBT.

    Where it is not, ``match_key`` may still find the same key: there is white space, or the line ends near.
    """
    size = tree[child, KEY_SIZE] + KEY_END_BYTES
    if p + size + WORD_BYTES > end:
        return DOUBT
    at = tree[child, KEY_AT]
    k: Any = 0
    while size - k > WORD_BYTES:
        if eight_bytes(buf, p + k) != eight_bytes(keys, at + k):
            return DOUBT
        k += WORD_BYTES
    # What follows is shifted out of both.
    unlike = (eight_bytes(buf, p + k) ^ eight_bytes(keys, at + k)) << np.uint64(8 * (WORD_BYTES - (size - k)))
    return p + size if unlike == 0 and byte_at(buf, p + size) > SPACE else DOUBT


@part
def match_key(buf: U8, p: int, end: int, tree: I32, keys: U8, node: int, previous: int) -> int:
    """The child of ``node`` whose key stands at ``p``, or -1. Records mostly keep one order: guess first."""
    first = tree[node, FIRST]
    stop = first + tree[node, COUNT]
    guess: int = tree[previous, NEXT]
    if first <= guess < stop and same_key(buf, p, end, tree, keys, guess):
        return guess
    for child in range(first, stop):
        if same_key(buf, p, end, tree, keys, child):
            tree[previous, NEXT] = child
            return child
    return -1


@inlined
def read_key(buf: U8, p: int, end: int, tree: I32, keys: U8, node: int, previous: int) -> tuple[int, int]:
    """(the child of ``node`` whose key stands at ``p``, the place of its value or DOUBT); (-1, DOUBT) where none does.

    ``previous``: the child that came before, or the object itself.
    """
    guess: Any = tree[previous, NEXT]
    if tree[node, FIRST] <= guess < tree[node, FIRST] + tree[node, COUNT]:
        value_at = expected_key(buf, p, end, tree, keys, guess)
        if value_at >= 0:
            return guess, value_at
    child = match_key(buf, p, end, tree, keys, node, previous)
    if child < 0:
        return child, DOUBT
    return child, past_colon(buf, p + tree[child, KEY_SIZE] + 1, end)


@part
def read_time(buf: U8, p: int, end: int, kind: int, unit: int) -> tuple[int, int, int]:
    """(past the time at ``p``, its epoch ms, VALUE or HARD); DOUBT where it is none."""
    if byte_at(buf, p) == QUOTE:
        stop, escaped = skip_string(buf, p + 1, end)
        if stop < 0 or escaped or kind == TIME_NUMBER:
            return DOUBT, 0, VALUE
        stamp = rfc3339_ms(buf, p + 1, stop)
        return stop + 1 if stamp != NOT_A_TIME else DOUBT, stamp, VALUE
    if kind == TIME_TEXT:
        return DOUBT, 0, VALUE
    stop, what, whole, real = read_number(buf, p, end)
    if what == NUMBER_HARD:
        return stop, (p << 32) | (stop - p), HARD
    stamp = whole_to_ms(whole, unit) if what == NUMBER_INTEGER else real_to_ms(real, unit)
    return stop if what != NUMBER_DOUBT and stamp != NOT_A_TIME else DOUBT, stamp, VALUE


@inlined
def read_cell(buf: U8, p: int, end: int, kind: int, unit: int, depth: int, notes: I64) -> tuple[int, Any, int]:
    """(past the value at ``p`` of a declared field, what its cell holds, the cell's flag); DOUBT where it does not fit.

    A cell holds a whole number, the bits of a double, or a span of the buffer as start << 32 | size.
    """
    b = byte_at(buf, p)
    if b == LOWER_N:
        stop, _ = read_literal(buf, p, end)
        return stop, 0, NULL
    if kind == STRING:
        if b != QUOTE:
            return DOUBT, 0, VALUE
        stop, escaped = string_end(buf, p + 1, end)
        return stop + 1 if stop >= 0 else DOUBT, ((p + 1) << 32) | (stop - p - 1), ESCAPED if escaped else VALUE
    if kind == LIST:
        stop = skip_value(buf, p, end, depth, notes) if b == BRACKET else DOUBT
        return stop, (p << 32) | (stop - p), VALUE
    if kind == BOOLEAN:
        stop, literal = read_literal(buf, p, end)
        return stop, literal, VALUE
    if b != MINUS and not ZERO <= b <= NINE and b != QUOTE:
        return DOUBT, 0, VALUE
    if kind >= TIME_NUMBER:
        return read_time(buf, p, end, kind, unit)
    stop, what, whole, real = number_at(buf, p, end)
    if kind == INTEGER:
        return stop if what == NUMBER_INTEGER else DOUBT, whole, VALUE
    if what == NUMBER_HARD:
        return stop, (p << 32) | (stop - p), HARD
    # Adding zero turns -0.0 into 0.0, so that equal numbers have equal bits.
    return stop if what != NUMBER_DOUBT else DOUBT, np.float64(real + 0.0).view(np.int64), VALUE


@inlined
def read_field(
    buf: U8, p: int, end: int, row: int, tree: I32, child: int, depth: int, notes: I64, values: I64, flags: U8
) -> tuple[int, int]:
    """(past the value at ``p`` of the field ``child``, 1 where it has one that every record needs); or DOUBT."""
    column = tree[child, COLUMN]
    if flags[column, row] != ABSENT:
        return DOUBT, 0
    p, cell, flag = read_cell(buf, p, end, tree[child, KIND], tree[child, UNIT], depth, notes)
    values[column, row] = cell
    flags[column, row] = flag
    return p, tree[child, REQUIRED] if flag >= VALUE else 0


@part
def required_fields(tree: I32) -> int:
    """How many fields every record needs."""
    count = 0
    for child in range(len(tree)):
        count += tree[child, REQUIRED]
    return count


@part
def open_inner(buf: U8, p: int, end: int, row: int, tree: I32, node: int, child: int) -> tuple[int, bool]:
    """(place, whether an inner object's first key or end stands there) of a declared object at ``p``; or DOUBT."""
    inner = tree[child, INNER]
    if tree[inner, MET] == row + 1:
        return DOUBT, False
    tree[inner, MET] = row + 1
    if byte_at(buf, p) == BRACE:
        tree[node, CAME] = child
        return skip_space(buf, p + 1, end), True
    stop, literal = read_literal(buf, p, end)
    return stop if literal == 2 else DOUBT, False


@part
def scan_record(
    buf: U8, p: int, end: int, row: int, tree: I32, keys: U8, notes: I64, values: I64, flags: U8, root: int, needs: int
) -> int:
    """Read the record in [p, end) into row ``row``; what became of it. ``needs``: see ``required_fields``."""
    p = skip_space(buf, p, end)
    if p >= end:
        return BLANK
    if byte_at(buf, p) != BRACE:
        return SLOW
    notes[UNKNOWN] = 0
    notes[RECORD] = row + 1
    notes[OBJECTS] = len(tree)
    node, depth, previous, lacking = root, 1, root, needs
    p = skip_space(buf, p + 1, end)
    expect_key = p < end and byte_at(buf, p) != BRACE_END
    while True:
        if expect_key:
            if p >= end or byte_at(buf, p) != QUOTE:
                return SLOW
            child, value_at = read_key(buf, p + 1, end, tree, keys, node, previous)
            if child < 0:
                p = unknown_key(buf, p + 1, end, node, notes)
                if p >= 0:
                    p = skip_value(buf, p, end, depth, notes)
            else:
                previous, p = child, value_at
                inner = tree[child, INNER]
                if p < 0:
                    return SLOW
                if inner < 0:
                    p, given = read_field(buf, p, end, row, tree, child, depth, notes, values, flags)
                    lacking -= given
                else:
                    p, opened = open_inner(buf, p, end, row, tree, node, child)
                    if opened:
                        node, previous, depth = inner, inner, depth + 1
                        if p < end and byte_at(buf, p) != BRACE_END:
                            continue
        if p < 0:
            return SLOW
        if p + 1 < end and byte_at(buf, p) == COMMA and byte_at(buf, p + 1) == QUOTE:
            p += 1
            expect_key = True
            continue
        p = skip_space(buf, p, end)
        if p >= end:
            return SLOW
        expect_key = byte_at(buf, p) == COMMA
        if expect_key:
            p = skip_space(buf, p + 1, end)
        elif byte_at(buf, p) != BRACE_END:
            return SLOW
        elif node == root:
            return GOOD if lacking == 0 and skip_space(buf, p + 1, end) == end else SLOW
        else:
            p += 1
            node = tree[node, PARENT]
            previous, depth = tree[node, CAME], depth - 1


@kernel
def scan_records(
    buf: U8, starts: I64, ends: I64, tree: I32, keys: U8, notes: I64, values: I64, flags: U8, status: U8, root: int
) -> None:
    """``scan_record`` of each line [starts, ends)."""
    needs = required_fields(tree)
    for row in range(len(starts)):
        status[row] = scan_record(buf, starts[row], ends[row], row, tree, keys, notes, values, flags, root, needs)
