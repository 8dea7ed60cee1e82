"""``check(state)``: what must hold of a state between any two calls, found anew from its records and panes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import xxhash

from crossline.state.arithmetic.superaccumulator import LIMBS
from crossline.state.panes import layout as at
from crossline.state.panes import program as kinds
from crossline.state.panes.heap import BLOCK_UNITS
from crossline.state.panes.store import PaneState

LEAST = {kinds.P_LEAST_INT, kinds.P_LEAST_FLOAT}
REAL = {kinds.P_LEAST_FLOAT, kinds.P_MOST_FLOAT, kinds.P_SUM_FLOAT}
SKETCHES = {kinds.P_CODES, kinds.P_BUCKETS_INT, kinds.P_BUCKETS_FLOAT, kinds.P_TALLY}
CODES_MAX = 1024


@dataclass
class Slot:
    """One key: its row, its records as (clock, values as 64 bits, bits), its panes as (place, number, bytes)."""

    number: int
    row: bytes
    key: bytes
    records: list[tuple[int, bytes, int]] = field(default_factory=list)
    panes: list[tuple[int, int, bytes]] = field(default_factory=list)


def of(kind: str, data: bytes, offset: int = 0) -> Any:
    return np.frombuffer(data, kind, 1, offset)[0].item()


class Seen:
    """A state's memory: its slots, and the blocks of the heap that something stands in."""

    def __init__(self, state: PaneState) -> None:
        memory = state._memory
        self.memory, self.words = memory, {word.name: int(memory.words[word.number]) for word in at.TABLE.words}
        self.heap = memory._heap.array
        self.used: dict[int, int] = {}  # units by block
        self.slots = [self.slot(number, row.tobytes()) for number, row in enumerate(memory.slots())]
        self.alive = [slot for slot in self.slots if slot is not None]

    def array(self, name: str) -> list[Any]:
        return list(self.memory.kept(int(getattr(at, name))).tolist())

    def block(self, handle: int, size: int) -> bytes:
        assert handle not in self.used, f"block {handle} is had twice"
        self.used[handle] = BLOCK_UNITS[size]
        return bytes(self.heap[handle * at.UNIT : (handle + BLOCK_UNITS[size]) * at.UNIT])

    def slot(self, number: int, row: bytes) -> Slot | None:
        if of("u4", row, at.OWN_KEY) == 0:
            return None
        length = of("u4", row, at.OWN_LENGTH)
        size = next(k for k, units in enumerate(BLOCK_UNITS) if units >= (length >> 3) + 1)
        slot = Slot(number, row, self.block(of("u4", row, at.OWN_KEY), size)[:length])
        raw, width = of("u4", row, at.RAW), self.words["ROW_BYTES"]
        count, head = of("u4", row, at.RAW_N), of("u4", row, at.RAW_HEAD)
        if raw:
            data = self.block(raw, of("u4", row, at.RAW_CLASS))
            assert (head + count) * width <= len(data)
            for k in range(head, head + count):
                record = data[k * width : (k + 1) * width]
                values = 8 * self.words["COLUMNS"]
                bits = int.from_bytes(record[8 + values :], "little") if self.words["BITS_WORDS"] else -1
                slot.records.append((of("i8", record), record[8 : 8 + values], bits))
        slot.panes = list(self.panes(row))
        return slot

    def panes(self, row: bytes) -> Iterator[tuple[int, int, bytes]]:
        """The panes from the first to the last, over chunks that are linked both ways."""
        place, end, width = of("i8", row, at.FIRST_AT), of("i8", row, at.END_AT), self.words["PANE_BYTES"]
        chunk, before = place >> 4, 0
        while place != end:
            data = self.block(chunk, self.words["CHUNK_CLASS"])
            assert of("u4", data, at.CHUNK_BEFORE) == before
            while place != end and place & 15 < self.words["CHUNK_PANES"]:
                pane = data[8 + (place & 15) * width :][:width]
                yield place, of("i8", row, at.BASE) + of("i4", pane), pane
                place += 1
            before, chunk = chunk, of("u4", data, at.CHUNK_AFTER)
            if place != end:
                place = chunk << 4


def check(state: PaneState) -> None:
    """Raises AssertionError where keys, records, panes, cursors, running aggregates or the heap are not so."""
    seen = Seen(state)
    check_counts(seen)
    check_keys(seen)
    for slot in seen.alive:
        check_order(seen, slot)
        check_parts(seen, slot)
        for c in range(seen.words["N_WINDOWS"]):
            check_cursor(seen, slot, c)
    check_heap(seen)
    check_ids(seen)


def check_counts(seen: Seen) -> None:
    words, free, number = seen.words, [], seen.words["FREE_SLOT"]
    while number >= 0:
        free.append(number)
        number = of("i4", seen.memory.slots()[number].tobytes(), at.NEXT_FREE_SLOT)
    assert sorted(free) == [number for number, slot in enumerate(seen.slots) if slot is None]
    assert words["N_FREE"] == len(free)
    assert words["N_RECORDS"] == sum(len(slot.records) for slot in seen.alive)
    assert words["N_PANES"] == sum(len(slot.panes) for slot in seen.alive)


def check_keys(seen: Seen) -> None:
    """The table has each slot in use once, where a search for its key meets it."""
    table = seen.memory.kept(at.KEY_TABLE).view(np.uint64).tolist()
    former, split, places = (seen.words[name] for name in ("KEY_FORMER", "KEY_SPLIT", "KEY_PLACES"))
    assert len(table) == places >= former
    assert split < former < places or split == former == places
    assert sorted((there & 0xFFFFFFFF) - 1 for there in table if there) == [slot.number for slot in seen.alive]
    assert len({slot.key for slot in seen.alive}) == len(seen.alive)
    for slot in seen.alive:
        hash_ = xxhash.xxh64_intdigest(slot.key)
        assert of("u8", slot.row, at.OWN_HASH) == hash_
        upper = hash_ >> 32
        place = upper * former >> 32
        if place >= split:
            place = upper * places >> 32
        while table[place] != upper << 32 | slot.number + 1:
            assert table[place], f"a search for {slot.key!r} ends before it"
            place = (place + 1) % places


def check_order(seen: Seen, slot: Slot) -> None:
    """Records stand by their clocks; panes by their numbers, none behind that of the first record."""
    clocks, numbers = [record[0] for record in slot.records], [number for _, number, _ in slot.panes]
    assert clocks == sorted(clocks)
    assert numbers == sorted(set(numbers))
    if clocks and numbers:
        assert numbers[-1] <= clocks[0] // seen.words["RESOLUTION"]


def check_parts(seen: Seen, slot: Slot) -> None:
    """What a pane keeps of an entry's records agrees with how many there were; sketches are sorted."""
    parts = list(zip(*(seen.array(name) for name in ("PART_KIND", "PART_AT", "PART_COUNT")), strict=True))
    for _, _, pane in slot.panes:
        for kind, start, count_at in parts:
            count = of("i4", pane, count_at)
            assert count >= 0
            if kind == kinds.P_STREAK:
                assert 0 <= of("i4", pane, start) <= count
            elif kind == kinds.P_SUM_FLOAT and math.isnan(of("f8", pane, start)):
                size = next(k for k, units in enumerate(BLOCK_UNITS) if units >= LIMBS)
                seen.block(of("i8", pane, start + 8), size)
            elif kind in SKETCHES and of("u4", pane, start):
                check_sketch(seen, kind, of("u4", pane, start), count)
            elif kind in SKETCHES:
                assert count == 0


def check_sketch(seen: Seen, kind: int, handle: int, count: int) -> None:
    data = seen.block(handle, of("i4", bytes(seen.heap[handle * at.UNIT :][:4])))
    n = of("i4", data, at.SKETCH_ITEMS)
    if kind != kinds.P_CODES:
        buckets = np.frombuffer(data, np.int32, 2 * n, 8).reshape(n, 2).tolist()
        assert [bucket for bucket, _ in buckets] == sorted({bucket for bucket, _ in buckets})
        assert min((each for _, each in buckets), default=1) > 0
        assert sum(each for _, each in buckets) == count
    elif n >= 0:
        codes = np.frombuffer(data, np.uint32, n, 8).tolist()
        assert codes == sorted(set(codes))
        assert 1 <= n <= min(count, CODES_MAX)


def enters(record: tuple[int, bytes, int], entry: int) -> bool:
    return bool(record[2] >> entry & 1)


def check_cursor(seen: Seen, slot: Slot, c: int) -> None:
    """A cursor holds a run of panes and one of records, and its running aggregates are what those make of them."""
    start = at.WINDOW_AT + c * at.A_WINDOW.bytes
    first, end = (of("i4", slot.row, start + field) for field in (at.R_FIRST, at.R_END))
    if end < 0:
        return
    assert 0 <= first <= end <= len(slot.records)
    entry, delay, exact = (seen.array(name)[c] for name in ("WINDOW_FILTER", "DELAY", "EXACT"))
    panes = []
    if exact < 0:
        places = [*(place for place, _, _ in slot.panes), of("i8", slot.row, at.END_AT)]
        p_first = places.index(of("i8", slot.row, start + at.P_FIRST))
        p_end = places.index(of("i8", slot.row, start + at.P_END)) if delay else len(slot.panes)
        assert p_first <= p_end
        panes = [pane for _, _, pane in slot.panes[p_first:p_end]]
    inside = [record for record in slot.records[first:end] if enters(record, entry)]
    counted = [pane for pane in panes if of("i4", pane, seen.array("COUNT_PART")[c])]
    for a in range(*seen.array("ACC_AT")[c : c + 2]):
        check_acc(seen, slot, a, inside, counted)


def check_acc(seen: Seen, slot: Slot, a: int, records: list[Any], panes: list[bytes]) -> None:
    kind, part = seen.array("ACC_KIND")[a], seen.array("ACC_PART")[a]
    start, column = seen.array("PART_AT")[part], seen.array("PART_COL")[part]
    place = seen.words["ACCS_AT"] + 16 * a
    form = "f8" if kind in REAL else "i8"
    low, up = of(form, slot.row, place), of("f8" if kind == kinds.P_SUM_FLOAT else "i8", slot.row, place + 8)
    values = [of(form, record[1], 8 * column) for record in records] if kind != kinds.P_COUNT else []
    if kind == kinds.P_COUNT:
        assert low == len(records) + sum(of("i4", pane, start) for pane in panes)
    elif kind == kinds.P_SUM_INT:
        kept = [of("i8", pane, start) + of("i4", pane, start + 8) * 2**64 for pane in panes]
        assert low + up * 2**64 == sum(values) + sum(kept)
    elif kind == kinds.P_SUM_FLOAT:
        pairs = [of("f8", pane, start + b) for pane in panes for b in (0, 8)]
        wide = any(math.isnan(of("f8", pane, start)) for pane in panes)
        if not math.isnan(low) and not wide:
            assert math.fsum([low, up, *(-x for x in (*values, *pairs))]) == 0.0
    elif up == 1:  # it is known
        values += [of(form, pane, start) for pane in panes]
        assert low == (min if kind in LEAST else max)(values)


def check_heap(seen: Seen) -> None:
    """Each unit that was given out belongs to one block, which something stands in or which is free."""
    for size, handle in enumerate(seen.array("FREE")):
        while handle:
            data = seen.block(handle, size)
            handle = of("i8", data)  # noqa: PLW2901 - the next of the list
    end = 1
    for handle, units in sorted(seen.used.items()):
        assert handle == end, f"units from {end} to {handle} are lost, or had twice"
        end += units
    assert end == seen.words["HEAP_TOP"]


def check_ids(seen: Seen) -> None:
    """Each block is filled from its first place on, and what is not free is counted."""
    blocks = np.frombuffer(seen.memory.kept(int(at.ID_TABLE)), np.uint64).reshape(-1, 8)
    assert len(blocks) == seen.words["ID_BLOCKS"]
    taken = blocks[:, 4:] != 0
    assert (np.diff(taken.astype(int), axis=1) <= 0).all()
    assert seen.words["N_IDS"] == int(taken.sum())
