"""The state of one key space of one shard for absences: records, and those that wait for an expected record."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from crossline.basics.byte_slices import take_bytes
from crossline.basics.values import I32, I64, U8
from crossline.plan.pattern_spaces import AbsencePlan, AbsenceSpacePlan
from crossline.plan.spaces import KeySpacePlan
from crossline.state.batch import Delta, DueHits, Hits, KeyedBatch
from crossline.state.memory import layout as at
from crossline.state.patterns.deadlines import Deadlines, Tier
from crossline.state.patterns.entry_points import MEET, MEET_ALL, compiled
from crossline.state.patterns.store import without_values
from crossline.state.windows.emission.columns import in_force, lines_of
from crossline.state.windows.emission.decision import is_cooling
from crossline.state.windows.emission.words import NONE_MS
from crossline.state.windows.hit_buffers import Buffers, hits_of
from crossline.state.windows.memory_map import MemoryMap
from crossline.state.windows.program import compile_plan
from crossline.state.windows.record_store import ANY_AGE, DROPPED_EACH, DROPPED_LEAST, RecordStore

# One of them: moment, whether it came when that was past, record, line, and the content of the hit.
_Found = tuple[I64, Any, I64, int, Tier, I64]


class AbsenceSpaceState(RecordStore):
    """One key space of one shard, judged by absences (see ``absence_kernel``).

    Rows given to ``judge`` and ``load`` are one sequence in ingest order, however it is cut, and ``duplicate_ms`` is as
    in ``RecordStore``. ``judge`` gives no hits. ``due(clock_ms)`` does: at records that an absence judges, by ``spans``
    and ``judge_lateness_ms``, that nothing has answered, and whose deadline and grace are past, each once. They come by
    the first instant of the clock at which they are; at one instant in ingest order. ``cooldown_ms`` is measured
    between the clocks of their records. Whoever loads calls ``due`` too, with the clocks of then, and throws away what
    it gives.

    A record costs 29 bytes and more, the bits of its entries and its id; one that waits 32 and its origins.
    """

    def __init__(self, plan: AbsenceSpacePlan, duplicate_ms: int | None = None) -> None:
        super().__init__(memory_of(plan), duplicate_ms)
        self.plan = plan
        self._deadlines = Deadlines()
        self._emitted: dict[tuple[str, int], OrderedDict[bytes, int]] = {}
        self._make_lines()

    def _make_lines(self) -> None:
        lines = self.plan.lines
        self._after_ms = np.unique(np.array([each.within_ms + each.grace_ms for each in lines], np.int64))
        flags = np.zeros((self.plan.filters + 7) // 8 * 8, np.bool_)
        flags[[each.after for each in lines]] = True
        self._waiting = np.packbits(flags, bitorder="little")

    def judge(self, batch: KeyedBatch) -> Hits:
        """Take ``batch`` in, row by row. Its values are passed over.

        Raises:
            StateError: more bytes of ids or keys than one key space of a shard can hold.
        """
        found = self._enter(batch, *without_values(batch), stepwise=True)
        first = self._next
        self._meet(batch)
        hits = hits_of(self._memory, self._buffers, (), np.full(len(self.plan.lines) + 1, -1, np.int64), found)
        self._leave()
        self._wait(batch, hits.retained, first)
        return hits

    def load(self, delta: Delta, lines: tuple[tuple[str, int], ...]) -> None:  # noqa: ARG002 - it has no emitted hits to restore
        """Take in what was judged before.

        Raises:
            StateError: as for ``judge``.
        """
        batch = delta.batch
        self._enter(batch, *without_values(batch), stepwise=False)
        first = self._next
        self._memory.words[at.DUPLICATE_MS] = -ANY_AGE  # what was kept was no duplicate
        self._meet(batch)
        self._leave()
        self._wait(batch, np.arange(len(batch), dtype=np.int32), first)

    def _meet(self, batch: KeyedBatch) -> None:
        self._memory.keep(at.ROW_REACHED, batch.ingest_ms if batch.reached_ms is None else batch.reached_ms)
        self._memory.call(compiled(), MEET, 0)

    def _wait(self, batch: KeyedBatch, kept: I32, first: int) -> None:
        """The rows ``kept`` are records from number ``first`` on; note those that wait."""
        places = np.flatnonzero((batch.filters[kept] & self._waiting).any(axis=1))
        if not len(places):
            return
        rows = kept[places]
        origins = None if batch.origins is None else batch.origins.take(pa.array(rows)).combine_chunks()
        self._deadlines.add(
            Tier(
                clock_ms=batch.clock_ms[rows],
                ingest_ms=batch.ingest_ms[rows],
                lateness_ms=batch.lateness_ms[rows],
                record=first + places,
                origins=origins,
            )
        )

    def due(self, clock_ms: int) -> DueHits | None:
        """The hits that are due once the stream's clock stands at ``clock_ms``."""
        found = list(self._due(clock_ms))
        due_hits = self._due_hits(found) if found else None
        self._deadlines.mark_emitted(clock_ms, int(self._after_ms.max(initial=0)))
        return due_hits

    def _due(self, clock_ms: int) -> Iterator[_Found]:
        first, slots, reached_ms = int(self._memory.words[at.FIRST_RECORD]), self._slots(), self._reached()
        for number, tier, rows in self._deadlines.due(clock_ms, self._after_ms):
            record = tier.record[rows]
            bits, answered = self._bits()[record], self._answered()[record]
            held = (record >= first) & (slots[record] >= 0)
            for line_number, line in enumerate(self.plan.lines):
                if line.within_ms + line.grace_ms != self._after_ms[number]:
                    continue
                waits = held & _bit(bits, line.after)
                waits &= in_force(line.spans, line.judge_lateness_ms, tier.ingest_ms[rows], tier.lateness_ms[rows])
                if not line.probes:
                    waits &= ~_bit(answered, line_number)
                places = np.flatnonzero(waits)
                if len(places):
                    places += rows.start
                    due_ms, reached = tier.clock_ms[places] + self._after_ms[number], reached_ms[tier.record[places]]
                    yield (
                        np.maximum(due_ms + 1, reached),
                        reached > due_ms,
                        tier.record[places],
                        line_number,
                        tier,
                        places,
                    )

    def _bits(self) -> Any:
        return self._bytes_of(at.BITS_AT, at.BITS_BYTES)

    def _answered(self) -> Any:
        return self._bytes_of(at.ANSWERED_AT, at.ANSWER_BYTES)

    def _bytes_of(self, part: int, count: int) -> Any:
        """A part of all records that is bytes."""
        words = self._memory.words
        return self._memory.rows(at.RECORDS)[:, int(words[part]) : int(words[part]) + int(words[count])]

    def _reached(self) -> Any:
        return self._memory.field(at.RECORDS, int(self._memory.words[at.REACHED_AT]), np.int64)

    def _due_hits(self, found: list[_Found]) -> DueHits | None:
        """In their order, without what a cooldown holds back."""
        line = np.concatenate([np.full(len(each[0]), each[3]) for each in found])
        moment, late, record = (np.concatenate([each[n] for each in found]) for n in range(3))
        order = np.lexsort((line, record, late, moment))
        order = order[self._emits(line[order], record[order])]
        if not len(order):
            return None
        line, record = line[order].astype(np.int64), record[order]
        times = (
            np.concatenate([getattr(tier, name)[rows] for *_, tier, rows in found])[order]
            for name in ("clock_ms", "ingest_ms", "lateness_ms")
        )
        clock, ingest, lateness = times
        within = np.array([each.within_ms for each in self.plan.lines])
        met = [
            self._met(each, self.plan.lines[number])
            for each, number in zip(record.tolist(), line.tolist(), strict=True)
        ]
        return DueHits(
            line=line,
            moment_ms=moment[order],
            clock_ms=clock,
            ingest_ms=ingest,
            lateness_ms=lateness,
            until_ms=clock + within[line],
            answered_ms=np.array(met, np.int64),
            keys=self._texts(at.KEYS, self._slots()[record]),
            ids=self._texts(at.IDS, record),
            origins=_origins(found, order),
        )

    def _emits(self, line: I64, record: I64) -> Any:
        """Which of the hits, in their order, are emitted; the last emission is kept where there is a cooldown."""
        body = np.ones(len(line), np.bool_)
        cooling = np.array([each.cooldown_ms > 0 for each in self.plan.lines])[line]
        slots = self._slots()
        for place in np.flatnonzero(cooling).tolist():
            absence = self.plan.lines[line[place]]
            key = self._texts(at.KEYS, slots[record[place : place + 1]])[0].tobytes()
            now_ms = self._clock_of(int(record[place]))
            emitted = self._emitted.setdefault((absence.rule_id, absence.version), OrderedDict())
            body[place] = not is_cooling(emitted.get(key, NONE_MS), absence.cooldown_ms, now_ms)
            if body[place]:
                emitted[key] = now_ms
                emitted.move_to_end(key)  # so that they stand in the order of their emission
        return body

    def _met(self, record: int, line: AbsencePlan) -> int:
        """The clock of the first record that answered one of a probe; -1 where none did, and of others."""
        if not line.probes:
            return -1
        after, bits, reached = self._memory.field(at.RECORDS, at.AFTER), self._bits(), self._reached()
        until = self._clock_of(record) + line.within_ms
        while (record := int(after[record])) >= 0 and (clock := self._clock_of(record)) <= until:
            if _bit(bits[record : record + 1], line.expect)[0] and reached[record] <= until + line.grace_ms:
                return clock
        return -1

    def _clock_of(self, record: int) -> int:
        return int(self._memory.clocks(slice(record, record + 1))[0])

    def _slots(self) -> Any:
        return self._memory.field(at.RECORDS, at.SLOT)

    def _texts(self, pool: int, numbers: Any) -> tuple[U8, I64]:
        """The keys of slots, or the ids of records."""
        rows, field = (at.SLOTS, at.KEY_END) if pool == at.KEYS else (at.RECORDS, at.ID_END)
        ends = self._memory.field(rows, field, np.uint32)
        stops = ends[numbers].astype(np.int64)
        starts = np.where(numbers > 0, ends[np.maximum(numbers - 1, 0)], 0).astype(np.int64)
        return take_bytes(self._memory.rows(pool).reshape(-1), starts, stops - starts)

    def replan(self, plan: AbsenceSpacePlan) -> None:
        """Judge by ``plan`` from now on; absences of the same rule id and version keep their cooldowns.

        Raises:
            ValueError: its number of entries is another: that takes another store; or see ``memory_of``.
        """
        if plan.filters != self.plan.filters:
            raise ValueError(f"a store of {self.plan.filters} entries cannot be judged by a plan of {plan.filters}")
        self._close_up()
        old, self._memory, self.plan = self._memory, memory_of(plan), plan
        self._memory.take_over(old)
        self._buffers = Buffers(self._memory)
        names = set(lines_of(plan.lines))
        self._emitted = {name: emitted for name, emitted in self._emitted.items() if name in names}
        self._make_lines()
        self._memory.call(compiled(), MEET_ALL, 0)

    def evict(self, cutoff_ms: int) -> None:
        """Drop what ``RecordStore.evict`` does, and the oldest emissions that hold nothing back any more."""
        limit = DROPPED_EACH * self._came + DROPPED_LEAST
        super().evict(cutoff_ms)
        for emitted in self._emitted.values():
            for _ in range(min(limit, len(emitted))):
                if next(iter(emitted.values())) > cutoff_ms:
                    break
                emitted.popitem(last=False)

    def _renumber(self, first: int) -> None:
        self._deadlines.renumber(self._memory.array(at.NUMBER), first)

    def bytes_in_memory(self) -> int:
        """Bytes of the state, room to grow and what waits included."""
        return super().bytes_in_memory() + self._deadlines.bytes_held()


def memory_of(plan: AbsenceSpacePlan) -> MemoryMap:
    """Memory for records without values, and all that the kernel reads of ``plan``.

    Raises:
        ValueError: an absence names an entry that is none, or outlasts the plan.
    """
    for line in plan.lines:
        text = f"absence {line.rule_id} version {line.version}"
        if not (0 <= line.after < plan.filters and 0 <= line.expect < plan.filters):
            raise ValueError(f"{text} names an entry beyond the {plan.filters} that there are")
        if not 0 <= line.within_ms + line.cooldown_ms <= plan.retention_ms:
            raise ValueError(f"{text} is within {line.within_ms} ms, not from 0 to the plan's {plan.retention_ms}")
    records = KeySpacePlan((), plan.filters, (), (), (), plan.retention_ms)
    counts: dict[int, int] = {
        at.LINES: len(plan.lines),
        at.LINE_BYTES: (len(plan.lines) + 7) // 8,
        at.BITS_BYTES: (plan.filters + 7) // 8,
        at.LOG_TIMES: 1,
        at.ANSWER_BYTES: (len(plan.lines) + 7) // 8,
    }
    memory = MemoryMap(records, compile_plan(records), counts)
    for name, values in (
        (at.AFTER_FILTER, (each.after for each in plan.lines)),
        (at.EXPECT_FILTER, (each.expect for each in plan.lines)),
        (at.DEADLINE, (each.within_ms for each in plan.lines)),
        (at.GRACE, (each.grace_ms for each in plan.lines)),
    ):
        memory.keep(name, _longs(values))
    return memory


def _longs(values: Iterable[int]) -> I64:
    return np.array(list(values), np.int64)


def _bit(rows: Any, number: int) -> Any:
    """Bit ``number`` of each row of bytes."""
    return rows[:, number >> 3] >> (number & 7) & 1 != 0


def _origins(found: list[_Found], order: Any) -> pa.Table | None:
    """The origins of hits, in their order."""
    tables = [tier.origins.take(pa.array(rows)) for *_, tier, rows in found if tier.origins is not None]
    if len(tables) < len(found):
        return None
    # Records that waited before a rule came lack the fields that this rule requests.
    return (
        pa.concat_tables(tables, promote_options="default").unify_dictionaries().take(pa.array(order)).combine_chunks()
    )
