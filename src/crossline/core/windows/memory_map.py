"""The arrays behind the kernel's table of words: what there is, where fields stand, and how it grows."""

from __future__ import annotations

from typing import Any

import numpy as np

from crossline.core.basics.values import I64, U8
from crossline.core.plan.spaces import KeySpacePlan
from crossline.core.windows import header as at
from crossline.core.windows.ahead import SCOUTS_EACH
from crossline.core.windows.entry import REBUILD_IDS, REBUILD_KEYS, REBUILD_VALUES, compiled
from crossline.core.windows.program import Program
from crossline.core.windows.regions import HUGE_FROM, Region
from crossline.core.windows.sums import DEVIATION_BYTES, SUM_BYTES
from crossline.core.windows.tables import AHEAD, BLOCK, PLACES, VALUE_PLACES
from crossline.core.windows.wide import LIMBS

FILL_MAX = 0.88  # of an open addressing table
GROWTH = 1.3  # by which a table grows
NARROW = 1 << 32  # distances of clocks that 32 bits hold
ALL = slice(None)
# Rows and pools by the word of their address: the word of their width (0: a byte), of how many there are.
_POOLS = {
    at.RECORDS: (at.RECORD_BYTES, at.N_RECORDS),
    at.SLOTS: (at.SLOT_BYTES, at.N_SLOTS),
    at.IDS: (0, at.N_ID_BYTES),
    at.KEYS: (0, at.N_KEY_BYTES),
}
# Tables by the word of their address: the word of how many blocks, places of a block, what fills them.
_TABLES = {
    at.ID_TABLE: (at.ID_BLOCKS, PLACES, REBUILD_IDS),
    at.KEY_TABLE: (at.KEY_BLOCKS, PLACES, REBUILD_KEYS),
    at.VALUE_TABLE: (at.VALUE_BLOCKS, VALUE_PLACES, REBUILD_VALUES),
}


class MemoryMap:
    """All memory of one key space.

    ``words`` is the table that compiled code reads; arrays live as long as their address stands there.
    """

    def __init__(self, plan: KeySpacePlan, program: Program) -> None:
        self.words: I64 = np.zeros(at.WORDS, np.int64)
        self._kept: dict[int, np.ndarray[Any, np.dtype[Any]]] = {}  # small things, and those of a batch
        self._regions: dict[int, Region] = {}  # pools and tables
        self.program = program
        self._lay_out(plan)
        for pool in _POOLS:
            self._place(pool, Region())
        for table in _TABLES:
            self._place(table, Region())
            self.rebuild(table, 1, fill=False)
        self.keep(at.FIGURE, np.zeros(4, np.int64))
        self.keep(at.SCRATCH, np.zeros(LIMBS, np.int64))
        self.keep(at.SCOUTS, np.zeros(AHEAD * SCOUTS_EACH, np.int64))
        self.keep(at.ACTIVE, np.zeros(len(program.class_entry) + 1, np.uint8))

    def _lay_out(self, plan: KeySpacePlan) -> None:
        """Offsets and counts that follow from the plan, and its arrays."""
        words, program = self.words, self.program
        for name, array in program._asdict().items():
            kind = np.float64 if array.dtype == np.float64 else np.int64
            self.keep(getattr(at, name.upper()), array.astype(kind))
        chains, links, classes = len(program.chain_entry), len(program.link_entry), len(program.class_entry)
        words[at.COLUMNS], words[at.CURSORS], words[at.CHAINS] = len(plan.columns), len(plan.cursors), chains
        words[at.LINKS], words[at.CLASSES], words[at.LINES] = links, classes, len(plan.lines)
        words[at.LINE_BYTES] = (len(plan.lines) + 7) // 8
        words[at.COOLING] = program.cooldown_col.max(initial=-1) + 1
        words[at.CHAIN_AT] = at.VALUE + 8 * len(plan.columns)
        words[at.SAME_AT] = words[at.CHAIN_AT] + 8 * chains
        words[at.BITS_AT] = words[at.SAME_AT] + 8 * links
        words[at.ENTRY_BYTES] = (plan.entries + 7) // 8
        words[at.BITS_BYTES] = 0 if plan.entries == 1 else words[at.ENTRY_BYTES]
        words[at.RECORD_BYTES] = words[at.BITS_AT] + words[at.BITS_BYTES]  # not rounded up: records are many
        place = at.WINDOWS + 12 * len(plan.cursors)
        for word, size in (
            (at.POINTER_AT, 4 * len(program.pt_kind)),
            (at.TAIL_AT, 4 * chains),
            (at.JUDGED_AT, 4 * classes),
            (at.EMITTED_AT, 4 * int(words[at.COOLING])),
            (at.DISTINCT_AT, 4 * len(program.dc_link)),
            (at.SUM_I_AT, SUM_BYTES * len(program.si_col)),
            (at.SUM_F_AT, 16 * len(program.sf_col)),
            (at.DEVIATION_AT, DEVIATION_BYTES * len(program.sd_col)),
            (at.ROUGH_AT, len(program.sf_col)),
            (at.SAT_AT, int(words[at.LINE_BYTES])),
        ):
            words[word] = place
            place += size
        words[at.SLOT_BYTES] = _eights(place)

    def take_over(self, old: MemoryMap) -> None:
        """Take the records and keys of ``old``, of the same columns and entries; what hangs on a plan starts empty."""
        for name in (at.IDS, at.KEYS, at.ID_TABLE, at.KEY_TABLE):
            self._place(name, old._regions.pop(name))
        for name in (at.ID_BLOCKS, at.KEY_BLOCKS, at.N_ID_BYTES, at.N_KEY_BYTES):
            self.words[name] = old.words[name]
        self.words[at.CLOCK_BASE] = old.words[at.CLOCK_BASE]
        if old.words[at.CLOCK_HIGH_AT]:
            self._widen()
        for pool, count in ((at.RECORDS, at.N_RECORDS), (at.SLOTS, at.N_SLOTS)):
            self.make_room(pool, int(old.words[count]))
            self.words[count] = old.words[count]
        plain = int(self.words[at.CHAIN_AT])
        self.rows(at.RECORDS)[:, :plain] = old.rows(at.RECORDS)[:, :plain]
        bits, size = int(self.words[at.BITS_AT]), int(self.words[at.BITS_BYTES])
        old_bits = int(old.words[at.BITS_AT])
        self.rows(at.RECORDS)[:, bits : bits + size] = old.rows(at.RECORDS)[:, old_bits : old_bits + size]
        if old.words[at.CLOCK_HIGH_AT]:
            high = old.field(at.RECORDS, int(old.words[at.CLOCK_HIGH_AT]))
            self.field(at.RECORDS, int(self.words[at.CLOCK_HIGH_AT]))[:] = high
        slots = self.rows(at.SLOTS)
        slots[:, : at.WINDOWS] = old.rows(at.SLOTS)[:, : at.WINDOWS]
        links = int(self.words[at.DISTINCT_AT])
        slots[:, at.WINDOWS : links] = 0xFF  # -1: none
        slots[:, links:] = 0
        for c in range(len(self.program.entry)):
            self.field(at.SLOTS, at.WINDOWS + 12 * c + at.COUNT_OF)[:] = 0

    def keep(self, name: int, array: np.ndarray[Any, np.dtype[Any]]) -> None:
        """Hold ``array`` and put its address into word ``name``."""
        self._kept[name] = array
        self.words[name] = array.ctypes.data

    def let_go(self, names: range) -> None:
        """Hold the arrays of these words no longer."""
        for name in names:
            self._kept.pop(name, None)
            self.words[name] = 0

    def run(self, task: int, argument: int = 0) -> int:
        """Run one of the tasks of ``entry``."""
        return int(compiled()(self.words.ctypes.data, task, argument))

    def bytes_held(self, names: frozenset[int] | None = None) -> int:
        """Bytes of the state, room to grow included, without what belongs to one batch; or of the arrays ``names``."""
        sizes = {name: a.nbytes for name, a in self._kept.items() if name < at.ROWS}
        sizes |= {name: r.array.nbytes for name, r in self._regions.items()}
        return sum(size for name, size in sizes.items() if names is None or name in names)

    def make_room(self, pool: int, more: int) -> None:
        """Room for ``more`` rows (or bytes) in a pool.

        Where it must grow, it grows by a little more, so that little is wasted: large regions grow in place.
        """
        width, need = self._width(pool), int(self.words[_POOLS[pool][1]]) + more
        if need * width > len(self._regions[pool].array):
            self._resize(pool, _with_room(need, width))

    def shrink(self, pool: int) -> None:
        """Give back what is beyond the need of now and a little."""
        rows = _with_room(int(self.words[_POOLS[pool][1]]), self._width(pool))
        if len(self._regions[pool].array) > rows * self._width(pool):
            self._resize(pool, rows)

    def _width(self, pool: int) -> int:
        word = _POOLS[pool][0]
        return int(self.words[word]) if word else 1

    def _resize(self, pool: int, rows: int) -> None:
        region = self._regions[pool]
        region.resize(rows * self._width(pool))
        self._place(pool, region)

    def _place(self, name: int, region: Region) -> None:
        self._regions[name] = region
        self.words[name] = region.array.ctypes.data

    def clocks(self, records: I64 | slice = ALL) -> I64:
        """Clocks of records, in ms."""
        low, high = self.field(at.RECORDS, at.CLOCK, np.uint32)[records], int(self.words[at.CLOCK_HIGH_AT])
        ms: I64 = low.astype(np.int64) + self.words[at.CLOCK_BASE]
        if high:
            ms += self.field(at.RECORDS, high)[records].astype(np.int64) << 32
        return ms

    def make_clocks_fit(self, lowest: int, highest: int) -> None:
        """Let records have clocks from ``lowest`` to ``highest``.

        Where these and those that are held are less than 2^32 ms (49 days) apart, the base moves; else rows are made
        wider, for good.
        """
        base = int(self.words[at.CLOCK_BASE])
        if self.words[at.CLOCK_HIGH_AT] or (base <= lowest and highest - base < NARROW):
            return
        held = self.clocks()
        if len(held):
            lowest, highest = min(lowest, int(held.min())), max(highest, int(held.max()))
        if highest - lowest < NARROW:
            base = lowest - (NARROW - (highest - lowest)) // 4  # room for late records, and more for time to pass
            self.words[at.CLOCK_BASE] = base
            self.field(at.RECORDS, at.CLOCK, np.uint32)[:] = held - base
            return
        rows = self.rows(at.RECORDS).copy()
        self._widen()
        self.words[at.CLOCK_BASE] = 0
        self.make_room(at.RECORDS, 0)
        self.rows(at.RECORDS)[:, : rows.shape[1]] = rows
        self.field(at.RECORDS, at.CLOCK, np.uint32)[:] = held & (NARROW - 1)
        self.field(at.RECORDS, int(self.words[at.CLOCK_HIGH_AT]))[:] = held >> 32

    def _widen(self) -> None:
        """Make rows of records wider by the upper half of a clock."""
        self.words[at.CLOCK_HIGH_AT] = self.words[at.RECORD_BYTES]
        self.words[at.RECORD_BYTES] += 4

    def make_table(self, table: int, count: int) -> None:
        """Room for ``count`` items in a table; where it must grow, for a third more.

        A table that grew is filled anew.
        """
        blocks, places, _ = _TABLES[table]
        if count > FILL_MAX * places * self.words[blocks]:
            self.rebuild(table, _blocks_for(count, places), fill=True)

    def rebuild(self, table: int, size: int, *, fill: bool) -> None:
        """An empty table of ``size`` blocks, and its items put into it if ``fill``."""
        blocks, _, task = _TABLES[table]
        region = self._regions[table]
        if size != self.words[blocks]:
            region.resize(size * BLOCK)
            self._place(table, region)
            self.words[blocks] = size
        region.array[:] = 0
        if fill:
            self.run(task)

    def refill(self, table: int, count: int) -> None:
        """Fill a table anew; made smaller if it is much too large for ``count``."""
        blocks, places, _ = _TABLES[table]
        self.rebuild(table, min(int(self.words[blocks]), _blocks_for(count, places)), fill=True)

    def rows(self, pool: int) -> U8:
        """A pool's rows in use, as uint8[count, width]. Not to be held across a growth."""
        width, count = self._width(pool), int(self.words[_POOLS[pool][1]])
        return self._regions[pool].array[: count * width].reshape(count, width)

    def field(self, pool: int, offset: int, kind: type[Any] = np.int32) -> Any:
        """One field of all rows in use, as a view to read or write at once. Not to be held across a growth."""
        rows = self.rows(pool)
        if not len(rows):
            return np.empty(0, kind)
        return np.ndarray((len(rows),), kind, buffer=rows, offset=offset, strides=(rows.strides[0],))


def _with_room(rows: int, width: int) -> int:
    return rows + (rows >> (6 if rows * width >= HUGE_FROM else 4)) + 16


def _eights(size: int) -> int:
    return (int(size) + 7) // 8 * 8


def _blocks_for(count: int, places: int) -> int:
    return int(count * GROWTH / (FILL_MAX * places)) + 1
