"""The arrays behind the kernel's table of words: what there is, where fields stand, and how it grows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from crossline.basics.values import I64, U8
from crossline.plan.spaces import KeySpacePlan
from crossline.state.arithmetic.superaccumulator import LIMBS
from crossline.state.memory import layout as at
from crossline.state.memory.address_report import whereabouts
from crossline.state.memory.bounds_check import WATCHES, Piece, watching
from crossline.state.memory.regions import MAPPED_FROM, SET_ASIDE, Region, ahead_of
from crossline.state.records.hash_tables import AHEAD, BLOCK, PLACES, VALUE_PLACES
from crossline.state.windows.entry_points import (
    PUT_IN,
    REBUILD_IDS,
    REBUILD_KEYS,
    REBUILD_VALUES,
    RUN_END,
    TAKE_OUT,
    doing,
)
from crossline.state.windows.prefetch import SCOUTS_EACH
from crossline.state.windows.program import KernelProgram

FILL_MAX = 0.88  # of an open addressing table
GROWTH = 1.3  # by which a table grows that is filled anew
# Growth by steps: from how many blocks on, how full it begins, the part of FILL_MAX it is done by, and by how much.
STEPWISE_FROM, FILL_GROW, FILL_HARD, STEP_GROWTH = 1 << 14, 0.76, 0.94, 1.25
_BATCHES_AHEAD = 64  # before a table begins to grow, its last pages are got
SET_ASIDE_RECORDS = 64 << 30  # bytes of addresses: records that are dropped are not moved up
NARROW = 1 << 32  # distances of clocks that 32 bits hold
ALL = slice(None)
# Rows and pools by the word of their address: the word of their width (0: a byte), of how many there are.
_POOLS: dict[int, tuple[int, int]] = {pool: (width, count) for pool, (_, width, count) in at.ROWS_OF.items()}
_DECLARED = {at.TABLE.words[pool].name: row for pool, (row, _, _) in at.ROWS_OF.items()}
_POOLS |= {at.IDS: (0, at.N_ID_BYTES), at.KEYS: (0, at.N_KEY_BYTES)}
# What numpy compares a kind with, made once.
_DTYPES = {number: np.dtype(word.dtype) for number, word in enumerate(at.TABLE.words) if word.dtype is not None}
# Tables by the word of their address: places of a block, what fills them.
_TABLES: dict[int, tuple[int, int]] = {
    at.ID_TABLE: (PLACES, REBUILD_IDS),
    at.KEY_TABLE: (PLACES, REBUILD_KEYS),
    at.VALUE_TABLE: (VALUE_PLACES, REBUILD_VALUES),
}


# A batch may fill a table anew that holds up to as many items for each of its own: steps take longer as a whole.
AT_ONCE = 32


class MemoryMap:
    """All memory of one key space.

    ``words`` is the table that compiled code reads; arrays live as long as their address stands there. ``counts``: by
    the numbers of words, what another kernel than that of windows has, and keeps in rows.
    """

    def __init__(self, plan: KeySpacePlan, program: KernelProgram, counts: Mapping[int, int] | None = None) -> None:
        self.words: I64 = np.zeros(at.WORDS, np.int64)
        self._kept: dict[int, np.ndarray[Any, np.dtype[Any]]] = {}  # small things, and those of a batch
        self._regions: dict[int, Region] = {}  # pools and tables
        self.program = program
        self._lay_out(plan, counts or {})
        for pool in _POOLS:
            self._place(pool, Region(0, SET_ASIDE_RECORDS if pool == at.RECORDS else SET_ASIDE))
        for table in _TABLES:
            self._place(table, Region())
            self.rebuild(table, 1, fill=False)
        self.keep(at.FIGURE, np.zeros(4, np.int64))
        self.keep(at.SCRATCH, np.zeros(LIMBS, np.int64))
        self.keep(at.SCOUTS, np.zeros(AHEAD * SCOUTS_EACH, np.int64))
        for cursors in (at.PASSED, at.LEFT_BEHIND):
            self.keep(cursors, np.zeros(len(plan.windows), np.int64))
        self.keep(at.ACTIVE, np.zeros(len(program.class_filter) + 1, np.uint8))

    def _lay_out(self, plan: KeySpacePlan, counts: Mapping[int, int]) -> None:
        """Counts and offsets that follow from the plan, and its arrays."""
        words, program = self.words, self.program
        for word in at.OF_PROGRAM:
            self.keep(word.number, getattr(program, word.name.lower()))
        entry_bytes = (plan.filters + 7) // 8
        for name, count in (
            (at.COLUMNS, len(plan.columns)),
            (at.N_WINDOWS, len(plan.windows)),
            (at.N_BEGINNINGS, len(program.beginning)),
            (at.CHAINS, len(program.chain_filter)),
            (at.LINKS, len(program.link_filter)),
            (at.POINTERS, len(program.pt_kind)),
            (at.DISTINCTS, len(program.dc_link)),
            (at.SUMS_I, len(program.si_col)),
            (at.SUMS_F, len(program.sf_col)),
            (at.DEVIATIONS, len(program.sd_col)),
            (at.CLASSES, len(program.class_filter)),
            (at.LINE_CLASSES, program.formula_class.min(initial=len(program.class_filter))),
            (at.UNTIED, program.sortable.all() and not len(program.chain_filter) and not len(program.link_filter)),
            (at.LINES, len(plan.lines)),
            (at.FORMULAS, len(plan.formulas)),
            (at.JUDGING, len(plan.judging)),
            (at.COOLING, program.cooldown_col.max(initial=-1) + 1),
            (at.LINE_BYTES, (len(plan.judging) + 7) // 8),
            (at.FILTER_BYTES, entry_bytes),
            (at.BITS_BYTES, 0 if plan.filters == 1 else entry_bytes),
            *counts.items(),
        ):
            words[name] = count
        self._lay_out_rows()

    def _lay_out_rows(self) -> None:
        """Where the fields of rows stand, and what follows from it."""
        words = self.words
        for row, width, _ in at.ROWS_OF.values():
            words[width] = row.lay_out(words)
        for row, links, link_at in (
            (at.RECORD, at.RECORD_LINKS, at.RECORD_LINK_AT),
            (at.KEYED, at.SLOT_LINKS, at.SLOT_LINK_AT),
        ):
            numbers = row.numbers_at(words, "record")
            words[links] = len(numbers)
            self.keep(link_at, np.array(numbers, np.int64))
        self.keep(at.SLOT_BORN, at.KEYED.newborn(words, int(words[at.SLOT_BYTES])))

    def take_over(self, old: MemoryMap) -> None:
        """Take the records and keys of ``old``, of the same columns and entries; what hangs on a plan is as new."""
        for word in at.CARRIED:
            if word.number in old._regions:
                self._place(word.number, old._regions.pop(word.number))
            else:
                self.words[word.number] = old.words[word.number]
        self._lay_out_rows()
        for pool in at.ROWS_OF:
            self.make_room(pool, 0)
            self._carry_rows(pool, old)

    def _carry_rows(self, pool: int, old: MemoryMap) -> None:
        row, width, _ = at.ROWS_OF[pool]
        mine, theirs = self.rows(pool), old.rows(pool)
        mine[:] = row.newborn(self.words, int(self.words[width]))
        for to, source, length in row.carried(self.words, old.words):
            mine[:, to : to + length] = theirs[:, source : source + length]

    def keep(self, name: int, array: np.ndarray[Any, np.dtype[Any]]) -> None:
        """Hold ``array``, of the kind declared for word ``name``, and put its address there."""
        wanted = _DTYPES[name]
        if array.dtype != wanted or not array.flags.c_contiguous:
            array = np.require(array, wanted, ["C"])
        self._kept[name] = array
        self.words[name] = array.__array_interface__["data"][0]  # as ctypes.data, which takes longer than all the rest

    def array(self, name: int) -> Any:
        """The array that is held for word ``name``."""
        return self._kept[name]

    def let_go(self, names: Iterable[int]) -> None:
        """Hold the arrays of these words no longer."""
        for name in names:
            self._kept.pop(name, None)
            self.words[name] = 0

    def run(self, task: int, argument: int = 0, more: int = 0) -> int:
        """Run one of the tasks of ``entry``."""
        return self.call(doing(task), task, int(argument), int(more))

    def call(self, function: Callable[..., Any], *arguments: int) -> int:
        """Call a compiled ``function`` of the address of the words and ``arguments``."""
        if not WATCHES:
            return int(function(self.words.ctypes.data, *arguments))
        pieces = self.pieces()
        with watching(pieces, lambda address: whereabouts(address, pieces, self.words, _DECLARED)):
            return int(function(self.words.ctypes.data, *arguments))

    def pieces(self) -> list[Piece]:
        """What is alive: the words, rows and bytes in use, whole tables, and every array that is held."""
        words = self.words
        found = [Piece("words", words.ctypes.data, words.nbytes)]
        for pool, (_, count) in _POOLS.items():
            rows_at = words.ctypes.data + 8 * count
            found.append(Piece(at.TABLE.words[pool].name, int(words[pool]), 0, rows_at, self._width(pool)))
        found += [Piece(at.TABLE.words[t].name, int(words[t]), self._regions[t].array.nbytes) for t in _TABLES]
        return found + [Piece(at.TABLE.words[k].name, a.ctypes.data, a.nbytes) for k, a in self._kept.items()]

    def bytes_held(self, names: frozenset[int] | None = None) -> int:
        """Bytes of the state, room to grow included, without what belongs to one batch; or of the arrays ``names``."""
        sizes = {name: a.nbytes for name, a in self._kept.items() if at.TABLE.words[name].life == "plan"}
        sizes |= {name: r.array.nbytes - r.dropped for name, r in self._regions.items()}
        return sum(size for name, size in sizes.items() if names is None or name in names)

    def make_room(self, pool: int, more: int) -> None:
        """Room for ``more`` rows (or bytes) in a pool.

        Where it must grow, it grows by a little more, so that little is wasted: large regions grow in place.
        """
        width, need = self._width(pool), int(self.words[_POOLS[pool][1]]) + more
        if need * width > len(self._regions[pool].array):
            dropped = self._regions[pool].dropped // width
            self._resize(pool, dropped + _with_room(need - dropped, width))
        self._regions[pool].expect_growth(need * width)

    def fits(self, pool: int, more: int) -> bool:
        """Whether ``more`` rows (or bytes) fit in a pool without moving it."""
        return (int(self.words[_POOLS[pool][1]]) + more) * self._width(pool) <= self._regions[pool].room()

    def drop(self, first: int) -> None:
        """Give back the memory of records before ``first`` and of their ids; that of where its own id begins stays."""
        if first > 1:
            self._regions[at.RECORDS].drop((first - 1) * self._width(at.RECORDS))
            ends = self.field(at.RECORDS, at.ID_END, np.uint32)
            self._regions[at.IDS].drop(int(ends[first - 1]))

    def close_up(self) -> None:
        """Records and ids begin at the beginning again."""
        for pool in (at.RECORDS, at.IDS):
            self._regions[pool].dropped = 0

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
        if self.words[at.WIDE_CLOCKS] or (base <= lowest and highest - base < NARROW):
            return
        first = int(self.words[at.FIRST_RECORD])  # records before it have no memory
        held = self.clocks(slice(first, None))
        if len(held):
            lowest, highest = min(lowest, int(held.min())), max(highest, int(held.max()))
        if highest - lowest < NARROW:
            base = lowest - (NARROW - (highest - lowest)) // 4  # room for late records, and more for time to pass
            self.words[at.CLOCK_BASE] = base
            self.field(at.RECORDS, at.CLOCK, np.uint32)[first:] = held - base
            return
        first = max(first - 1, 0)  # it says where the id of the first begins
        held, rows = self.clocks(slice(first, None)), self.rows(at.RECORDS)[first:].copy()
        self.words[at.WIDE_CLOCKS], self.words[at.CLOCK_BASE] = 1, 0
        self._lay_out_rows()
        self.make_room(at.RECORDS, 0)
        self.rows(at.RECORDS)[first:, : rows.shape[1]] = rows  # the upper half comes last
        self.field(at.RECORDS, at.CLOCK, np.uint32)[first:] = held & (NARROW - 1)
        self.field(at.RECORDS, int(self.words[at.CLOCK_HIGH_AT]))[first:] = held >> 32

    def make_table(self, table: int, count: int, more: int = 0) -> None:
        """Room for ``count`` items in a table, of which up to ``more`` come now.

        A large table that is nearly full begins to grow by a quarter, and goes on with it at each call by as many
        blocks as ``more`` asks for; others, and those that so many items would fill before, are filled anew at once.
        Without ``more`` all is done at once, which is quicker as a whole.
        """
        places = _TABLES[table][0]
        blocks, split = int(self.words[table + at.BLOCKS_OF]), int(self.words[table + at.SPLIT_OF])
        former = int(self.words[table + at.FORMER_OF]) if split else blocks
        large = blocks >= STEPWISE_FROM and count > AT_ONCE * more
        stepwise = more and large and count <= FILL_HARD * places * former
        if not split and count <= (FILL_GROW if stepwise else FILL_MAX) * places * blocks:
            if stepwise and count + _BATCHES_AHEAD * more > FILL_GROW * places * blocks:
                self._expect(table, blocks, int(blocks * STEP_GROWTH))
            return
        if not stepwise:
            if count > FILL_MAX * places * former:
                self.rebuild(table, _blocks_for(count, places), fill=True)
            return
        self._move_on(table, int(more / (places * (FILL_MAX - FILL_GROW))) + 1)

    def _move_on(self, table: int, count: int) -> None:
        """One step of growth (see ``growth``), over ``count`` blocks; the first where the table does not grow yet."""
        words = self.words
        former, split = int(words[table + at.FORMER_OF]), int(words[table + at.SPLIT_OF])
        first, blocks = not split, int(words[table + at.BLOCKS_OF])
        if first:
            former = blocks
        end = former if first else (split * former) >> 32
        start = max(0, end - count)
        pushed = (self.run(RUN_END, table, end - 1) - (end - 1)) % blocks  # blocks that they may have been pushed on to
        moved = min(end - start + pushed, blocks)
        self.keep(at.MOVED, np.empty(moved * _TABLES[table][0], np.int64))
        self.keep(at.MOVED_HASH, np.empty(moved * _TABLES[table][0], np.int64))
        words[at.MOVE_FROM] = start
        self.run(TAKE_OUT, table, moved)
        if first:
            self._resize_table(table, int(blocks * STEP_GROWTH))
        words[table + at.FORMER_OF], words[table + at.SPLIT_OF] = former, -(-(start << 32) // former)
        self.run(PUT_IN, table)
        self._expect(table, former, (start * int(words[table + at.BLOCKS_OF])) // former)

    def _expect(self, table: int, former: int, end: int) -> None:
        """A table that grows, or will, is filled next below block ``end``, down to where it ended before."""
        self._regions[table].expect(max(former * BLOCK, end * BLOCK - ahead_of(end * BLOCK)), end * BLOCK)

    def _resize_table(self, table: int, blocks: int) -> None:
        region = self._regions[table]
        region.resize(blocks * BLOCK)
        self._place(table, region)
        self.words[table + at.BLOCKS_OF] = blocks

    def rebuild(self, table: int, size: int, *, fill: bool) -> None:
        """An empty table of ``size`` blocks, and its items put into it if ``fill``."""
        if size != self.words[table + at.BLOCKS_OF]:
            self._resize_table(table, size)
        self.words[table + at.SPLIT_OF] = 0
        self._regions[table].array[:] = 0
        if fill:
            self.run(_TABLES[table][1])

    def empty(self, table: int, count: int) -> None:
        """Nothing in a table, and room for ``count`` items."""
        self.rebuild(table, _blocks_for(count, _TABLES[table][0]), fill=False)

    def refill(self, table: int, count: int) -> None:
        """Fill a table anew; made smaller if it is much too large for ``count``."""
        size = _blocks_for(count, _TABLES[table][0])
        self.rebuild(table, min(int(self.words[table + at.BLOCKS_OF]), size), fill=True)

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
    return rows + (rows >> (6 if rows * width >= MAPPED_FROM else 4)) + 16


def _eights(size: int) -> int:
    return (int(size) + 7) // 8 * 8


def _blocks_for(count: int, places: int) -> int:
    return int(count * GROWTH / (FILL_MAX * places)) + 1
