"""How compiled code reaches what ``layout`` declares: words, rows, and the fields and parts of rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from crossline.state.memory.access import jit, load_fixed
from crossline.state.memory.declarations import Declared, Row
from crossline.state.memory.fields import address, get, load, put
from crossline.state.memory.layout import (
    AFTER,
    BEFORE,
    BELOW,
    BITS,
    BITS_AT,
    BITS_BYTES,
    CHAIN_AT,
    CLOCK,
    CLOCK_BASE,
    CLOCK_HIGH_AT,
    DEVIATION_AT,
    DISTINCT_AT,
    FIRST_RECORD,
    HIGH,
    ID_END,
    KEY_END,
    KEYED,
    MATCH_STEP_BYTES,
    MATCH_STEPS,
    POINTER_AT,
    REAL_VALUE,
    RECORD,
    RECORD_BYTES,
    RECORDS,
    ROUGH_AT,
    SAME_AT,
    SAT_AT,
    SLOT,
    SLOT_BYTES,
    SLOTS,
    SUM_F_AT,
    SUM_I_AT,
    TAIL_AT,
    VALUE,
    WAITING_AT,
    WHOLE_VALUE,
    WINDOWS,
)


@jit
def word(h: int, name: int) -> Any:
    """Word number ``name``, no count, where that is chosen as the kernel runs."""
    return load_fixed(h + 8 * name)


@jit
def row_of(h: int, record: int) -> Any:
    """Address of a record."""
    return address(h, RECORDS) + record * get(h, RECORD_BYTES)


@jit
def slot_row(h: int, slot: int) -> Any:
    """Address of a slot."""
    return address(h, SLOTS) + slot * get(h, SLOT_BYTES)


@jit
def match_step_row(h: int, step: int) -> Any:
    """Address of a step of a partial match."""
    return address(h, MATCH_STEPS) + step * get(h, MATCH_STEP_BYTES)


def _part(row: Row, row_at: Callable[[int, int], int], at: Declared) -> Callable[[int, int, int], Any]:
    """The function (h, row's number, k) -> address of item ``k`` of the part whose offset stands in word ``at``."""
    stride = row.part_at(at).item.bytes

    @jit
    def part(h: int, number: int, k: int) -> Any:
        return row_at(h, number) + get(h, at) + stride * k

    return part


def _first_part(row: Row, row_at: Callable[[int, int], int], offset: int) -> Callable[[int, int, int], Any]:
    """As ``_part``, for the part that begins where the fixed fields end."""
    stride = row.parts[0].item.bytes

    @jit
    def part(h: int, number: int, k: int) -> Any:
        return row_at(h, number) + offset + stride * k

    return part


# Addresses of items in a record's row: (h, record, k).
value_at = _first_part(RECORD, row_of, VALUE)
chain_at = _part(RECORD, row_of, CHAIN_AT)
same_at = _part(RECORD, row_of, SAME_AT)
bits_at = _part(RECORD, row_of, BITS_AT)
# Addresses of items in a slot's row: (h, slot, k).
window_at = _first_part(KEYED, slot_row, WINDOWS)
pointer_at = _part(KEYED, slot_row, POINTER_AT)
tail_at = _part(KEYED, slot_row, TAIL_AT)
distinct_at = _part(KEYED, slot_row, DISTINCT_AT)
sum_i_at = _part(KEYED, slot_row, SUM_I_AT)
sum_f_at = _part(KEYED, slot_row, SUM_F_AT)
deviation_at = _part(KEYED, slot_row, DEVIATION_AT)
rough_at = _part(KEYED, slot_row, ROUGH_AT)
sat_at = _part(KEYED, slot_row, SAT_AT)
waiting_at = _part(KEYED, slot_row, WAITING_AT)


@jit
def clock(h: int, record: int) -> Any:
    """Clock of a record, in ms."""
    ms = get(h, CLOCK_BASE) + get(h, CLOCK, record)
    return ms if get(h, CLOCK_HIGH_AT) == 0 else ms + (get(h, HIGH, record, 0) << 32)


@jit
def set_clock(h: int, record: int, ms: int) -> None:
    """Give a record its clock, which fits (see ``MemoryMap.make_clocks_fit``)."""
    distance = ms - get(h, CLOCK_BASE)
    put(h, CLOCK, record, distance)
    if get(h, CLOCK_HIGH_AT) != 0:
        put(h, HIGH, record, 0, distance >> 32)


@jit
def after(h: int, record: int) -> Any:
    """The next record of the key's list, or -1."""
    return get(h, AFTER, record)


@jit
def before(h: int, record: int) -> Any:
    """The record before in the key's list, or -1."""
    return get(h, BEFORE, record)


@jit
def below_of(h: int, record: int, k: int) -> Any:
    """The record below one in chain ``k``, or -1: one that was dropped is none."""
    below = get(h, BELOW, record, k)
    if below < get(h, FIRST_RECORD) or get(h, SLOT, below) < 0:
        return -1
    return below


@jit
def value_i(h: int, record: int, col: int) -> Any:
    """Value of an integer or code column."""
    return get(h, WHOLE_VALUE, record, col)


@jit
def value_f(h: int, record: int, col: int) -> Any:
    """Value of a float column."""
    return load(value_at(h, record, col), REAL_VALUE)


@jit
def id_start(h: int, record: int) -> Any:
    """Where the record's id begins in the pool of ids."""
    return get(h, ID_END, record - 1) if record > 0 else 0


@jit
def key_start(h: int, slot: int) -> Any:
    """Where the slot's key begins in the pool of keys."""
    return get(h, KEY_END, slot - 1) if slot > 0 else 0


@jit
def enters(h: int, record: int, entry: int) -> Any:
    """Whether the record is in entry number ``entry``."""
    if get(h, BITS_BYTES) == 0:
        return True
    return (get(h, BITS, record, entry >> 3) >> (entry & 7)) & 1 != 0


@jit
def precedes(h: int, a: int, b: int) -> Any:
    """Whether record ``a`` stands before ``b``: by clock, ties by ingest order, which is the order of the rows."""
    x, y = clock(h, a), clock(h, b)
    return x < y or (x == y and a < b)
