"""Panes by scanning all earlier records: the twin of windows, with edges that are rounded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tests.unit.state.windows.naive import Hit, Naive, Row

from crossline.plan.spaces import ComparisonPlan, FormulaPlan, WindowSpec


@dataclass
class NaivePanes(Naive):
    """``duplicate_ms``: how far behind a row's ingest time the clock of its first copy may be."""

    duplicate_ms: int = 0

    def judge(self, rows: Sequence[Row]) -> tuple[list[Hit], list[bool]]:
        hits: list[Hit | None] = []
        duplicates = []
        for number, row in enumerate(rows):
            known = [r for r in self.rows if r.clock >= row.ingest_ms - self.duplicate_ms]
            duplicates.append(any((r.key, r.id) == (row.key, row.id) for r in known))
            if duplicates[-1] or not row.filters:
                continue
            hits += [self._line(i, each, row, number) for i, each in enumerate(self.plan.lines)]
            formulas = enumerate(self.plan.formulas, len(self.plan.lines))
            hits += [self._formula(i, each, row, number) for i, each in formulas]
            self.rows.append(row)
        return [hit for hit in hits if hit is not None], duplicates

    def window(self, cursor: WindowSpec, row: Row) -> list[Row]:
        if not cursor.resolution_ms:
            return super().window(cursor, row)
        low, high = rounded(cursor, row.clock)
        mine = [r for r in self.rows if r.key == row.key and cursor.filter in r.filters and r.clock >= low]
        if cursor.delay_ms or cursor.right_open:
            found = [r for r in mine if r.clock < high]
        else:
            found = [r for r in mine if r.clock <= high]
        itself = cursor.include_current and not cursor.delay_ms and cursor.filter in row.filters
        return sorted(found + [row] * itself, key=lambda r: r.clock)

    def _emits(self, i: int, line: ComparisonPlan | FormulaPlan, row: Row, holds: bool, rearm_ms: int) -> bool:
        plan = self.plan
        if isinstance(line, ComparisonPlan):
            cursor = plan.windows[plan.aggregates[line.aggregate].window]
            resolution, back_ms = cursor.resolution_ms, cursor.window_ms
        else:
            read = [plan.windows[plan.aggregates[group].window] for _, group, _ in line.figures]
            resolution, back_ms = max(each.resolution_ms for each in read), line.rearm_ms
        if resolution:
            rearm_ms = row.clock - (row.clock - back_ms) // resolution * resolution + 1
        return super()._emits(i, line, row, holds, rearm_ms)

    def _hit(self, i: int, number: int, value: Any, cursor: WindowSpec, row: Row) -> Hit:
        window = self.window(cursor, row)
        start, end = rounded(cursor, row.clock)
        itself = cursor.include_current and not cursor.delay_ms and cursor.filter in row.filters
        return Hit(i, number, value, len(window), start, end, (row.id,) if itself else ())


def rounded(cursor: WindowSpec, now: int) -> tuple[int, int]:
    """The edges of the window of a record at ``now``."""
    high = now - cursor.delay_ms
    low, resolution = high - cursor.window_ms, cursor.resolution_ms
    if not resolution:
        return low, high
    low -= low % resolution
    return low, high - high % resolution if cursor.delay_ms else high
