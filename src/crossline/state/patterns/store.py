"""The records of one key space of one shard, and the matches under way among them."""

from __future__ import annotations

from typing import Any

import numpy as np

from crossline.basics.values import I64, U8
from crossline.plan.pattern_spaces import PatternSpacePlan
from crossline.state.batch import Delta, Hits, KeyedBatch
from crossline.state.memory import layout as at
from crossline.state.patterns.entry_points import CLOSE, JUDGE, OFFER, compiled
from crossline.state.patterns.program import memory_of
from crossline.state.windows.emission.columns import cooldown_columns
from crossline.state.windows.hit_buffers import Buffers, hits_of
from crossline.state.windows.memory_map import MemoryMap
from crossline.state.windows.record_store import ANY_AGE, RecordStore

SOME = 64


class PatternSpaceState(RecordStore):
    """One key space of one shard, judged by patterns (see the package for what they mean).

    Rows given to ``judge`` and ``load`` are one sequence in ingest order, however it is cut. ``duplicate_ms``: see
    ``RecordStore``; a duplicate is offered to no step and ends nothing. A record in no entry is not kept, and not known
    when it comes again; one in any entry is kept until ``evict``, whether it took a step or not: its id is what is
    needed. A record costs 20 bytes, the bits of its entries and its id, a key 4 for each place to wait, a match 12 for
    each step that it took. A key may have a match at each place, so that a pattern of n steps takes up to
    n (n - 1) / 2 times 12 bytes of it.

    Hits come by row and then in the order of lines. A hit's value and count are its records, its window
    goes from the clock of the first to that of the last, and its evidence is the records that took them, in order, at
    most the last 50.

    Raises:
        ValueError: see ``program.check``.
    """

    def __init__(self, plan: PatternSpacePlan, duplicate_ms: int | None = None) -> None:
        super().__init__(memory_of(plan), duplicate_ms)
        self.plan = plan

    def judge(self, batch: KeyedBatch) -> Hits:
        """Take ``batch`` in, row by row, offering each to all patterns. Its values are passed over.

        Raises:
            StateError: more bytes of ids or keys than one key space of a shard can hold.
        """
        sat = np.zeros((len(batch), int(self._memory.words[at.LINE_BYTES])), np.uint8)
        found = self._enter(batch, without_values(batch)[0], sat, stepwise=True)
        self._memory.words[at.NOTES_HITS] = 1
        self._go_through(JUDGE, len(batch))
        hits = hits_of(self._memory, self._buffers, (), np.full(len(self.plan.lines) + 1, -1, np.int64), found)
        self._leave()
        return hits

    def load(self, delta: Delta, lines: tuple[tuple[str, int], ...]) -> None:
        """Take in what was judged before: offered anew to all patterns, which tell of no hit.

        ``lines``: (rule id, version) of the plan's lines at that time.

        Raises:
            StateError: as for ``judge``.
        """
        batch = delta.batch
        self._enter(batch, *without_values(batch), stepwise=False)
        first = self._next
        words = self._memory.words
        words[at.NOTES_HITS], words[at.DUPLICATE_MS] = 0, -ANY_AGE  # what was kept was no duplicate
        self._go_through(JUDGE, len(batch))
        self._leave()
        columns, slots = cooldown_columns(self.plan.lines), self._memory.field(at.RECORDS, at.SLOT)
        for line, row in zip(delta.emitted_line.tolist(), delta.emitted_row.tolist(), strict=True):
            if lines[line] in columns:
                _emissions(self._memory, columns[lines[line]])[slots[first + row]] = first + row

    def replan(self, plan: PatternSpacePlan) -> None:
        """Judge by ``plan`` from now on.

        All stored records are matched again, so that a new pattern finds its partial matches. Patterns of the same rule
        id and version keep their cooldowns.

        Raises:
            ValueError: its number of entries is another: that takes another store; or see ``program.check``.
        """
        if plan.filters != self.plan.filters:
            raise ValueError(f"a store of {self.plan.filters} entries cannot be judged by a plan of {plan.filters}")
        self._close_up()
        old, known = self._memory, cooldown_columns(self.plan.lines)
        self._memory, self.plan = memory_of(plan), plan
        self._memory.take_over(old)
        for name, column in cooldown_columns(plan.lines).items():
            if name in known:
                _emissions(self._memory, column)[:] = _emissions(old, known[name])
        self._buffers = Buffers(self._memory)
        self._go_through(OFFER, self.records)

    def _renumber(self, first: int) -> None:  # noqa: ARG002 - the kernel knows it
        memory = self._memory
        memory.keep(at.KEPT, np.empty(3 * int(memory.words[at.N_MATCH_STEPS]), np.int32))
        memory.call(compiled(), CLOSE, 0)
        memory.words[at.MATCH_STEP_ROOM] = memory.words[at.N_MATCH_STEPS]  # the pool may be made smaller

    def _go_through(self, task: int, end: int) -> None:
        """Have a task done from the first to ``end``."""
        self._make_room()
        at_now = 0
        while (at_now := self._memory.call(compiled(), task, at_now)) < end:
            self._buffers.grow()
            self._make_room()

    def _make_room(self) -> None:
        """Room for the steps that one more row may take, and some."""
        words = self._memory.words
        held, steps = int(words[at.N_MATCH_STEPS]), int(words[at.STEPS])
        if held + steps > words[at.MATCH_STEP_ROOM]:
            more = steps + held // 4 + SOME
            self._memory.make_room(at.MATCH_STEPS, more)
            words[at.MATCH_STEP_ROOM] = held + more


def _emissions(memory: MemoryMap, column: int) -> Any:
    """The last emission of all keys, to read or write at once."""
    return memory.field(at.SLOTS, int(memory.words[at.EMITTED_AT]) + 4 * column)


def without_values(batch: KeyedBatch) -> tuple[I64, U8]:
    """Values of no column, bits of no line."""
    return np.zeros((len(batch), 0), np.int64), np.zeros((len(batch), 0), np.uint8)


def warm() -> None:
    """Compile the kernel (once per installation), or load what was compiled before."""
    compiled()
