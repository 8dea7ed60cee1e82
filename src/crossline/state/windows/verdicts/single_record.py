"""Formulas of records whose window holds one other record, and nothing else: a context that came after them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crossline.basics.formula.naive import evaluate
from crossline.plan.spaces import FormulaPlan, WindowPlan, WindowSpec
from crossline.programs.aggregate import Scanned
from crossline.programs.registry import declared
from crossline.state.batch import FigureRead, FormulaRead, KeyedBatch


def context_window(plan: WindowPlan, line: FormulaPlan) -> WindowSpec:
    """The window of what the records that ``line`` judges wait for."""
    return plan.windows[plan.aggregates[line.figures[0][1]].window]


def read_single_record(
    plan: WindowPlan, line: FormulaPlan, clock_ms: int, fields: Mapping[str, Any], batch: KeyedBatch, row: int
) -> FormulaRead | None:
    """What ``line`` makes of a record with ``fields`` by ``row`` of ``batch`` alone; None where it does not hold."""
    verdict, values = line.verdict, dict[str, Any]()
    for name, number, _ in line.figures:
        group = plan.aggregates[number]
        value = batch.values[group.column][row].item() if group.column >= 0 else 1
        window = Scanned([value], [int(batch.clock_ms[row])], clock_ms)
        values[name] = declared(group.aggregate).by_twin(window)
    read = {**fields, **values}
    if evaluate(verdict.when.root, read) is not True:
        return None
    start_ms, end_ms = context_window(plan, line).span_ms(clock_ms)
    return FormulaRead(
        value=None if verdict.value is None else evaluate(verdict.value.root, read),
        figures={name: FigureRead(read[name], start_ms, end_ms, 1) for name in values if name in verdict.read},
        fields=dict(fields),
        shows={name: evaluate(each.root, read) for name, each in verdict.shows},
    )
