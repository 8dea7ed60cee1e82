"""The formulas of a plan over the kernel's figures of a batch's rows, and the fields of its records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from crossline.basics.formula.columns import FormulaProgram, Zeroed, compile_formula
from crossline.basics.formula.naive import evaluate
from crossline.basics.values import F64, I32, I64, U8
from crossline.plan.spaces import FeatureQueryPlan, FormulaPlan, WindowPlan, count_of, up_of
from crossline.programs.program import SCORE
from crossline.state.batch import Failure, FigureRead, FormulaRead, KeyedBatch
from crossline.state.windows.emission.columns import in_force
from crossline.state.windows.program import INT_KINDS, output_aggregates

Number = int | float | None


@dataclass(frozen=True, slots=True)
class KernelFigures:
    """Output figures of n rows, a column each; see ``FIGURE_I`` and its like in ``layout``.

    ``whole`` and ``real`` may be one memory: of each figure one of the two is read. ``wide``: False where ``up`` is 0.
    """

    whole: I64
    up: I64
    real: F64
    defined: U8
    wide: bool = True

    @staticmethod
    def of(rows: int, columns: int) -> KernelFigures:
        """None defined yet."""
        shape = (rows, columns)
        return KernelFigures(
            np.zeros(shape, np.int64), np.zeros(shape, np.int64), np.zeros(shape), np.zeros(shape, np.uint8)
        )


class Numbered(Protocol):
    """The aggregates of a kernel's program, in its own order: their numbers among the outputs, and their kinds."""

    @property
    def aggregate_figure(self) -> I32 | I64:
        """The numbers."""
        ...

    @property
    def aggregate_kind(self) -> I32 | I64:
        """Their kinds."""
        ...


@dataclass(frozen=True, slots=True)
class Judged:
    """The ``rows`` of a batch that are judged at once. ``copies``: 1 at the duplicates of the whole batch."""

    batch: KeyedBatch
    rows: slice
    copies: U8

    def by(self, line: FormulaPlan | FeatureQueryPlan) -> Any:
        """bool[rows]: which of them the line judges."""
        entered = (self.batch.filters[self.rows, line.filter >> 3] >> (line.filter & 7)) & 1
        mask = entered.astype(np.bool_) & (self.copies[self.rows] == 0)
        ingest_ms, lateness_ms = self.batch.ingest_ms[self.rows], self.batch.lateness_ms[self.rows]
        return mask & in_force(line.spans, line.judge_lateness_ms, ingest_ms, lateness_ms)


class Formulas:
    """``plan.formulas``, compiled."""

    def __init__(self, plan: WindowPlan, program: Numbered) -> None:
        self._lines = plan.formulas
        self._first = len(plan.lines)
        outputs = output_aggregates(plan)
        kinds = {int(n): int(kind) for n, kind in zip(program.aggregate_figure, program.aggregate_kind, strict=True)}
        self._is_int = [kinds[number] in INT_KINDS for number in range(len(outputs))]
        self._columns = [
            [(outputs.index(group), outputs.index(count)) for _, group, count in x.figures] for x in self._lines
        ]
        self._windows = [
            [plan.windows[plan.aggregates[count].window] for _, _, count in x.figures] for x in self._lines
        ]
        scored = {number: line.verdict.scored for number, line in enumerate(self._lines) if line.verdict.scored}
        self._features = {number: [compile_formula(each) for each in of.features] for number, of in scored.items()}
        self._scored = scored
        self._ups = {up_of(each.fact) for line in self._lines for each in line.cross_key_inputs}
        self._whens = {number: compile_formula(self._lines[number].verdict.when) for number in scored}
        # Rules differ in their lines more than in what they hold against them: what they share is computed once.
        self._plain = [number for number in range(len(self._lines)) if number not in scored]
        whens = [self._lines[number].verdict.when.renamed(self._names(number)) for number in self._plain]
        self._together = FormulaProgram(whens)
        read = set(self._together.names)
        self._shared = [column for column in range(len(outputs)) if _shared_name(column) in read]
        self._scores: dict[int, F64] = {}
        self._failed: dict[Failure, int] = {}
        self._without: dict[int, list[I64]] = {}

    def failed(self) -> dict[Failure, int]:
        """How many rows no model could judge since the last call, by rule version and why."""
        found, self._failed = self._failed, {}
        return found

    def without(self) -> dict[int, I64]:
        """The rows that lack their first figure since the last call, by number of the line."""
        found, self._without = self._without, {}
        return {number: np.concatenate(rows) for number, rows in found.items()}

    def holds(self, outputs: KernelFigures, facts: Mapping[str, pa.Array], judged: Judged) -> U8:
        """Of each row (first axis) and formula: 1 where it holds."""
        rows = len(outputs.whole)
        out = np.zeros((rows, len(self._lines)), np.uint8)
        wide = self._wide(outputs, facts)
        columns = {_shared_name(column): self._column(column, outputs) for column in self._shared}
        together = self._together.truths({**facts, **columns}, rows)
        for number, held in zip(self._plain, together, strict=True):
            if np.count_nonzero(held):  # of most formulas there is nothing to write
                out[:, number] = held
        for number, when in self._whens.items():
            given = self._given(number, outputs, facts)
            given[SCORE] = self._score(number, outputs, facts, given, judged.by(self._lines[number]))
            values, valid = when(given, rows)
            out[:, number] = np.logical_and(values, valid)
        for number, line in enumerate(self._lines):
            if line.verdict.waits:
                lacking = judged.by(line) & (outputs.defined[:, self._columns[number][0][0]] == 0)
                self._without.setdefault(self._first + number, []).append(np.flatnonzero(lacking) + judged.rows.start)
        for row in np.flatnonzero(wide).tolist():
            for number, line in enumerate(self._lines):
                out[row, number] = bool(evaluate(line.verdict.when.root, self._read(number, row, outputs, facts)))
        return out

    def _score(
        self,
        number: int,
        outputs: KernelFigures,
        facts: Mapping[str, pa.Array],
        given: Mapping[str, Any],
        judged: Any,
    ) -> tuple[F64, Any]:
        """The score of each row, and where there is one: a model is called only for those that are ``judged``."""
        scored, line, rows = self._scored[number], self._lines[number], len(outputs.whole)
        features: F64 = np.full((rows, len(scored.features)), np.nan)
        for column, (formula, compiled) in enumerate(zip(scored.features, self._features[number], strict=True)):
            values, valid = compiled(given, rows)
            np.copyto(features[:, column], values, where=valid, casting="unsafe")
            for row in np.flatnonzero(self._wide(outputs, facts) & judged).tolist():
                value = evaluate(formula.root, self._read(number, row, outputs, facts, scored=False))
                features[row, column] = np.nan if value is None else float(value)
        scores: F64 = np.full(rows, np.nan)
        scores[judged], why = scored.scorer.scores(features[judged])
        bad = int(np.isnan(scores[judged]).sum())
        if bad:
            failure = (line.rule_id, line.version, why)
            self._failed[failure] = self._failed.get(failure, 0) + bad
        self._scores[number] = scores
        return scores, ~np.isnan(scores)

    def read(
        self,
        hits: Iterable[tuple[int, int, int, int]],
        outputs: KernelFigures,
        facts: Mapping[str, pa.Array],
        start: int,
    ) -> dict[int, FormulaRead]:
        """What formulas read: of ``hits``, each its number, line, row and the end of its window, in ms.

        ``outputs`` and ``facts`` begin with row ``start``.
        """
        found = {}
        for at, line, row, end_ms in hits:
            number = line - self._first
            found[at] = self._formula(number, row - start, end_ms + self._windows[number][0].delay_ms, outputs, facts)
        return found

    def _formula(
        self, number: int, row: int, now_ms: int, outputs: KernelFigures, facts: Mapping[str, pa.Array]
    ) -> FormulaRead:
        line, read = self._lines[number], self._read(number, row, outputs, facts)
        verdict = line.verdict
        value = None if verdict.value is None else evaluate(verdict.value.root, read)
        figures = {}
        for (name, _, _), (_, count), window in zip(
            line.figures, self._columns[number], self._windows[number], strict=True
        ):
            if name in read:
                start_ms, end_ms = window.span_ms(now_ms)
                figures[name] = FigureRead(read[name], start_ms, end_ms, int(outputs.whole[row, count]))
        for each in line.cross_key_inputs:
            if each.name in read:
                count = facts[count_of(each.fact)][row].as_py() or 0
                start_ms, end_ms = each.window.span_ms(now_ms)
                figures[each.name] = FigureRead(read[each.name], start_ms, end_ms, count)
        shows: dict[str, Any] = {name: evaluate(each.root, read) for name, each in verdict.shows}
        if verdict.scored is not None:
            named = zip(verdict.scored.scorer.features, verdict.scored.features, strict=True)
            shows["features"] = {name: evaluate(each.root, read) for name, each in named}
        fields = {name: each for name, each in read.items() if name not in figures and name != SCORE}
        return FormulaRead(value, figures, fields, shows)

    def _read(
        self,
        number: int,
        row: int,
        outputs: KernelFigures,
        facts: Mapping[str, pa.Array],
        *,
        scored: bool = True,
    ) -> dict[str, Any]:
        """Each figure and field that the formula names, as it was at ``row``; None where it is missing.

        ``scored``: with the score of a model, which was computed before.
        """
        line = self._lines[number]
        columns = {name: at for (name, _, _), (at, _) in zip(line.figures, self._columns[number], strict=True)}
        names = line.verdict.read
        figures = {name: self._figure(columns[name], row, outputs) for name in names if name in columns}
        called = {each.name: each.fact for each in line.cross_key_inputs}
        read = {name: figures[name] if name in figures else _fact(called.get(name, name), row, facts) for name in names}
        if scored and number in self._scores:
            score = float(self._scores[number][row])
            read[SCORE] = None if np.isnan(score) else score
        return read

    def _wide(self, outputs: KernelFigures, facts: Mapping[str, pa.Array]) -> Any:
        """bool[rows]: where a figure, of the key or cross-key, is an integer of more than 64 bits."""
        wide: Any = np.zeros(len(outputs.up), np.bool_)
        if outputs.wide and np.count_nonzero(outputs.up):
            wide = outputs.up[:, np.flatnonzero(self._is_int)].any(axis=1)  # lines may have further output figures
        for name in self._ups & facts.keys():
            wide |= facts[name].fill_null(0).to_numpy(zero_copy_only=False) != 0
        return wide

    def _figure(self, column: int, row: int, outputs: KernelFigures) -> Number:
        if not outputs.defined[row, column]:
            return None
        if not self._is_int[column]:
            return float(outputs.real[row, column])
        return int(outputs.whole[row, column]) + (int(outputs.up[row, column]) << 64)

    def _names(self, number: int) -> dict[str, str]:
        """What a formula reads, by what it is called among all formulas."""
        line = self._lines[number]
        figures = zip(line.figures, self._columns[number], strict=True)
        names = {name: _shared_name(column) for (name, _, _), (column, _) in figures}
        return names | {each.name: each.fact for each in line.cross_key_inputs}

    def _column(self, column: int, outputs: KernelFigures) -> Zeroed:
        """A figure of all rows side by side, and where it is defined: kernels write nothing where it is not."""
        values = outputs.whole if self._is_int[column] else outputs.real
        defined = np.ascontiguousarray(outputs.defined[:, column]).view(np.bool_)
        return Zeroed(np.ascontiguousarray(values[:, column]), defined)

    def _given(self, number: int, outputs: KernelFigures, facts: Mapping[str, pa.Array]) -> dict[str, Any]:
        given: dict[str, Any] = dict(facts)
        for (name, _, _), (column, _) in zip(self._lines[number].figures, self._columns[number], strict=True):
            values = outputs.whole if self._is_int[column] else outputs.real
            given[name] = (values[:, column], outputs.defined[:, column].view(np.bool_))
        given |= {each.name: facts[each.fact] for each in self._lines[number].cross_key_inputs}
        return given


def _fact(name: str, row: int, facts: Mapping[str, pa.Array]) -> Any:
    """A field or a cross-key figure at ``row``; None where it is missing."""
    value, up = facts[name][row].as_py(), facts.get(up_of(name))
    more = None if value is None or up is None else up[row].as_py()
    return value + (more << 64) if more else value


def _shared_name(column: int) -> str:
    """The name of an output figure among all formulas; no field has such a name."""
    return f"\x1f{column}"
