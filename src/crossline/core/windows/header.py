"""The kernel's table of words: addresses, sizes and strides, and how a field is reached from them.

Every compiled function takes ``h``, the table's address. A record, and a slot (one key's state), is a row of bytes;
the offsets that depend on the plan are words of the table.
"""

from __future__ import annotations

from typing import Any

from crossline.core.windows.memory import (
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

# Counts that the kernel moves on.
(
    N_RECORDS,
    N_SLOTS,
    N_VALUES,
    N_ID_BYTES,
    N_KEY_BYTES,
    N_HITS,
    N_EVIDENCE,
    N_RETAINED,
    N_EMITTED,
    N_DEAD,
    N_LOOKED_AT,
) = range(11)
# The state: rows, pools of bytes, and tables (see ``tables``) with how many blocks they have.
(
    RECORDS,
    RECORD_BYTES,
    CHAIN_AT,
    SAME_AT,
    BITS_AT,
    BITS_BYTES,  # 0 where there is one entry, as every record kept is in it
    ENTRY_BYTES,
    COLUMNS,
    SLOTS,
    SLOT_BYTES,
    POINTER_AT,
    DISTINCT_AT,
    TAIL_AT,
    JUDGED_AT,
    EMITTED_AT,
    SUM_I_AT,
    SUM_F_AT,
    DEVIATION_AT,
    ROUGH_AT,
    SAT_AT,
    IDS,
    KEYS,
    ID_TABLE,
    ID_BLOCKS,
    VALUE_TABLE,
    VALUE_BLOCKS,
    KEY_TABLE,
    KEY_BLOCKS,
) = range(16, 44)
# The program: how many of each kind, and the address of each array (64-bit items).
(
    CURSORS,
    CHAINS,
    LINKS,
    CLASSES,
    LINES,
    COOLING,
    LINE_BYTES,
    COLUMN_FLOAT,
    ENTRY,
    WINDOW,
    LEFT_CLOSED,
    RIGHT_OPEN,
    INCLUDE,
    SI_AT,
    SI_COL,
    SF_AT,
    SF_COL,
    SD_AT,
    SD_COL,
    PLAIN,
    PT_AT,
    PT_KIND,
    PT_COL,
    PT_CHAIN,
    DC_AT,
    DC_LINK,
    CHAIN_ENTRY,
    CHAIN_COL,
    CHAIN_MAX,
    LINK_ENTRY,
    LINK_COL,
    GROUP_AT,
    GROUP_KIND,
    GROUP_ACC,
    GROUP_COL,
    LINE_AT,
    LINE_PLAN,
    LOW_I,
    HIGH_I,
    LOW_REST,  # the bounds on sums beyond 64 bits: as those sums are
    LOW_UP,
    HIGH_REST,
    HIGH_UP,
    LOW_F,
    HIGH_F,
    NEGATED,
    EVERY,
    COOLDOWN,
    COOLDOWN_COL,
    LINE_CLASS,
    CLASS_AT,
    CLASS_OF,
    CLASS_ENTRY,
    SPAN_AT,
    SPAN_FROM,
    SPAN_UNTIL,
    CLASS_LATE,
) = range(47, 104)
# One batch: its arrays, what is found out about its rows, and room for hits.
(
    ROWS,
    BATCH_KEYS,
    CLOCK_MS,
    INGEST_MS,
    LATENESS_MS,
    KEY_INDEX,
    KEY_BYTES,
    KEY_OFFSETS,
    KEY_HASH,
    ID_BYTES,
    ID_OFFSETS,
    ID_HASH,
    VALUES,
    ENTRIES,
    KEY_SLOT,
    DUPLICATE,
    RETAINED,
    ROW_SAT,
    DUPLICATE_MS,
    LINE_MASK,
    CLASS_LINES,
    ACTIVE,
    FIGURE,  # 32 bytes: an integer, a float, how far the float may be off, what the integer lacks in units of 2^64
    SCRATCH,
    NUMBER,
    SLOT_NUMBER,
    OUT_ROOM,
    EVIDENCE_ROOM,
    OUT_LINE,
    OUT_ROW,
    OUT_IS_INT,
    OUT_VALUE_I,
    OUT_VALUE_UP,
    OUT_VALUE_F,
    OUT_COUNT,
    OUT_START,
    OUT_END,
    OUT_EVIDENCE_END,
    OUT_EVIDENCE,
    OUT_EMITTED,
    SCOUTS,  # of rows soon to come: records that may leave their windows
) = range(104, 145)
# How clocks stand in records: their distance from the base in 32 bits, or all 64 where it does not fit.
CLOCK_BASE, CLOCK_HIGH_AT = 145, 146  # the latter: where the upper half stands; 0: there is none
WORDS = 152

# Offsets in a record's row: clock (its lower half), number of its key's slot, neighbours in the key's list (by clock,
# ties by ingest; -1: none), where its id ends among all ids; then 8 bytes per column, 2 x 4 per chain and per link, the
# entries' bits, and the upper half of the clock where there is one.
CLOCK, SLOT, AFTER, BEFORE, ID_END, VALUE = 0, 4, 8, 12, 16, 20
# Offsets in a slot's row: ends of the key's list, where its bytes end; then per cursor 3 x 4: the window's first record
# (-1: empty),
# the last one considered (-1: none), the number of entries in it.
HEAD, TAIL, KEY_END, WINDOWS = 0, 4, 8, 12
FIRST_OF, LAST_OF, COUNT_OF = 0, 4, 8


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
    return load_i64(row_of(h, record) + VALUE + 8 * col)


@jit
def value_f(h: int, record: int, col: int) -> Any:
    """Value of a float column."""
    return load_f64(row_of(h, record) + VALUE + 8 * col)


@jit
def chain_at(h: int, record: int, k: int) -> Any:
    """Address of two records (int32): the nearest earlier one of a smaller (larger) value, the latest it is that of."""
    return row_of(h, record) + word(h, CHAIN_AT) + 8 * k


@jit
def same_at(h: int, record: int, k: int) -> Any:
    """Address of two records (int32): the neighbours among the entry's records of the same value."""
    return row_of(h, record) + word(h, SAME_AT) + 8 * k


@jit
def id_start(h: int, record: int) -> Any:
    """Where the record's id begins in the pool of ids."""
    return load_u32(row_of(h, record - 1) + ID_END) if record > 0 else 0


@jit
def key_start(h: int, slot: int) -> Any:
    """Where the slot's key begins in the pool of keys."""
    return load_u32(slot_row(h, slot - 1) + KEY_END) if slot > 0 else 0


@jit
def window_at(h: int, slot: int, c: int) -> Any:
    """Address of the window of cursor ``c``."""
    return slot_row(h, slot) + WINDOWS + 12 * c


@jit
def enters(h: int, record: int, entry: int) -> Any:
    """Whether the record is in entry number ``entry``."""
    if word(h, BITS_BYTES) == 0:
        return True
    return (load_u8(row_of(h, record) + word(h, BITS_AT) + (entry >> 3)) >> (entry & 7)) & 1 != 0


@jit
def precedes(h: int, a: int, b: int) -> Any:
    """Whether record ``a`` stands before ``b``: by clock, ties by ingest order, which is the order of the rows."""
    x, y = clock(h, a), clock(h, b)
    return x < y or (x == y and a < b)
