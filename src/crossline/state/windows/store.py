"""The state of one key space of one shard: records and their windows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from crossline.basics.values import I64, U8
from crossline.plan.spaces import KeySpacePlan
from crossline.state.batch import Delta, FormulaRead, Hits, KeyedBatch
from crossline.state.memory import layout as at
from crossline.state.memory.hashing import keyed_many, xxh64_many
from crossline.state.windows.emission.carry import KeyFields, carry
from crossline.state.windows.emission.columns import among, cooldown_columns, lines_of, remapped
from crossline.state.windows.entry_points import (
    COMPARE,
    EMIT,
    FIGURES,
    JUDGE,
    LOAD,
    RELINK,
    TAKE,
    compiled,
    compiled_in_order,
)
from crossline.state.windows.hit_buffers import Buffers, hits_of
from crossline.state.windows.memory_map import MemoryMap
from crossline.state.windows.point_query import loaded, no_rows, rows_under
from crossline.state.windows.program import all_output_aggregates, class_lines, compile_plan, output_aggregates
from crossline.state.windows.record_store import RecordStore, Sizes
from crossline.state.windows.verdicts.feature_queries import FeatureQueries
from crossline.state.windows.verdicts.figure_columns import FigureColumns
from crossline.state.windows.verdicts.formulas import Formulas, Judged

__all__ = ["Delta", "Hits", "KeySpaceState", "KeyedBatch", "Sizes", "warm", "warm_in_order"]

DEEP = 3  # steps back from the end of its list that a record takes: from there on a batch is better judged in order
PIECE = 8_192  # rows whose figures are computed at a time; sorted, rows of one key are compared


class KeySpaceState(RecordStore):
    """One key space of one shard.

    Rows given to ``judge`` and ``load`` are one sequence in ingest order, however it is cut. ``duplicate_ms``: see
    ``RecordStore``.

    ``in_order``: how ``judge`` goes about its work (see ``ordered``), with the same result: True or False, None for
    what was better for the batch before.

    Raises:
        ValueError: an aggregate of a column that it is not defined on.
    """

    def __init__(self, plan: KeySpacePlan, duplicate_ms: int | None = None) -> None:
        super().__init__(MemoryMap(plan, compile_plan(plan)), duplicate_ms)
        self.plan = plan
        self._formulas = Formulas(plan, self._memory.program)
        self._feature_queries = FeatureQueries(plan, self._memory.program)
        self._deep = False
        self.in_order: bool | None = None

    def judge(self, batch: KeyedBatch) -> Hits:
        """Take ``batch`` in, row by row, judging each.

        Raises:
            StateError: more bytes of ids or keys than one key space of a shard can hold.
        """
        words = self._memory.words
        sat = np.zeros((len(batch), int(words[at.LINE_BYTES])), np.uint8)
        found = self._enter(batch, self._values(batch), sat, stepwise=True)
        ordered = self._deep and bool(self._memory.program.sortable.any()) if self.in_order is None else self.in_order
        outputs = ordered or bool(output_aggregates(self.plan))
        formula_reads: dict[int, FormulaRead] = {}
        groups = all_output_aggregates(self.plan) if ordered else output_aggregates(self.plan)
        columns = FigureColumns(self._memory, min(PIECE, len(batch)), len(groups)) if outputs else None
        for start in range(0, len(batch), PIECE if outputs else max(1, len(batch))):
            words[at.ROW_END] = min(start + PIECE, len(batch)) if outputs else len(batch)
            if columns is None:
                words[at.ROW_FIGURES] = 0
                self._go_through(JUDGE, start)
            else:
                formula_reads |= self._judge_figures(batch, start, columns, found["duplicate"], ordered=ordered)
        self._deep = bool(words[at.N_WALKED] > DEEP * len(batch))
        plan = self.plan
        looked_at = [*(plan.aggregates[x.aggregate].column for x in plan.lines), *(-1 for _ in plan.formulas), -1]
        hits = hits_of(self._memory, self._buffers, plan.columns, np.array(looked_at, np.int64), found)
        self._leave()
        return replace(
            hits,
            formula_reads=formula_reads,
            failed=self._formulas.failed(),
            without=self._formulas.without(),
            features=self._feature_queries.features(),
        )

    def _go_through(self, task: int, start: int) -> None:
        """Have a task done from row ``start`` to ROW_END."""
        end, row = int(self._memory.words[at.ROW_END]), start
        while (row := self._memory.run(task, row)) < end:
            self._buffers.grow()

    def _judge_figures(
        self, batch: KeyedBatch, start: int, columns: FigureColumns, copies: U8, *, ordered: bool
    ) -> dict[int, FormulaRead]:
        """Judge rows from ``start`` with output figures; what hits of formulas have read, by number of the hit."""
        end = int(self._memory.words[at.ROW_END])
        columns.clear(start)
        self._keep(at.ROW_RECORD, np.full(end - start, -1, np.int32), start)
        if ordered:
            self._judge_in_order(start, end)
        else:
            self._go_through(JUDGE, start)
        outputs = columns.figures(end - start)
        judged = Judged(batch, slice(start, end), copies)
        self._feature_queries.take(outputs, judged)
        if not self.plan.formulas:
            return {}
        facts = {name: column.slice(start, end - start) for name, column in batch.facts.items()}
        self._keep(at.HOLDS, self._formulas.holds(outputs, facts, judged), start)
        before = int(self._memory.words[at.N_HITS])
        self._go_through(EMIT, start)
        return self._formulas.read(self._buffers.hits(before), outputs, facts, start)

    def _judge_in_order(self, start: int, end: int) -> None:
        """As JUDGE does it, for records that come far out of order (see ``ordered``)."""
        memory, first = self._memory, self._next
        self._keep(at.ROW_COUNT, np.zeros((end - start, len(self.plan.windows)), np.int32), start)
        memory.run(TAKE, start)
        slots = memory.field(at.RECORDS, at.SLOT)[first:]
        order = np.lexsort((memory.clocks(slice(first, None)), slots)) + first
        memory.keep(at.ORDER, order.astype(np.int32))
        memory.keep(at.NEWEST_OF, np.empty(len(order), np.int32))
        memory.run(FIGURES, len(order))
        self._go_through(COMPARE, start)

    def _keep(self, name: int, array: Any, start: int) -> None:
        """Hold ``array``, which begins with row ``start``: to the kernel, as if it began with the batch's first row."""
        self._memory.keep(name, array)
        self._memory.words[name] -= start * array[:1].nbytes

    def load(self, delta: Delta, lines: tuple[tuple[str, int], ...]) -> None:
        """Take in what was judged before, without judging it.

        ``lines``: (rule id, version) of the plan's lines and formulas at that time.

        Raises:
            StateError: as for ``judge``.
        """
        names = lines_of(self.plan.judging)
        sat = remapped(delta.sat, lines, names)
        self._enter(delta.batch, self._values(delta.batch), sat, stepwise=False)
        first = self._next
        self._memory.keep(at.LINE_MASK, among(lines, names))
        self._memory.keep(at.CLASS_LINES, class_lines(self.plan))
        self._memory.run(LOAD)
        self._leave()
        columns, emitted = cooldown_columns(self.plan.judging), _fields(self._memory).emitted
        slots = self._memory.field(at.RECORDS, at.SLOT)
        for line, row in zip(delta.emitted_line.tolist(), delta.emitted_row.tolist(), strict=True):
            if lines[line] in columns:
                emitted(columns[lines[line]])[slots[first + row]] = first + row

    def alone(self, plan: KeySpacePlan, key: bytes) -> KeySpaceState:
        """The records of ``key`` in a store of their own, judged by ``plan``, of the same columns and entries.

        This one stays as it is.
        """
        store, memory, rows = KeySpaceState(plan), self._memory, self._records_of(key)
        if not len(rows):
            return store
        bits = int(memory.words[at.BITS_AT])
        kinds = [np.float64 if kind == "float" else np.int64 for _, kind in plan.columns]
        columns = [memory.field(at.RECORDS, at.VALUE + 8 * i, kind)[rows] for i, kind in enumerate(kinds)]
        entries = np.ones((len(rows), (plan.filters + 7) // 8), np.uint8)  # of one entry all are
        for byte in range(int(memory.words[at.BITS_BYTES])):
            entries[:, byte] = memory.field(at.RECORDS, bits + byte, np.uint8)[rows]
        store.load(loaded(rows_under(key, memory.clocks(rows), columns, entries)), ())
        return store

    def _records_of(self, key: bytes) -> I64:
        """The numbers of a key's records, in ingest order."""
        nothing, found = no_rows(self.plan, key), list[int]()
        sat = np.zeros((0, int(self._memory.words[at.LINE_BYTES])), np.uint8)
        self._enter(nothing, self._values(nothing), sat, stepwise=False)
        self._memory.run(LOAD)  # which looks the keys of a batch up before it comes to its rows
        slot = int(self._memory.array(at.KEY_SLOT)[0])
        self._leave()
        if slot >= 0:
            after, row = self._memory.field(at.RECORDS, at.AFTER), int(self._memory.field(at.SLOTS, at.HEAD)[slot])
            while row >= 0:
                found.append(row)
                row = int(after[row])
        return np.array(sorted(found), np.int64)

    def replan(self, plan: KeySpacePlan) -> None:
        """Judge by ``plan`` from now on.

        Windows start afresh and catch up at each key's next record; lines of the same rule id and version keep what
        they were satisfied by and their cooldowns.

        Raises:
            ValueError: its columns or number of entries are others: that takes another store.
        """
        if plan.columns != self.plan.columns or plan.filters != self.plan.filters:
            raise ValueError(f"a store of {self.plan.columns} cannot be judged by a plan of {plan.columns}")
        self._close_up()
        old, old_plan = self._memory, self.plan
        self._memory, self.plan = MemoryMap(plan, compile_plan(plan)), plan
        self._memory.take_over(old)
        carry(old_plan, _fields(old), plan, _fields(self._memory))
        self._memory.empty(at.VALUE_TABLE, self.records * int(self._memory.words[at.LINKS]))
        self._memory.run(RELINK)
        self._buffers = Buffers(self._memory)
        self._formulas = Formulas(plan, self._memory.program)
        self._feature_queries = FeatureQueries(plan, self._memory.program)

    def _values(self, batch: KeyedBatch) -> Any:
        """The batch's columns as rows of 64 bits."""
        whole = np.empty((len(batch), len(batch.values)), np.int64)
        real = whole.view(np.float64)
        for i, ((_, kind), column) in enumerate(zip(self.plan.columns, batch.values, strict=True)):
            if i in batch.texts:
                # Another secret after a restart gives other codes, of the same texts: segments hold the texts.
                whole[:, i] = keyed_many(*batch.texts[i])[column]
            elif kind == "float":
                np.add(column, 0.0, out=real[:, i])  # there is one zero: -0.0 + 0.0 is 0.0
            else:
                whole[:, i] = column
        return whole


def warm() -> None:
    """Compile the kernel (some twenty seconds, once per installation), or load what was compiled before.

    ``judge`` does it by itself at its first call; processes that start together should not each do it.
    """
    compiled()
    for hashes in (xxh64_many, keyed_many):
        hashes(np.zeros(0, np.uint8), np.zeros(1, np.int64))


def warm_in_order() -> None:
    """The same for what a batch is judged by whose records come far out of order."""
    compiled_in_order()


def _fields(memory: MemoryMap) -> KeyFields:
    """What lines remember: records by their numbers."""

    def of(name: int) -> Callable[[int], Any]:
        return lambda number: memory.field(at.SLOTS, int(memory.words[name]) + 4 * number)

    return KeyFields(
        satisfied=lambda byte: memory.field(at.SLOTS, int(memory.words[at.SAT_AT]) + byte, np.uint8),
        judged=of(at.JUDGED_AT),
        emitted=of(at.EMITTED_AT),
    )
