"""The mark of each record of an alert: counted, counted before, outside, filtered out, crossing, or after it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from crossline.backtest.investigation.key_records import KeyRecord
from crossline.backtest.investigation.outcome_text import duration_text
from crossline.backtest.investigation.timeline import Mark
from crossline.backtest.investigation.variant_runner import VariantRunner
from crossline.backtest.investigation.window_times import clock_ms
from crossline.backtest.sample_view import shown_value
from crossline.basics.conditions.condition import Condition
from crossline.basics.conditions.evaluation import lookup
from crossline.basics.conditions.tree import AllOf
from crossline.basics.times import parse_instant_ms
from crossline.programs.program import Figure, Program
from crossline.programs.registry import declared
from crossline.rules.base import Rule


@dataclass(frozen=True, slots=True)
class Window:
    """The alert's window on the rule's clock, epoch ms; None: no window."""

    start_ms: int | None
    end_ms: int | None
    bounds: str = "(]"

    def has(self, at_ms: int) -> bool:
        """Whether the window contains an instant."""
        if self.start_ms is None or self.end_ms is None:
            return True
        after = at_ms >= self.start_ms if self.bounds[0] == "[" else at_ms > self.start_ms
        return after and (at_ms <= self.end_ms if self.bounds[1] == "]" else at_ms < self.end_ms)


def window_of(alert: Mapping[str, Any], figure: Figure | None) -> Window:
    """The window in an alert."""
    if alert["window_start"] is None:
        return Window(None, None)
    bounds = figure.window.bounds if figure is not None else "[]"
    return Window(parse_instant_ms(alert["window_start"]), parse_instant_ms(alert["window_end"]), bounds)


def marks_of(runner: VariantRunner, records: Sequence[KeyRecord], window: Window) -> Iterator[tuple[Mark, str]]:
    """The mark of each record and its note, in the order of the records."""
    program = runner.program()
    figure = _first(program)
    conditions = _conditions(runner.rule, program, figure)
    stream, seen, passed = runner.rule.reading.judges, set[Any](), False
    for each in records:
        if each.record_id == runner.record_id:
            passed = True
            yield "crossing", "crosses the threshold" if figure is not None else "fires"
            continue
        why = _unmet(runner, conditions, each) if each.stream == stream else ""
        at_ms = clock_ms(runner, each)
        if passed:
            yield "after", "after the alert" + (f"; {why}" if why else "")
        elif why:
            yield "filtered", why
        elif not window.has(at_ms):
            yield "outside", _outside(window, at_ms)
        else:
            yield _counted(figure, each, seen)


def _first(program: Program) -> Figure | None:
    """The figure whose window the alert has."""
    return program.figure


def _conditions(rule: Rule, program: Program, figure: Figure | None) -> list[Condition]:
    """The conditions of the first figure; for a sequence, those of its steps."""
    if figure is not None:
        return [figure.feed.condition]
    if program.sequence is not None:
        return [feed.condition for feed in program.sequence.feeds]
    return [rule.filter]


def _unmet(runner: VariantRunner, conditions: Sequence[Condition], record: KeyRecord) -> str:
    """The part of the conditions that a record fails; "" if it passes one of ``conditions``."""
    lists = {
        name: runner.setting.lists[name].at(record.stream, record.ingest_ms)
        for condition in conditions
        for name in condition.lists()
        if name in runner.setting.lists
    }
    if any(each.holds(record.fields, lists) for each in conditions):
        return ""
    if len(conditions) > 1:
        return "takes no step"
    node = conditions[0].node
    for part in map(Condition, node.parts if isinstance(node, AllOf) else (node,)):
        if not part.holds(record.fields, lists):
            values = ", ".join(f"{name} {shown_value(lookup(record.fields, name))}" for name in part.fields())
            return f"{values}; counted are {part.text}"
    return "not counted"


def _outside(window: Window, at_ms: int) -> str:
    if window.start_ms is not None and at_ms <= window.start_ms:
        return f"{duration_text(window.start_ms - at_ms)} before the window"
    return f"{duration_text(at_ms - (window.end_ms or at_ms))} behind the window"


def _counts_values(figure: Figure) -> bool:
    aggregate = declared(figure.aggregate)
    return aggregate.counts and aggregate.takes == "values"


def _counted(figure: Figure | None, record: KeyRecord, seen: set[Any]) -> tuple[Mark, str]:
    if figure is None or figure.column is None or not _counts_values(figure):
        return "counted", "counted"
    value = record.value(figure.column)
    if value is None:
        return "filtered", f"it has no {figure.column}"
    if value in seen:
        return "before", f"{figure.column} {value} again, counted once"
    seen.add(value)
    return "counted", f"{figure.column} {len(seen)}: {value}"


def lane_of(program: Program, record: KeyRecord, stream: str, lists: Mapping[str, Sequence[Any]]) -> int:
    """The lane: of a sequence, the first step whose condition holds (-1: none); of a second stream 1; else 0."""
    if program.sequence is not None:
        met = (
            number
            for number, step in enumerate(program.sequence.steps)
            if step.feed.stream in {record.stream, stream} and step.feed.condition.holds(record.fields, lists)
        )
        return next(met, -1)
    return int(program.formula is not None and record.stream != stream)
