"""The records of one key space of one shard, and the matches under way among them."""

from __future__ import annotations

import numpy as np

from crossline.core.basics.values import I64, U8
from crossline.core.patterns.entry import CLOSE, JUDGE, compiled
from crossline.core.patterns.program import entries_of, memory_of, waits
from crossline.core.plan.spaces import Pattern, PatternSpacePlan
from crossline.core.windows.batch import Delta, Hits, KeyedBatch
from crossline.core.windows.gather import Buffers, hits_of
from crossline.core.windows.memory import layout as at
from crossline.core.windows.records.record_store import ANY_AGE, RecordStore

SOME = 64


class PatternSpaceState(RecordStore):
    """One key space of one shard, judged by patterns (see the package for what they mean).

    Rows given to ``judge`` and ``load`` are one sequence in ingest order, however it is cut. ``duplicate_ms``: see
    ``RecordStore``; a duplicate is offered to no step and ends nothing. A record in no entry is not kept, and not known
    when it comes again; one in any entry is kept until ``evict``, whether it took a step or not: its id is what is
    needed. A record costs 20 bytes and its id, a key 4 for each place to wait, a match 12 for each step that it took. A
    key may have a match at each place, so that a pattern of n steps takes up to n (n - 1) / 2 times 12 bytes of it.

    Hits come by row and then in the order of lines. A hit's value and count are the steps of its pattern, its window
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
        found = self._enter(batch, *_without(batch), stepwise=True)
        self._run(len(batch), np.ones(len(self.plan.lines), np.uint8))
        hits = hits_of(self._memory, self._buffers, (), np.full(len(self.plan.lines), -1, np.int64), found)
        self._leave()
        return hits

    def load(self, delta: Delta, lines: tuple[tuple[str, int], ...]) -> None:
        """Take in what was judged before: offered anew to the patterns that judged it, and hits forgotten.

        ``lines``: (rule id, version) of the plan's lines at that time.

        Raises:
            StateError: as for ``judge``.
        """
        batch = delta.batch
        self._enter(batch, *_without(batch), stepwise=False)
        self._memory.words[at.DUPLICATE_MS] = -ANY_AGE  # what was kept was no duplicate
        self._run(len(batch), np.array([(x.rule_id, x.version) in lines for x in self.plan.lines], np.uint8))
        self._leave()

    def replan(self, plan: PatternSpacePlan) -> None:
        """Judge by ``plan`` from now on. What is under way goes on for patterns of the same rule id and version.

        Raises:
            ValueError: its number of entries is another: that takes another store; or see ``program.check``.
        """
        if plan.entries != self.plan.entries:
            raise ValueError(f"a store of {self.plan.entries} entries cannot be judged by a plan of {plan.entries}")
        old, old_plan = self._memory, self.plan
        memory = memory_of(plan)
        memory.take_over(old)
        numbers = {_identity(line): number for number, line in enumerate(old_plan.lines)}
        to, source = (
            int(words[at.WAITING_AT]) + 4 * np.array(waits(of))
            for words, of in ((memory.words, plan), (old.words, old_plan))
        )
        for number, line in enumerate(plan.lines):
            was = numbers.get(_identity(line))
            if was is not None:
                for place, before in zip(
                    range(to[number], to[number + 1], 4), range(source[was], source[was + 1], 4), strict=True
                ):
                    memory.field(at.SLOTS, place)[:] = old.field(at.SLOTS, before)
        self._memory, self._buffers, self.plan = memory, Buffers(memory), plan
        self._close(renumber=False)
        self._leave()

    def _renumber(self) -> None:
        self._close(renumber=True)

    def _close(self, *, renumber: bool) -> None:
        memory = self._memory
        memory.keep(at.KEPT, np.empty(3 * int(memory.words[at.N_TAKEN]), np.int32))
        memory.call(compiled(), CLOSE, renumber)
        memory.words[at.TAKEN_ROOM] = memory.words[at.N_TAKEN]  # the pool may be made smaller

    def _run(self, rows: int, asked: U8) -> None:
        memory, row = self._memory, 0
        memory.keep(at.ASKED, asked)
        self._make_room()
        while (row := memory.call(compiled(), JUDGE, row)) < rows:
            self._buffers.grow()
            self._make_room()

    def _make_room(self) -> None:
        """Room for the steps that one more row may take, and some."""
        words = self._memory.words
        held, steps = int(words[at.N_TAKEN]), int(words[at.STEPS])
        if held + steps > words[at.TAKEN_ROOM]:
            more = steps + held // 4 + SOME
            self._memory.make_room(at.TAKEN, more)
            words[at.TAKEN_ROOM] = held + more


def _identity(line: Pattern) -> tuple[str, int, tuple[int, ...]]:
    """By which a pattern is known in another plan: a version has one body."""
    return line.rule_id, line.version, tuple(entries_of(line))


def _without(batch: KeyedBatch) -> tuple[I64, U8]:
    """Values of no column, bits of no line."""
    return np.zeros((len(batch), 0), np.int64), np.zeros((len(batch), 0), np.uint8)


def warm() -> None:
    """Compile the kernel (once per installation), or load what was compiled before."""
    compiled()
