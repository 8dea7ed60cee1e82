"""Running aggregates of a window: records and panes are added to them and taken off again, without any loss."""

from __future__ import annotations

import math
from typing import Any

from crossline.state.arithmetic.exact import two_sum
from crossline.state.memory.access import jit, load_f64, load_i32, load_i64, store_64, store_f64
from crossline.state.memory.header import item
from crossline.state.panes import layout as at
from crossline.state.panes.program import P_COUNT, P_LEAST_FLOAT, P_LEAST_INT, P_MOST_INT, P_SUM_FLOAT, P_SUM_INT
from crossline.state.panes.reach import acc_at, enters, pane_at, part_at, value_at

UP = at.ACC_UP
KNOWN, UNKNOWN, EMPTY = 1, 2, 0  # of the least and the greatest


@jit
def add_wide(acc: int, low: int, up: int) -> None:
    """Add low + up * 2^64 to the sum of integers at ``acc``."""
    before = load_i64(acc)
    total = before + low
    carry = 0
    if (before ^ total) & (low ^ total) < 0:
        carry = 1 if low > 0 else -1
    store_64(acc, total)
    store_64(acc + UP, load_i64(acc + UP) + up + carry)


@jit
def take_wide(acc: int, low: int, up: int) -> None:
    """Take low + up * 2^64 off the sum of integers at ``acc``."""
    before = load_i64(acc)
    total = before - low
    carry = 0
    if (before ^ low) & (before ^ total) < 0:
        carry = 1 if low < 0 else -1
    store_64(acc, total)
    store_64(acc + UP, load_i64(acc + UP) - up + carry)


@jit
def add_float(acc: int, x: float) -> None:
    """Add ``x`` to the pair at ``acc``, whose high part is NaN from when it is no longer exact."""
    t, error = two_sum(load_f64(acc), x)
    u, lost = two_sum(load_f64(acc + UP), error)
    high = t + u
    store_f64(acc, high if lost == 0.0 else math.nan)
    store_f64(acc + UP, u - (high - t))


@jit
def smaller(kind: int, a: int, b: int) -> Any:
    """Whether the value at address ``a`` is beyond that at ``b``: less, or for the greatest more."""
    if kind == P_LEAST_INT:
        return load_i64(a) < load_i64(b)
    if kind == P_MOST_INT:
        return load_i64(a) > load_i64(b)
    if kind == P_LEAST_FLOAT:
        return load_f64(a) < load_f64(b)
    return load_f64(a) > load_f64(b)


@jit
def _add_extreme(kind: int, acc: int, value: int) -> None:
    known = load_i64(acc + UP)
    if known == EMPTY or (known == KNOWN and smaller(kind, value, acc)):
        store_64(acc, load_i64(value))
        store_64(acc + UP, KNOWN)


@jit
def _take_extreme(acc: int, value: int) -> None:
    if load_i64(acc + UP) == KNOWN and load_i64(acc) == load_i64(value):
        store_64(acc + UP, UNKNOWN)


@jit
def add_record(h: int, row: int, c: int, record: int) -> None:
    """Add a record to cursor ``c`` of the slot at ``row``."""
    if not enters(h, record, item(h, at.ENTRY, c)):
        return
    for a in range(item(h, at.ACC_AT, c), item(h, at.ACC_AT, c + 1)):
        kind, acc = item(h, at.ACC_KIND, a), acc_at(h, row, a)
        if kind == P_COUNT:
            store_64(acc, load_i64(acc) + 1)
        else:
            _add_value(kind, acc, value_at(record, item(h, at.PART_COL, item(h, at.ACC_PART, a))))


@jit
def _add_value(kind: int, acc: int, value: int) -> None:
    if kind == P_SUM_INT:
        add_wide(acc, load_i64(value), 0)
    elif kind == P_SUM_FLOAT:
        add_float(acc, load_f64(value))
    else:
        _add_extreme(kind, acc, value)


@jit
def take_record(h: int, row: int, c: int, record: int) -> None:
    """Take a record off cursor ``c`` of the slot at ``row``."""
    if not enters(h, record, item(h, at.ENTRY, c)):
        return
    for a in range(item(h, at.ACC_AT, c), item(h, at.ACC_AT, c + 1)):
        kind, acc = item(h, at.ACC_KIND, a), acc_at(h, row, a)
        if kind == P_COUNT:
            store_64(acc, load_i64(acc) - 1)
        else:
            _take_value(kind, acc, value_at(record, item(h, at.PART_COL, item(h, at.ACC_PART, a))))


@jit
def _take_value(kind: int, acc: int, value: int) -> None:
    if kind == P_SUM_INT:
        take_wide(acc, load_i64(value), 0)
    elif kind == P_SUM_FLOAT:
        add_float(acc, -load_f64(value))
    else:
        _take_extreme(acc, value)


@jit
def add_pane(h: int, row: int, c: int, place: int) -> None:
    """Add all of a pane to cursor ``c`` of the slot at ``row``."""
    pane = pane_at(h, place)
    n = load_i32(pane + item(h, at.COUNT_PART, c))
    if n == 0:
        return
    for a in range(item(h, at.ACC_AT, c), item(h, at.ACC_AT, c + 1)):
        kind, acc, part = item(h, at.ACC_KIND, a), acc_at(h, row, a), part_at(h, pane, item(h, at.ACC_PART, a))
        if kind == P_COUNT:
            store_64(acc, load_i64(acc) + n)
        elif kind == P_SUM_INT:
            add_wide(acc, load_i64(part), load_i32(part + 8))
        elif kind == P_SUM_FLOAT:
            add_float(acc, load_f64(part))  # NaN where it is wide
            add_float(acc, load_f64(part + 8))
        else:
            _add_extreme(kind, acc, part)


@jit
def take_pane(h: int, row: int, c: int, place: int) -> None:
    """Take all of a pane off cursor ``c`` of the slot at ``row``."""
    pane = pane_at(h, place)
    n = load_i32(pane + item(h, at.COUNT_PART, c))
    if n == 0:
        return
    for a in range(item(h, at.ACC_AT, c), item(h, at.ACC_AT, c + 1)):
        kind, acc, part = item(h, at.ACC_KIND, a), acc_at(h, row, a), part_at(h, pane, item(h, at.ACC_PART, a))
        if kind == P_COUNT:
            store_64(acc, load_i64(acc) - n)
        elif kind == P_SUM_INT:
            take_wide(acc, load_i64(part), load_i32(part + 8))
        elif kind == P_SUM_FLOAT:
            add_float(acc, -load_f64(part))
            add_float(acc, -load_f64(part + 8))
        else:
            _take_extreme(acc, part)


@jit
def clear(h: int, row: int, c: int) -> None:
    """Make the running aggregates of cursor ``c`` those of nothing."""
    for a in range(item(h, at.ACC_AT, c), item(h, at.ACC_AT, c + 1)):
        store_64(acc_at(h, row, a), 0)
        store_64(acc_at(h, row, a) + UP, 0)
