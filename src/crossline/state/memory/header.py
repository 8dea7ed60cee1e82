"""How compiled code reaches what ``layout`` declares: words, rows, and the fields and parts of rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from crossline.state.memory.access import (
    jit,
    load_f64,
    load_fixed,
    load_fixed_f64,
    load_i32,
    load_i64,
    load_u8,
    load_u32,
    store_32,
)
from crossline.state.memory.declare import Row
from crossline.state.memory.layout import (
    AFTER,
    BEFORE,
    BITS_AT,
    BITS_BYTES,
    CHAIN_AT,
    CLOCK,
    CLOCK_BASE,
    CLOCK_HIGH_AT,
    DEVIATION_AT,
    DISTINCT_AT,
    EMITTED_AT,
    ID_END,
    JUDGED_AT,
    KEY_END,
    KEYED,
    POINTER_AT,
    RECORD,
    RECORD_BYTES,
    RECORDS,
    ROUGH_AT,
    SAME_AT,
    SAT_AT,
    SLOT_BYTES,
    SLOTS,
    SUM_F_AT,
    SUM_I_AT,
    TAIL_AT,
    TAKEN,
    TAKEN_BYTES,
    VALUE,
    WAITING_AT,
    WINDOWS,
)


@jit
def word(h: int, name: int) -> Any:
    """Word ``name`` of the table, which is no count."""
    return load_fixed(h + 8 * name)


@jit
def tally(h: int, name: int) -> Any:
    """Count ``name``, which the kernel moves on."""
    return load_i64(h + 8 * name)


@jit
def item(h: int, name: int, k: int) -> Any:
    """Item ``k`` of an array of int64 that the kernel does not write."""
    return load_fixed(load_fixed(h + 8 * name) + 8 * k)


@jit
def item_f(h: int, name: int, k: int) -> Any:
    """Item ``k`` of an array of float64 that the kernel does not write."""
    return load_fixed_f64(load_fixed(h + 8 * name) + 8 * k)


@jit
def row_of(h: int, record: int) -> Any:
    """Address of a record."""
    return word(h, RECORDS) + record * word(h, RECORD_BYTES)


@jit
def slot_row(h: int, slot: int) -> Any:
    """Address of a slot."""
    return word(h, SLOTS) + slot * word(h, SLOT_BYTES)


@jit
def taken_row(h: int, taken: int) -> Any:
    """Address of a taken step."""
    return word(h, TAKEN) + taken * word(h, TAKEN_BYTES)


def _part(row: Row, address: Callable[[int, int], int], at: int) -> Callable[[int, int, int], Any]:
    """The function (h, row's number, k) -> address of item ``k`` of the part whose offset stands in word ``at``."""
    stride = row.part_at(at).item.bytes

    @jit
    def part(h: int, number: int, k: int) -> Any:
        return address(h, number) + word(h, at) + stride * k

    return part


def _first_part(row: Row, address: Callable[[int, int], int], offset: int) -> Callable[[int, int, int], Any]:
    """As ``_part``, for the part that begins where the fixed fields end."""
    stride = row.parts[0].item.bytes

    @jit
    def part(h: int, number: int, k: int) -> Any:
        return address(h, number) + offset + stride * k

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
judged_at = _part(KEYED, slot_row, JUDGED_AT)
emitted_at = _part(KEYED, slot_row, EMITTED_AT)
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
    row, high = row_of(h, record), word(h, CLOCK_HIGH_AT)
    ms = word(h, CLOCK_BASE) + load_u32(row + CLOCK)
    return ms if high == 0 else ms + (load_i32(row + high) << 32)


@jit
def set_clock(h: int, record: int, ms: int) -> None:
    """Give a record its clock, which fits (see ``MemoryMap.make_clocks_fit``)."""
    row, high, distance = row_of(h, record), word(h, CLOCK_HIGH_AT), ms - word(h, CLOCK_BASE)
    store_32(row + CLOCK, distance)
    if high != 0:
        store_32(row + high, distance >> 32)


@jit
def after(h: int, record: int) -> Any:
    """The next record of the key's list, or -1."""
    return load_i32(row_of(h, record) + AFTER)


@jit
def before(h: int, record: int) -> Any:
    """The record before in the key's list, or -1."""
    return load_i32(row_of(h, record) + BEFORE)


@jit
def value_i(h: int, record: int, col: int) -> Any:
    """Value of an integer or code column."""
    return load_i64(value_at(h, record, col))


@jit
def value_f(h: int, record: int, col: int) -> Any:
    """Value of a float column."""
    return load_f64(value_at(h, record, col))


@jit
def id_start(h: int, record: int) -> Any:
    """Where the record's id begins in the pool of ids."""
    return load_u32(row_of(h, record - 1) + ID_END) if record > 0 else 0


@jit
def key_start(h: int, slot: int) -> Any:
    """Where the slot's key begins in the pool of keys."""
    return load_u32(slot_row(h, slot - 1) + KEY_END) if slot > 0 else 0


@jit
def enters(h: int, record: int, entry: int) -> Any:
    """Whether the record is in entry number ``entry``."""
    if word(h, BITS_BYTES) == 0:
        return True
    return (load_u8(bits_at(h, record, entry >> 3)) >> (entry & 7)) & 1 != 0


@jit
def precedes(h: int, a: int, b: int) -> Any:
    """Whether record ``a`` stands before ``b``: by clock, ties by ingest order, which is the order of the rows."""
    x, y = clock(h, a), clock(h, b)
    return x < y or (x == y and a < b)
