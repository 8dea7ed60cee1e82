"""The state of one key space of one shard: panes, late records and their windows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from crossline.basics.byte_slices import take_bytes
from crossline.basics.values import I32, U8
from crossline.plan.spaces import PaneSpacePlan
from crossline.state.batch import Delta, DueHits, FormulaRead, Hits, KeyedBatch, take
from crossline.state.memory.hashing import keyed_many, xxh64_many
from crossline.state.panes import layout as at
from crossline.state.panes.entry_points import EMIT, JUDGE, LOAD, SWEEP, compiled
from crossline.state.panes.hit_buffers import Found
from crossline.state.panes.memory import Memory
from crossline.state.panes.program import compile_plan, shown_groups
from crossline.state.windows.emission.carry import KeyFields, carry
from crossline.state.windows.emission.columns import among, cooldown_columns, in_force, lines_of, remapped
from crossline.state.windows.point_query import no_rows
from crossline.state.windows.program import INT_KINDS, all_output_aggregates, class_lines, classes
from crossline.state.windows.store import Sizes
from crossline.state.windows.verdicts.feature_queries import FeatureQueries
from crossline.state.windows.verdicts.formulas import Formulas, Judged, KernelFigures

PIECE = 16_384  # rows whose figures are computed at a time
SWEEP_PART = 4  # a slot is swept for as many records
SWEEP_LEAST = 64


class PaneState:
    """One key space of one shard, as ``KeySpaceState``, with panes for all that is settled.

    A window is that of ``KeySpaceState`` with its far edge rounded down to a multiple of the plan's resolution, and
    closed; where it has a delay, its near edge is rounded down too, and open. Its result is a function of the rows
    alone, however they are cut, as long as none comes with a clock at or before what ``evict`` has settled.

    ``duplicate_ms``: as there; ids are forgotten once they are settled.

    Raises:
        ValueError: a figure of what the plan's panes do not keep.
    """

    def __init__(self, plan: PaneSpacePlan, duplicate_ms: int = 2**62) -> None:
        self.duplicate_ms = duplicate_ms
        self._retained = 0  # since the last sweep
        self._take_up(plan)

    def _take_up(self, plan: PaneSpacePlan) -> None:
        self.plan = plan
        self._program = compile_plan(plan)
        self._memory = Memory(self._program)
        self._formulas = Formulas(plan, self._program)
        self._feature_queries = FeatureQueries(plan, self._program)
        self._classes = classes(plan)
        program = zip(self._program.aggregate_figure.tolist(), self._program.aggregate_kind.tolist(), strict=True)
        whole = {number for number, kind in program if kind in INT_KINDS}
        outputs = all_output_aggregates(plan)
        integral = [
            *(outputs.index(line.aggregate) in whole for line in plan.lines),
            *(False for _ in plan.formulas),
        ]
        self._integral = np.array(integral, np.bool_)
        self._cursors = np.array([plan.aggregates[number].window for number in shown_groups(plan)], np.int64)

    def judge(self, batch: KeyedBatch) -> Hits:
        """Take ``batch`` in, row by row, judging each."""
        n, words = len(batch), self._memory.words
        sat = np.zeros((n, int(words[at.LINE_BYTES])), np.uint8)
        duplicate, retained = self._enter(batch, sat)
        found = Found()
        found.listen(self._memory)
        words[at.AT_ONCE] = not self.plan.formulas and not self.plan.feature_queries
        if words[at.AT_ONCE]:
            self._judge_at_once(n, found)
        else:
            for start in range(0, n, PIECE):
                self._judge_piece(batch, start, min(start + PIECE, n), duplicate, found)
        kept = int(words[at.N_RETAINED])
        self._retained += kept
        self._memory.let_go()
        hits = self._hits(batch, found, duplicate, retained[:kept], sat[:kept])
        return replace(hits, failed=self._formulas.failed(), features=self._feature_queries.features())

    def _judge_at_once(self, rows: int, found: Found) -> None:
        """Judge the batch by thresholds alone, each row as it is stored: no figures of a row are read later."""
        self._listen(1, 0, rows)
        self._memory.run_through(JUDGE, 0, rows, lambda: found.take(self._memory))

    def _judge_piece(self, batch: KeyedBatch, start: int, end: int, copies: U8, found: Found) -> None:
        memory, rows = self._memory, end - start
        outputs = self._listen(rows, start, end)
        memory.run_through(JUDGE, start, end)
        facts = {name: column.slice(start, rows) for name, column in batch.facts.items()}
        judged = Judged(batch, slice(start, end), copies)
        self._feature_queries.take(outputs, judged)
        verdicts = np.zeros((rows, len(self.plan.formulas)), np.uint8)
        if self.plan.formulas:
            verdicts[:] = self._formulas.holds(outputs, facts, judged)
        memory.keep(at.HOLDS, verdicts)

        def take_out() -> None:
            first = found.hits
            line, row = found.take(memory)
            found.formula_reads |= self._read(batch, outputs, facts, start, first, line, row)

        memory.run_through(EMIT, start, end, take_out)

    def _listen(self, rows: int, start: int, end: int) -> KernelFigures:
        """Have the kernel write figures of up to ``rows`` rows at once, of those from ``start`` to ``end``."""
        memory, words = self._memory, self._memory.words
        outputs = KernelFigures.of(rows, int(words[at.ROW_FIGURES]))
        for name, array in (
            *(
                (at.FIGURE_I, outputs.whole),
                (at.FIGURE_UP, outputs.up),
                (at.FIGURE_F, outputs.real),
                (at.FIGURE_DEFINED, outputs.defined),
            ),
            (at.COUNTS, np.zeros((rows, max(1, len(self.plan.windows))), np.int64)),
        ):
            memory.keep(name, array)
        words[at.PIECE_FROM], words[at.PIECE_END] = start, end
        return outputs

    def _read(
        self, batch: KeyedBatch, outputs: KernelFigures, facts: Any, start: int, first: int, line: I32, row: I32
    ) -> dict[int, FormulaRead]:
        """What the formulas have read of the hits numbered from ``first`` on, in a piece that begins with ``start``."""
        formula_reads = np.flatnonzero(line >= len(self.plan.lines))
        delays = [self.plan.windows[cursor].delay_ms for cursor in self._cursors.tolist()]
        hits = (
            (first + k, int(line[k]), int(row[k]), int(batch.clock_ms[row[k]]) - delays[int(line[k])])
            for k in formula_reads.tolist()
        )
        return self._formulas.read(hits, outputs, facts, start)

    def _hits(self, batch: KeyedBatch, found: Found, duplicate: U8, retained: Any, sat: U8) -> Hits:
        columns, emitted = found.columns(), found.emitted()
        line, row = columns["line"], columns["row"]
        clock, cursor = batch.clock_ms[row], self._cursors[line]
        spans = [self.plan.windows[c].span_ms(int(ms)) for c, ms in zip(cursor.tolist(), clock.tolist(), strict=True)]
        span = np.array(spans, np.int64).reshape(-1, 2)
        included = self._itself(batch, row, cursor)
        shown = row[included]
        id_bytes, id_offsets = take_bytes(batch.id_bytes, batch.id_offsets[shown], np.diff(batch.id_offsets)[shown])
        value_i, value_f = self._shown_values(batch, line[included], shown)
        return Hits(
            **columns,
            is_int=self._integral[line],
            window_start_ms=span[:, 0],
            window_end_ms=span[:, 1],
            evidence_offsets=np.concatenate([np.zeros(1, np.int64), np.cumsum(included)]),
            evidence_id_bytes=id_bytes,
            evidence_id_offsets=id_offsets,
            evidence_clock_ms=batch.clock_ms[shown],
            evidence_value_i=value_i,
            evidence_value_f=value_f,
            duplicates=duplicate.astype(np.bool_),
            retained=retained,
            sat=sat,
            emitted_line=emitted[0],
            emitted_row=emitted[1],
            formula_reads=found.formula_reads,
        )

    def _itself(self, batch: KeyedBatch, row: Any, cursor: Any) -> Any:
        """Whether each hit's record is in its window: of all in it the one that is still known for sure."""
        given = [(c.include_current and not c.delay_ms, c.filter) for c in self.plan.windows]
        inside = np.array([each for each, _ in given], np.bool_)[cursor]
        entry = np.array([each for _, each in given], np.int64)[cursor]
        return inside & ((batch.filters[row, entry >> 3] >> (entry & 7) & 1) != 0)

    def _shown_values(self, batch: KeyedBatch, line: Any, row: Any) -> tuple[Any, Any]:
        """Values of the records that are shown, of the column of their line, as integers and as floats."""
        value_i, value_f = np.zeros(len(row), np.int64), np.zeros(len(row), np.float64)
        columns = [self.plan.aggregates[x.aggregate].column for x in self.plan.lines] + [-1 for _ in self.plan.formulas]
        column = np.array([*columns, -1], np.int64)[line]
        for number, (_, kind) in enumerate(self.plan.columns):
            mine = column == number
            if mine.any() and kind != "code":
                (value_f if kind == "float" else value_i)[mine] = batch.values[number][row[mine]]
        return value_i, value_f

    def delta(self, batch: KeyedBatch, hits: Hits) -> Delta:
        """What ``judge(batch)``, which gave ``hits``, added: for ``load`` in another process."""
        kept = batch if len(hits.retained) == len(batch) else take(batch, hits.retained)
        return Delta(kept, hits.sat, hits.emitted_line, hits.emitted_row)

    def load(self, delta: Delta, lines: tuple[tuple[str, int], ...]) -> None:
        """Take in what was judged before, without judging it.

        ``lines``: (rule id, version) of the plan's lines and formulas at that time.
        """
        batch, memory, names = delta.batch, self._memory, lines_of(self.plan.judging)
        self._enter(batch, remapped(delta.sat, lines, names))
        memory.keep(at.LINE_MASK, among(lines, names))
        memory.keep(at.CLASS_LINES, class_lines(self.plan))
        row_slot = np.empty(len(batch), np.int32)
        memory.keep(at.ROW_SLOT, row_slot)
        memory.run_through(LOAD, 0, len(batch))
        self._retained += len(batch)
        memory.let_go()
        columns, emitted = cooldown_columns(self.plan.judging), _fields(memory).emitted
        for line, row in zip(delta.emitted_line.tolist(), delta.emitted_row.tolist(), strict=True):
            if lines[line] in columns:
                emitted(columns[lines[line]])[row_slot[row]] = batch.clock_ms[row]

    def replan(self, plan: PaneSpacePlan) -> None:
        """Judge by ``plan`` from now on; lines of the same rule id and version keep what they remember of keys.

        Raises:
            ValueError: its columns, entries, parts or resolution are others: that takes another store.
        """
        old_plan, old = self.plan, self._memory
        kept = (plan.columns, plan.filters, plan.parts, plan.resolution_ms)
        if kept != (old_plan.columns, old_plan.filters, old_plan.parts, old_plan.resolution_ms):
            raise ValueError(f"panes of {old_plan.parts} cannot be judged by a plan of {plan.parts}")
        self._take_up(plan)
        self._memory.take_over(old)
        carry(old_plan, _fields(old), plan, _fields(self._memory))

    def alone(self, plan: PaneSpacePlan, key: bytes) -> PaneState:
        """What there is of ``key`` in a state of its own, judged by ``plan``, of the same columns, entries and parts.

        Both use the same heap: this one is of no use any more once the other has judged.
        """
        nothing, other = no_rows(plan, key), PaneState(plan, self.duplicate_ms)
        self._enter(nothing, np.zeros((0, int(self._memory.words[at.LINE_BYTES])), np.uint8))
        self._memory.run_through(LOAD, 0, 0)  # which looks the keys of a batch up before it comes to its rows
        slot = int(self._memory.kept(at.KEY_SLOT)[0])
        self._memory.let_go()
        if slot >= 0:
            other._memory.take_slot(self._memory, slot)
        return other

    def due(self, clock_ms: int) -> DueHits | None:  # noqa: ARG002 - a window waits for nothing
        """Nothing."""
        return None

    def evict(self, cutoff_ms: int) -> None:
        """Drop records with a clock at or before ``cutoff_ms``, in no future window, and settle those that are.

        Both is done key by key, as records come, and of some keys at each call.
        """
        words = self._memory.words
        words[at.DROP_TO] = max(int(words[at.DROP_TO]), cutoff_ms)
        words[at.FOLD_TO] = max(int(words[at.FOLD_TO]), cutoff_ms + self.plan.settled_ms)
        left = min(int(words[at.N_SLOTS]), self._retained // SWEEP_PART + SWEEP_LEAST)
        self._retained = 0
        while (left := self._memory.run(SWEEP, left)) > 0:
            self._memory.make_heap(int(words[at.HEAP_NEED]))

    def _enter(self, batch: KeyedBatch, sat: U8) -> tuple[U8, Any]:
        """Make room for the batch and show it to the kernel; what the kernel writes: duplicates, rows retained."""
        n, keys, memory = len(batch), len(batch.key_hash), self._memory
        memory.make_slots(min(keys, n))
        memory.make_keys(min(keys, n))
        memory.make_ids(n)
        memory.expect_growth()
        words = memory.words
        words[at.N_RETAINED] = 0
        words[at.ROWS], words[at.BATCH_KEYS], words[at.SINCE] = n, keys, self.duplicate_ms
        bits = self._bits(batch)
        words[at.BITS_EACH] = bits.shape[1]
        duplicate, retained = np.zeros(n, np.uint8), np.empty(n, np.int32)
        for name, array in (
            *((at.CLOCK_MS, batch.clock_ms), (at.INGEST_MS, batch.ingest_ms), (at.KEY_INDEX, batch.key_index)),
            *((at.KEY_BYTES, batch.key_bytes), (at.KEY_OFFSETS, batch.key_offsets), (at.KEY_HASH, batch.key_hash)),
            *((at.KEY_SLOT, np.full(keys, -1, np.int32)), (at.VALUES, self._values(batch)), (at.BITS, bits)),
            *((at.ID_HASH, keyed_many(batch.id_bytes, batch.id_offsets)), (at.ACTIVE, self._active(batch))),
            *((at.DUPLICATE, duplicate), (at.RETAINED, retained), (at.ROW_SAT, sat)),
            *((at.ROW_SLOT, np.empty(n, np.int32)), (at.ROW_KEPT, np.empty(n, np.int32))),
        ):
            memory.keep(name, array)
        return duplicate, retained

    def _bits(self, batch: KeyedBatch) -> Any:
        """Bits of entries as words."""
        width = batch.filters.shape[1]
        words = max(1, -(-width // 8))
        wide = np.zeros((len(batch), 8 * words), np.uint8)
        wide[:, :width] = batch.filters
        return wide.view(np.int64)

    def _values(self, batch: KeyedBatch) -> Any:
        """The batch's columns as rows of 64 bits."""
        whole = np.empty((len(batch), len(batch.values)), np.int64)
        real = whole.view(np.float64)
        for i, ((_, kind), column) in enumerate(zip(self.plan.columns, batch.values, strict=True)):
            if i in batch.texts:
                # Under no secret: what a sketch makes of a text is to be the same in every process.
                whole[:, i] = xxh64_many(*batch.texts[i]).view(np.int64)[column]
            elif kind == "float":
                np.add(column, 0.0, out=real[:, i])  # there is one zero: -0.0 + 0.0 is 0.0
            else:
                whole[:, i] = column
        return whole

    def _active(self, batch: KeyedBatch) -> U8:
        """Which classes of lines judge each row."""
        active = np.empty((len(batch), len(self._classes)), np.uint8)
        for number, (entry, spans, late_ms, _) in enumerate(self._classes):
            mine = (batch.filters[:, entry >> 3] >> np.uint8(entry & 7)) & 1 != 0
            active[:, number] = mine & in_force(spans, late_ms, batch.ingest_ms, batch.lateness_ms)
        return active

    @property
    def records(self) -> int:
        """Records held, as such or in panes: as many as it holds pieces of memory for."""
        return int(self._memory.words[at.N_RECORDS]) + self.panes

    @property
    def panes(self) -> int:
        """Panes held."""
        return int(self._memory.words[at.N_PANES])

    @property
    def keys(self) -> int:
        """Keys held."""
        return int(self._memory.words[at.N_SLOTS] - self._memory.words[at.N_FREE])

    def sizes(self) -> Sizes:
        """What is held."""
        return Sizes(self.records, self.keys, self.bytes_in_memory())

    def bytes_in_memory(self) -> int:
        """Bytes of the state, room to grow included."""
        return self._memory.bytes_held()


def warm() -> None:
    """Compile the kernel, or load what was compiled before; ``judge`` does it by itself at its first call."""
    compiled()


def _fields(memory: Memory) -> KeyFields:
    """What lines remember: records by their clocks."""

    def of(name: int) -> Callable[[int], Any]:
        return lambda number: memory.field(int(memory.words[name]) + 8 * number, np.int64)

    return KeyFields(
        satisfied=lambda byte: memory.field(int(memory.words[at.SAT_AT]) + byte, np.uint8),
        judged=of(at.JUDGED_AT),
        emitted=of(at.EMITTED_AT),
    )
