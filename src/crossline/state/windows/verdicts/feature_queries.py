"""Feature queries: figures of records as columns, without a predicate."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from crossline.plan.spaces import WindowPlan
from crossline.state.batch import FeatureColumn, RowFeatures
from crossline.state.windows.program import INT_KINDS, output_aggregates
from crossline.state.windows.verdicts.formulas import Judged, KernelFigures, Numbered


@dataclass(slots=True)
class _Pieces:
    """A feature query's output so far: rows, and of each figure values, high parts, defined, counts."""

    rows: list[Any] = field(default_factory=list)
    figures: dict[str, list[tuple[Any, Any, Any, Any]]] = field(default_factory=dict)


class FeatureQueries:
    """``plan.feature_queries``: ``take`` adds a batch piece by piece, ``features`` returns the result."""

    def __init__(self, plan: WindowPlan, program: Numbered) -> None:
        self._lines = plan.feature_queries
        outputs = output_aggregates(plan)
        kinds = {int(n): int(kind) for n, kind in zip(program.aggregate_figure, program.aggregate_kind, strict=True)}
        figures = [line.figures for line in self._lines]
        self._columns = [
            {name: (outputs.index(of), outputs.index(count)) for name, of, count in each} for each in figures
        ]
        self._is_int = [kinds[number] in INT_KINDS for number in range(len(outputs))]
        self._pieces = [_Pieces() for _ in self._lines]

    def take(self, outputs: KernelFigures, judged: Judged) -> None:
        """Add the kernel's ``outputs`` of the rows that are ``judged``."""
        for line, columns, pieces in zip(self._lines, self._columns, self._pieces, strict=True):
            mine = np.flatnonzero(judged.by(line))
            pieces.rows.append(mine + judged.rows.start)
            for name, (column, count) in columns.items():
                whole = self._is_int[column]  # of an average of integers there is a sum, of more than 64 bits or not
                values = (outputs.whole if whole else outputs.real)[mine, column]
                up = outputs.up[mine, column] if whole else np.zeros(len(mine), np.int64)
                piece = (
                    values,
                    up,
                    outputs.defined[mine, column].view(np.bool_),
                    outputs.whole[mine, count],
                )
                pieces.figures.setdefault(name, []).append(piece)

    def features(self) -> tuple[RowFeatures, ...]:
        """The result of each feature query for the batch; the next batch begins."""
        found = tuple(self._joined(number) for number in range(len(self._lines)))
        self._pieces = [_Pieces() for _ in self._lines]
        return found

    def _joined(self, number: int) -> RowFeatures:
        pieces, columns = self._pieces[number], self._columns[number]
        if not pieces.rows:
            return RowFeatures(
                np.empty(0, np.int64), {name: self._none(column) for name, (column, _) in columns.items()}
            )
        figures = {}
        for name, given in pieces.figures.items():
            values, up, defined, counts = (np.concatenate(each) for each in zip(*given, strict=True))
            values[~defined], up[~defined] = 0, 0
            figures[name] = FeatureColumn(values, up if up.any() else None, defined, counts)
        return RowFeatures(np.concatenate(pieces.rows), figures)

    def _none(self, column: int) -> FeatureColumn:
        kind: Any = np.int64 if self._is_int[column] else np.float64
        return FeatureColumn(np.empty(0, kind), None, np.empty(0, np.bool_), np.empty(0, np.int64))
