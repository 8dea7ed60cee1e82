"""The kernel that reads whole JSON records into columns, line by line, none touching another."""

# ruff: noqa: PLR0911 - kernels are flat: many plain arguments, and a way out at each doubt

from __future__ import annotations

from typing import Any

import numpy as np

from crossline.basics.values import I32, I64, U8
from crossline.ingest.decode.clock import NOT_A_TIME, real_to_ms, rfc3339_ms, whole_to_ms
from crossline.ingest.decode.jit import WORD_BYTES, byte_at, eight_bytes, kernel, part
from crossline.ingest.decode.json_scan import (
    BRACE,
    BRACE_END,
    BRACKET,
    COMMA,
    DOUBT,
    LOWER_N,
    MINUS,
    NINE,
    NUMBER_DOUBT,
    NUMBER_HARD,
    NUMBER_INTEGER,
    OBJECTS,
    QUOTE,
    RECORD,
    UNKNOWN,
    ZERO,
    past_colon,
    read_literal,
    read_number,
    skip_space,
    skip_string,
    skip_value,
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


@part
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
        stop, escaped = skip_string(buf, p + 1, end)
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
    stop, what, whole, real = read_number(buf, p, end)
    if kind == INTEGER:
        return stop if what == NUMBER_INTEGER else DOUBT, whole, VALUE
    if what == NUMBER_HARD:
        return stop, (p << 32) | (stop - p), HARD
    # Adding zero turns -0.0 into 0.0, so that equal numbers have equal bits.
    return stop if what != NUMBER_DOUBT else DOUBT, np.float64(real + 0.0).view(np.int64), VALUE


@part
def complete(row: int, tree: I32, flags: U8) -> int:
    """GOOD where every required field has a value."""
    for child in range(len(tree)):
        if tree[child, REQUIRED] and flags[tree[child, COLUMN], row] < VALUE:
            return SLOW
    return GOOD


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
    buf: U8, p: int, end: int, row: int, tree: I32, keys: U8, notes: I64, values: I64, flags: U8, root: int
) -> int:
    """Read the record in [p, end) into row ``row``; what became of it."""
    p = skip_space(buf, p, end)
    if p >= end:
        return BLANK
    if byte_at(buf, p) != BRACE:
        return SLOW
    notes[UNKNOWN] = 0
    notes[RECORD] = row + 1
    notes[OBJECTS] = len(tree)
    node, depth, previous = root, 1, root
    p = skip_space(buf, p + 1, end)
    expect_key = p < end and byte_at(buf, p) != BRACE_END
    while True:
        if expect_key:
            if p >= end or byte_at(buf, p) != QUOTE:
                return SLOW
            child = match_key(buf, p + 1, end, tree, keys, node, previous)
            if child < 0:
                p = unknown_key(buf, p + 1, end, node, notes)
                if p >= 0:
                    p = skip_value(buf, p, end, depth, notes)
            else:
                previous = child
                p = past_colon(buf, p + 2 + tree[child, KEY_SIZE], end)
                inner = tree[child, INNER]
                if p < 0:
                    return SLOW
                if inner < 0:
                    column = tree[child, COLUMN]
                    if flags[column, row] != ABSENT:
                        return SLOW
                    p, cell, flag = read_cell(buf, p, end, tree[child, KIND], tree[child, UNIT], depth, notes)
                    values[column, row] = cell
                    flags[column, row] = flag
                else:
                    p, opened = open_inner(buf, p, end, row, tree, node, child)
                    if opened:
                        node, previous, depth = inner, inner, depth + 1
                        if p < end and byte_at(buf, p) != BRACE_END:
                            continue
        if p < 0:
            return SLOW
        p = skip_space(buf, p, end)
        if p >= end:
            return SLOW
        expect_key = byte_at(buf, p) == COMMA
        if expect_key:
            p = skip_space(buf, p + 1, end)
        elif byte_at(buf, p) != BRACE_END:
            return SLOW
        elif node == root:
            return complete(row, tree, flags) if skip_space(buf, p + 1, end) == end else SLOW
        else:
            p += 1
            node = tree[node, PARENT]
            previous, depth = tree[node, CAME], depth - 1


@kernel
def scan_records(
    buf: U8, starts: I64, ends: I64, tree: I32, keys: U8, notes: I64, values: I64, flags: U8, status: U8, root: int
) -> None:
    """``scan_record`` of each line [starts, ends)."""
    for row in range(len(starts)):
        status[row] = scan_record(buf, starts[row], ends[row], row, tree, keys, notes, values, flags, root)
