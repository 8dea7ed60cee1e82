"""``check(state)``: what must hold of a state between any two calls, found out anew from its records alone."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import xxhash

from crossline.state.memory import layout as at
from crossline.state.windows.program import FIRST, LAST, MAX, MIN
from crossline.state.windows.store import KeySpaceState

LOW = 2**32 - 1
BLOCK = 64
WHERE = {
    at.ID_TABLE: (12, 12, 60, np.int32),
    at.KEY_TABLE: (12, 12, 60, np.int32),
    at.VALUE_TABLE: (7, 8, 7, np.int64),
}


class Seen:
    """A state's memory as lists: of each record its key, clock, id and values, of each key its records in order."""

    def __init__(self, state: KeySpaceState) -> None:
        memory = state._memory
        self.state, self.memory, self.words, self.program = state, memory, memory.words, memory.program
        self.slot = self.of(at.RECORDS, at.SLOT)
        self.clock = memory.clocks().tolist()
        self.ids = cut(memory.rows(at.IDS).tobytes(), memory.field(at.RECORDS, at.ID_END, np.uint32).tolist())
        self.keys = cut(memory.rows(at.KEYS).tobytes(), memory.field(at.SLOTS, at.KEY_END, np.uint32).tolist())
        self.held = [r for r in range(int(self.words[at.FIRST_RECORD]), len(self.slot)) if self.slot[r] >= 0]
        numbers = sorted(self.held, key=lambda r: (self.clock[r], r))
        self.place = {r: place for place, r in enumerate(numbers)}
        self.of_key: list[list[int]] = [[] for _ in self.keys]
        for r in numbers:
            self.of_key[self.slot[r]].append(r)

    def of(self, pool: int, offset: int, kind: Any = np.int32) -> list[Any]:
        return list(self.memory.field(pool, int(offset), kind).tolist())

    def part(self, pool: int, word: int, stride: int, k: int, field: int = 0, kind: Any = np.int32) -> list[Any]:
        return self.of(pool, self.words[word] + stride * k + field, kind)

    def values(self, column: int) -> list[Any]:
        real = bool(self.program.column_float[column])
        return self.of(at.RECORDS, at.VALUE + 8 * column, np.float64 if real else np.int64)

    def bits(self, column: int) -> list[int]:
        return self.of(at.RECORDS, at.VALUE + 8 * column, np.int64)

    def enters(self, r: int, entry: int) -> bool:
        if not self.words[at.BITS_BYTES]:
            return True
        byte = self.of(at.RECORDS, self.words[at.BITS_AT] + entry // 8, np.uint8)[r]
        return bool(byte >> entry % 8 & 1)

    def filters(self, records: Sequence[int], entry: int) -> list[int]:
        return [r for r in records if self.enters(r, entry)]


def cut(data: bytes, ends: list[int]) -> list[bytes]:
    return [data[start:end] for start, end in pairwise([0, *ends])]


def check(state: KeySpaceState) -> None:
    """Raises AssertionError where lists, chains, ties, tables or cursors are not what the records make of them."""
    seen = Seen(state)
    check_lists(seen)
    check_table(seen, at.ID_TABLE, {r: xxhash.xxh64_intdigest(seen.ids[r]) for r in seen.held})
    check_table(seen, at.KEY_TABLE, {s: xxhash.xxh64_intdigest(key) for s, key in enumerate(seen.keys)})
    for k in range(int(seen.words[at.CHAINS])):
        check_chain(seen, k)
    last: dict[int, int] = {}
    for k in range(int(seen.words[at.LINKS])):
        last |= check_ties(seen, k)
    check_table(seen, at.VALUE_TABLE, last)
    assert seen.words[at.N_VALUES] == len(last)
    for c in range(int(seen.words[at.N_WINDOWS])):
        check_cursor(seen, c)


def check_lists(seen: Seen) -> None:
    """The records of a key stand by clock, ties by ingest, linked both ways; keys without any are counted."""
    after, before = seen.of(at.RECORDS, at.AFTER), seen.of(at.RECORDS, at.BEFORE)
    assert len(set(seen.keys)) == len(seen.keys)
    assert seen.words[at.N_VACANT] == sum(not records for records in seen.of_key)
    for records, head, tail in zip(seen.of_key, seen.of(at.SLOTS, at.HEAD), seen.of(at.SLOTS, at.TAIL), strict=True):
        assert (head, tail) == ((records[0], records[-1]) if records else (-1, -1))
        if not records:
            continue
        assert [after[r] for r in records] == [*records[1:], -1]
        assert [before[r] for r in records] == [-1, *records[:-1]]


def check_table(seen: Seen, table: int, wanted: dict[int, int]) -> None:
    """A table holds every item of ``wanted`` (item to hash) once and nothing else, each where a search meets it."""
    places, items_at, pushed_at, kind = WHERE[table]
    blocks, former, split = (int(seen.words[table + word]) for word in (1, 2, 3))
    raw = seen.memory._regions[table].array.reshape(blocks, BLOCK)
    tags, items = raw[:, :places].tolist(), raw[:, items_at:].copy().view(kind)[:, :places].tolist()
    found = Counter(item for b in range(blocks) for tag, item in zip(tags[b], items[b], strict=True) if tag)
    assert found == Counter(list(wanted))
    pushed = [0] * blocks
    for item, hash_ in wanted.items():
        upper, tag = hash_ >> 32, hash_ & 0xFF or 1
        b = upper * (former if upper < split else blocks) >> 32
        while (tag, item) not in zip(tags[b], items[b], strict=True):
            assert raw[b, pushed_at], f"a search for {item} ends at block {b}"
            pushed[b] += 1
            b = (b + 1) % blocks
    assert raw[:, pushed_at].tolist() == pushed


def check_chain(seen: Seen, k: int) -> None:
    """Below is the nearest earlier record of the entry that is strictly smaller; up the latest of those it is for."""
    below, up = (seen.part(at.RECORDS, at.CHAIN_AT, 8, k, field) for field in (at.BELOW, at.UP))
    tails, column = seen.part(at.SLOTS, at.TAIL_AT, 4, k), int(seen.program.chain_col[k])
    sign = -1 if seen.program.chain_max[k] else 1
    values, held = [sign * value for value in seen.values(column)], set(seen.held)
    below = [r if r in held else -1 for r in below]
    for slot, records in enumerate(seen.of_key):
        inside = seen.filters(records, int(seen.program.chain_filter[k]))
        assert tails[slot] == (inside[-1] if inside else -1)
        hung: dict[int, list[int]] = {}
        for n, r in enumerate(inside):
            smaller = [earlier for earlier in inside[:n] if values[earlier] < values[r]]
            assert below[r] == (smaller[-1] if smaller else -1)
            hung.setdefault(below[r], []).append(r)
        for r in inside:
            assert up[r] == hung.get(r, [-1])[-1]


def check_ties(seen: Seen, k: int) -> dict[int, int]:
    """Records of one value are linked both ways; the last of each, as items of the table of values with hashes."""
    before, after = (seen.part(at.RECORDS, at.SAME_AT, 8, k, field) for field in (at.SAME_BEFORE, at.SAME_AFTER))
    values, last = seen.bits(int(seen.program.link_col[k])), {}
    for slot, records in enumerate(seen.of_key):
        same: dict[int, list[int]] = {}
        for r in seen.filters(records, int(seen.program.link_filter[k])):
            same.setdefault(values[r], []).append(r)
        for value, tied in same.items():
            assert [after[r] for r in tied] == [*tied[1:], -1]
            assert [before[r] for r in tied] == [-1, *tied[:-1]]
            last[k << 32 | tied[-1]] = hash_of_value(slot, k, value)
    return last


def hash_of_value(slot: int, link: int, value: int) -> int:
    whole = 2**64 - 1
    x = (value & whole) * 0x9E3779B97F4A7C15 & whole
    x = (x ^ x >> 32 ^ slot << 8 ^ link) * 0xBF58476D1CE4E5B9 & whole
    x = (x ^ x >> 29) * 0x94D049BB133111EB & whole
    return x ^ x >> 32


def check_cursor(seen: Seen, c: int) -> None:
    """First and last are a run of the key's list; count and accumulators are those of the entries in it."""
    stride = 12 * c + at.WINDOWS
    ends = [seen.of(at.SLOTS, stride + field) for field in (at.FIRST_OF, at.LAST_OF, at.COUNT_OF)]
    for slot, (first, last, count) in enumerate(zip(*ends, strict=True)):
        records, run = seen.of_key[slot], []
        if first >= 0:
            run = records[records.index(first) : records.index(last) + 1]
            assert run
        inside = seen.filters(run, int(seen.program.window_filter[c]))
        assert count == len(inside)
        check_sums(seen, c, slot, inside)
        check_pointers(seen, c, slot, inside)


def spans(starts: Any, c: int) -> range:
    return range(int(starts[c]), int(starts[c + 1]))


def check_sums(seen: Seen, c: int, slot: int, inside: list[int]) -> None:
    program = seen.program
    for k in spans(program.si_at, c):
        values = seen.values(int(program.si_col[k]))
        low, up = (seen.part(at.SLOTS, at.SUM_I_AT, 16, k, field, np.int64)[slot] for field in (0, 8))
        assert low + up * 2**64 == sum(values[r] for r in inside)
    for k in spans(program.sf_at, c):
        values = seen.values(int(program.sf_col[k]))
        high, rest = (seen.part(at.SLOTS, at.SUM_F_AT, 16, k, field, np.float64)[slot] for field in (0, 8))
        if not seen.part(at.SLOTS, at.ROUGH_AT, 1, k, 0, np.uint8)[slot]:
            assert math.fsum([high, rest, *(-values[r] for r in inside)]) == 0.0
    for k in spans(program.sd_at, c):
        if program.sd_half[k]:
            check_decayed(seen, k, slot, inside)
            continue
        error = seen.part(at.SLOTS, at.DEVIATION_AT, 40, k, at.ERROR, np.float64)[slot]
        column = seen.values(int(program.sd_col[k]))
        if math.isfinite(error):
            fields = (0, 8, at.SQUARES, at.SQUARES + 8)
            parts = [seen.part(at.SLOTS, at.DEVIATION_AT, 40, k, field, np.float64)[slot] for field in fields]
            mean, squares = sum(column[r] for r in inside), sum(column[r] * column[r] for r in inside)
            scale = max([abs(column[r]) for r in inside], default=0.0)
            assert abs(parts[0] + parts[1] - mean) <= 1e-9 * scale
            assert abs(parts[2] + parts[3] - squares) <= 1e-9 * scale * scale + error
    for k in spans(program.dc_at, c):
        values = seen.bits(int(program.link_col[program.dc_link[k]]))
        assert seen.part(at.SLOTS, at.DISTINCT_AT, 4, k)[slot] == len({values[r] for r in inside})


def check_decayed(seen: Seen, k: int, slot: int, inside: list[int]) -> None:
    half_ms, column = int(seen.program.sd_half[k]), seen.values(int(seen.program.sd_col[k]))
    fields = (0, 8, at.SQUARES)
    high, rest, kept = (seen.part(at.SLOTS, at.DEVIATION_AT, 40, k, field, np.float64)[slot] for field in fields)
    ages = [(int(kept) * half_ms - seen.clock[r]) / half_ms for r in inside]
    worth = [column[r] * 2.0**-age for r, age in zip(inside, ages, strict=True)]
    assert abs(high + rest - math.fsum(worth)) <= 1e-9 * max(map(abs, worth), default=0.0)


def check_pointers(seen: Seen, c: int, slot: int, inside: list[int]) -> None:
    for k in spans(seen.program.pt_at, c):
        pointer, kind = seen.part(at.SLOTS, at.POINTER_AT, 4, k)[slot], int(seen.program.pt_kind[k])
        if not inside:
            assert pointer == -1
        elif pointer == -2:
            assert kind in {MIN, MAX}
        elif kind in {FIRST, LAST}:
            assert pointer == inside[0 if kind == FIRST else -1]
        else:
            values = seen.values(int(seen.program.pt_col[k]))
            assert pointer in inside
            assert values[pointer] == (min if kind == MIN else max)(values[r] for r in inside)
