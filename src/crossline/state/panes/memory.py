"""All memory of one key space of panes, as the table of words shows it to compiled code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from crossline.basics.values import I64
from crossline.state.arithmetic.superaccumulator import LIMBS
from crossline.state.memory.address_report import whereabouts
from crossline.state.memory.bounds_check import WATCHES, Piece, watching
from crossline.state.memory.regions import Region, ahead_of
from crossline.state.panes import layout as at
from crossline.state.panes.aggregates.bucket_counts import FEW_MAX, GROUPS, TOPS, WORDS
from crossline.state.panes.aggregates.sketches import BUCKETS, CODE_PLACES, CODES_MAX, REGISTERS
from crossline.state.panes.entry_points import KEY_RUN, PUT_IDS, PUT_KEY, PUT_KEYS, TAKE_KEYS, compiled
from crossline.state.panes.heap import BLOCK_UNITS, class_for
from crossline.state.panes.pane_lifecycle import AT_A_STEP
from crossline.state.panes.program import PaneProgram
from crossline.state.panes.recent_ids import BLOCK, CLOCKS_AT, PLACES

FULL_OF_4 = 3  # fourths of the places of ids that may be in use
# A table of ids is made anew by steps: from how many blocks on, how many of them at least at each, unless so many times
# the rows of a batch are more than there are; and the blocks that are looked at for how many ids are there to stay.
STEPWISE_FROM, LEAST_MOVED, AT_ONCE, SAMPLED = 1 << 14, 64, 32, 4096
# A table of keys: its least places, how full it begins to grow and, by steps, has grown; from how many places by steps.
LEAST_OF_KEYS, FULL_OF_KEYS, MOST_OF_KEYS, STEPWISE_FROM_KEYS = 16, 0.6, 0.75, 1 << 16


def _region(size: int = 0) -> Region:
    """On huge pages from its first byte: a record reads a slot, panes and ids, each at another place."""
    return Region(size, small_pages=0)


class Memory:
    """``words`` is the table that compiled code reads; arrays live as long as their address stands there."""

    def __init__(self, program: PaneProgram) -> None:
        self.words: I64 = np.zeros(at.WORDS, np.int64)
        self._kept: dict[int, Any] = {}
        self._slots, self._heap, self._keys, self._ids, self._old_ids = (_region() for _ in range(5))
        self._lay_out(program)
        words = self.words
        words[at.FREE_SLOT], words[at.HEAP_TOP] = -1, 1  # block 0 is none
        words[at.FOLD_TO] = words[at.DROP_TO] = at.NONE_MS
        self.keep(at.FREE, np.zeros(len(BLOCK_UNITS), np.int64))
        self.make_slots(0)
        self.make_heap(0)
        self._empty_keys()
        self._empty_ids(8)

    def _lay_out(self, program: PaneProgram) -> None:
        """Numbers and offsets that follow from the plan, and its arrays."""
        words, names = self.words, {word.name: word.number for word in at.TABLE.words}
        for name, number in program.numbers.items():
            words[names[name]] = number
        for name, array in program.arrays.items():
            self.keep(names[name], array)
        self.keep(at.AGGREGATE_FIGURE, program.aggregate_figure)
        self.keep(at.SIZES, np.array(BLOCK_UNITS, np.int64))
        chunk = class_for(-(-(8 + int(words[at.CHUNK_PANES]) * int(words[at.PANE_BYTES])) // at.UNIT))
        row_bytes = 8 * (1 + int(words[at.COLUMNS]) + int(words[at.BITS_WORDS]))
        words[at.ROW_BYTES], words[at.CHUNK_CLASS] = row_bytes, chunk
        words[at.STEP_UNITS] = AT_A_STEP * BLOCK_UNITS[chunk] + row_bytes + 64
        words[at.SLOT_BYTES] = at.KEYED.lay_out(words)
        self.keep(at.SLOT_BORN, at.KEYED.newborn(words, int(words[at.SLOT_BYTES])))
        scratch: tuple[tuple[int, Any], ...] = (
            (at.WIDE, np.zeros(LIMBS, np.int64)),
            (at.FEW, np.zeros(FEW_MAX, np.int64)),
            (at.CODES, np.zeros(CODE_PLACES, np.uint32)),
            (at.TOUCHED, np.zeros(CODES_MAX + 1, np.int32)),
            (at.REGISTERS, np.zeros(REGISTERS, np.uint8)),
            (at.FIGURE, np.zeros(3, np.int64)),
        )
        for number, each in scratch:
            self.keep(number, each)
        if words[at.SKETCHES]:
            self.keep(at.BUCKETS, np.zeros(BUCKETS, np.int64))
            for number, count in ((at.BUCKET_WORDS, WORDS), (at.BUCKET_GROUPS, GROUPS), (at.BUCKET_TOPS, TOPS)):
                self.keep(number, np.zeros(count + 1, np.uint32))

    def take_over(self, old: Memory) -> None:
        """Take the keys and their past over from ``old``, of the same columns, entries and parts."""
        for word in at.CARRIED:
            if word.role in {"count", "number"}:
                self.words[word.number] = old.words[word.number]
        for name in (at.KEY_TABLE, at.ID_TABLE, at.OLD_ID_TABLE, at.FREE):
            if name in old._kept:
                self.keep(name, old._kept[name])
        for name in (at.HEAP_ROOM, at.FOLD_TO, at.DROP_TO):
            self.words[name] = old.words[name]
        self._heap, self._keys, self._ids, self._old_ids = old._heap, old._keys, old._ids, old._old_ids
        self.words[at.HEAP] = self._heap.array.ctypes.data
        self.make_slots(0)
        mine, theirs = self.slots(), old.slots()
        mine[:] = at.KEYED.newborn(self.words, int(self.words[at.SLOT_BYTES]))
        for to, source, length in at.KEYED.carried(self.words, old.words):
            mine[:, to : to + length] = theirs[:, source : source + length]

    def take_slot(self, old: Memory, slot: int) -> None:
        """Take one key and its past over from ``old``, of the same columns, entries and parts, into nothing.

        The blocks of its heap are those of ``old``, which is of no use any more once they are written to.
        """
        words = (at.N_RECORDS, at.N_PANES, at.N_LARGEST, at.HEAP_TOP, at.HEAP_ROOM, at.FOLD_TO, at.DROP_TO)
        for name in words:
            self.words[name] = old.words[name]
        self.keep(at.FREE, old._kept[at.FREE])
        self._heap = old._heap
        self.words[at.HEAP], self.words[at.N_SLOTS] = self._heap.array.ctypes.data, 1
        self.make_slots(0)
        mine, theirs = self.slots(), old.slots()
        mine[0] = at.KEYED.newborn(self.words, int(self.words[at.SLOT_BYTES]))
        for to, source, length in at.KEYED.carried(self.words, old.words):
            mine[0, to : to + length] = theirs[slot, source : source + length]
        self.run(PUT_KEY, 0)

    def keep(self, name: int, array: Any) -> None:
        """Hold ``array``, of the kind declared for word ``name``, and put its address there."""
        kind = at.TABLE.words[name].dtype
        array = np.ascontiguousarray(array) if kind is None else np.require(array, kind, ["C"])
        self._kept[name] = array
        self.words[name] = array.ctypes.data

    def kept(self, name: int) -> Any:
        """The array that was given to ``keep``."""
        return self._kept[name]

    def let_go(self) -> None:
        """Hold the arrays of the batch no longer."""
        for name in at.OF_BATCH:
            self._kept.pop(name, None)
            self.words[name] = 0

    def run(self, task: int, argument: int = 0, more: int = 0) -> int:
        """Run one of the tasks of ``entry``."""
        if not WATCHES:
            return int(compiled()(self.words.ctypes.data, task, argument, more))
        pieces = self.pieces()
        with watching(pieces, lambda address: whereabouts(address, pieces, self.words, {"SLOTS": at.KEYED})):
            return int(compiled()(self.words.ctypes.data, task, argument, more))

    def pieces(self) -> list[Piece]:
        """What is alive: the words, slots and what was given out of the heap, and every array that is held."""
        start = self.words.ctypes.data
        slots, heap = self._slots.array.ctypes.data, self._heap.array.ctypes.data
        found = [
            Piece("words", start, self.words.nbytes),
            Piece("SLOTS", slots, 0, start + 8 * at.N_SLOTS, int(self.words[at.SLOT_BYTES])),
            Piece("HEAP", heap, 0, start + 8 * at.HEAP_TOP, at.UNIT),
        ]
        kept = self._kept.items()
        return found + [Piece(at.TABLE.words[name].name, array.ctypes.data, array.nbytes) for name, array in kept]

    def run_through(self, task: int, start: int, end: int, after: Callable[[], Any] = lambda: None) -> None:
        """Have a task done on the rows from ``start`` to ``end``, with as much memory as it asks for.

        ``after`` is called whenever it stops, at its end too: it makes room for hits.
        """
        while True:
            self.words[at.HEAP_NEED] = 0
            start = self.run(task, start)
            after()
            if start >= end:
                return
            if self.words[at.HEAP_NEED]:
                self.make_heap(int(self.words[at.HEAP_NEED]))

    def make_heap(self, units: int) -> None:
        """Room for ``units`` that were never given out, and a little more."""
        need = int(self.words[at.HEAP_TOP]) + units
        need += (need >> 4) + 64
        self._heap.resize(need * at.UNIT)
        self.words[at.HEAP], self.words[at.HEAP_ROOM] = self._heap.array.ctypes.data, need

    def expect_growth(self) -> None:
        """Say where the batch, and those after it, will write what was never written."""
        words = self.words
        self._slots.expect_growth(int(words[at.N_SLOTS]) * int(words[at.SLOT_BYTES]))
        self._heap.expect_growth(int(words[at.HEAP_TOP]) * at.UNIT)
        places, former, split = (int(words[name]) for name in (at.KEY_PLACES, at.KEY_FORMER, at.KEY_SPLIT))
        if split < places:
            end = split * places // former * at.A_PLACE.bytes
            self._keys.expect(max(former * at.A_PLACE.bytes, end - ahead_of(end)), end)
        if words[at.OLD_BLOCKS]:
            size = len(self._ids.array)
            filled = int(words[at.OLD_MOVED]) * size // int(words[at.OLD_BLOCKS])
            self._ids.expect(filled, min(filled + ahead_of(size), size))

    def make_slots(self, more: int) -> None:
        """Room for ``more`` slots than there are."""
        width, need = int(self.words[at.SLOT_BYTES]), int(self.words[at.N_SLOTS]) + more
        if need * width > len(self._slots.array):
            self._slots.resize((need + (need >> 4) + 16) * width)
        self.words[at.SLOTS] = self._slots.array.ctypes.data

    def make_keys(self, more: int) -> None:
        """Room for ``more`` keys in their table.

        A large one grows by steps, one at each call, which are done long before it is full; others grow at once.
        """
        words = self.words
        count = int(words[at.N_SLOTS] - words[at.N_FREE]) + more
        while words[at.KEY_SPLIT] < words[at.KEY_PLACES] or count > FULL_OF_KEYS * words[at.KEY_PLACES]:
            former = int(words[at.KEY_FORMER])
            by_steps = former >= STEPWISE_FROM_KEYS and count <= MOST_OF_KEYS * former
            self._grow_keys(int(more / (MOST_OF_KEYS - FULL_OF_KEYS)) + LEAST_MOVED if by_steps else former, count)
            if by_steps:
                return

    def _grow_keys(self, step: int, count: int) -> None:
        """One step of growth, over ``step`` places of before; the first where the table does not grow yet."""
        words = self.words
        places, split = int(words[at.KEY_PLACES]), int(words[at.KEY_SPLIT])
        start, larger = max(0, split - step), places
        if split == places:
            larger = max(places + places // 2, 2 * count)
        taken = min(split - start + self.run(KEY_RUN, split), places)
        self.keep(at.KEYS_MOVED, np.empty(taken, np.int64))
        keys = self.run(TAKE_KEYS, start, taken)
        if larger > places:
            self._resize_keys(larger)
        words[at.KEY_SPLIT] = start
        self.run(PUT_KEYS, keys)
        self._kept.pop(at.KEYS_MOVED)
        if start == 0:
            words[at.KEY_FORMER] = words[at.KEY_SPLIT] = larger

    def make_ids(self, more: int) -> None:
        """Room for ``more`` ids in their table; those that are settled are forgotten where it fills up.

        A large table is made anew by steps, one at each call, which are done long before the old or new one is full.
        """
        words = self.words
        if words[at.OLD_BLOCKS]:
            self._move_ids(more * (3 * int(words[at.OLD_BLOCKS]) // int(words[at.ID_BLOCKS]) + 1) + LEAST_MOVED)
        while FULL_OF_4 * PLACES * int(words[at.ID_BLOCKS]) < 4 * (int(words[at.N_IDS]) + more):
            if words[at.OLD_BLOCKS]:
                self._move_ids(int(words[at.OLD_BLOCKS]))
                continue
            self._begin_ids(more)

    def _begin_ids(self, more: int) -> None:
        """A new table of ids, into which those of the old one are moved: at once where it is small."""
        words = self.words
        old, blocks = self._kept[at.ID_TABLE], int(words[at.ID_BLOCKS])
        alive = self._alive_ids(old, blocks)
        # As many again where most are there to stay: then there are ever more of them.
        grows = 2 * alive > int(words[at.N_IDS])
        self._old_ids = self._ids
        self._empty_ids((3 if grows else 2) * (alive + more))
        self.keep(at.OLD_ID_TABLE, old)
        words[at.N_IDS], words[at.OLD_MOVED], words[at.OLD_BLOCKS] = 0, 0, blocks
        self._move_ids(LEAST_MOVED if blocks >= STEPWISE_FROM and alive > AT_ONCE * more else blocks)

    def _alive_ids(self, table: Any, blocks: int) -> int:
        """How many ids are not settled; of a large table, what some blocks all over it let expect, and some more."""
        step = max(1, blocks // SAMPLED)
        clocks = table.view(np.uint64).reshape(blocks, -1)[::step, CLOCKS_AT // 8 :]
        alive = int(np.count_nonzero(clocks > np.uint64(int(self.words[at.FOLD_TO]) + 2**63)))
        return alive if step == 1 else max(alive * step * 17 // 16, int(self.words[at.N_IDS]) // 8)

    def _move_ids(self, count: int) -> None:
        """Move the ids of up to ``count`` blocks of the old table to the new one; it goes with the last of them."""
        words = self.words
        self.run(PUT_IDS, min(count, int(words[at.OLD_BLOCKS] - words[at.OLD_MOVED])))
        self._old_ids.drop(int(words[at.OLD_MOVED]) * BLOCK)
        if words[at.OLD_MOVED] == words[at.OLD_BLOCKS]:
            self._kept.pop(at.OLD_ID_TABLE)
            self._old_ids = _region()
            words[at.OLD_ID_TABLE] = words[at.OLD_BLOCKS] = words[at.OLD_MOVED] = 0

    def _empty_keys(self) -> None:
        self._resize_keys(LEAST_OF_KEYS)
        self.words[at.KEY_FORMER] = self.words[at.KEY_SPLIT] = LEAST_OF_KEYS

    def _resize_keys(self, places: int) -> None:
        self._kept.pop(at.KEY_TABLE, None)
        self._keys.resize(places * at.A_PLACE.bytes)
        self.keep(at.KEY_TABLE, self._keys.array.view(np.int64))
        self.words[at.KEY_PLACES] = places

    def _empty_ids(self, places: int) -> None:
        blocks = places // PLACES + 1
        self._ids = _region((blocks + 1) * BLOCK)
        room = self._ids.array
        start = -room.ctypes.data % BLOCK
        self.keep(at.ID_TABLE, room[start : start + blocks * BLOCK])
        self.words[at.ID_BLOCKS] = blocks

    def slots(self) -> Any:
        """The rows of slots, as uint8[count, width]. Not to be held across a growth."""
        width, count = int(self.words[at.SLOT_BYTES]), int(self.words[at.N_SLOTS])
        return self._slots.array[: count * width].reshape(count, width)

    def field(self, offset: int, kind: Any) -> Any:
        """One field of all slots, as a view to read or write at once. Not to be held across a growth."""
        rows = self.slots()
        if not len(rows):
            return np.empty(0, kind)
        return np.ndarray((len(rows),), kind, buffer=rows, offset=offset, strides=(rows.strides[0],))

    def bytes_held(self) -> int:
        """Bytes of the state, room to grow included, without what belongs to one batch."""
        names = (at.KEY_TABLE, at.ID_TABLE, at.OLD_ID_TABLE)
        tables = sum(self._kept[name].nbytes for name in names if name in self._kept) - self._old_ids.dropped
        return len(self._slots.array) + len(self._heap.array) + int(tables)
