"""Figure bars: each comparison of a predicate as a figure against its threshold."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from crossline.backtest.alert_figures import read_figures
from crossline.basics.conditions.evaluation import lookup
from crossline.basics.conditions.tree import ORDERING, AllOf, AnyOf, Leaf
from crossline.basics.formula.canonical import canonical
from crossline.basics.formula.naive import COMPARE, evaluate
from crossline.basics.formula.tree import Compare, Name, Node, walk
from crossline.basics.times import format_duration
from crossline.programs.program import Figure, FormulaPredicate, Program
from crossline.programs.registry import declared
from crossline.rules.base import Rule

Unit = Literal["", "ms", "money", "km/h", "km"]
_MADE_OTHER = frozenset("*/^(")  # operators whose result is no duration


@dataclass(frozen=True, slots=True)
class FigureBar:
    """One figure and its threshold.

    Attributes:
        name: Its name in the rule; of an expression the text.
        what: Its definition: ``distinct_count of card, 15 min``; "" for a field of the record itself.
        value: The figure at the record; None if it is missing.
        threshold: The threshold at the record; None if it is missing.
        operator: The operator between them.
        unit: The unit of both: milliseconds, the field of money, or none.
        share: The position of the value on a scale from 0 to 2 x threshold, 0 to 1; None if there is no such scale.
        beyond: Whether the value exceeds that scale.
        met: Whether the comparison holds.
    """

    name: str
    what: str
    value: float | None
    threshold: float | None
    operator: str
    unit: Unit
    share: float | None
    beyond: bool
    met: bool


def bars_of(
    rule: Rule, program: Program, alert: Mapping[str, Any], money: str | None, record: Mapping[str, Any] | None = None
) -> list[FigureBar]:
    """The bars of an alert, in the order of the formula; for a rule without figures, those of its conditions.

    Args:
        rule: The version that fired.
        program: Its program.
        alert: The alert, or a probe, at the record.
        money: The field of the amount; None: unknown.
        record: The fields of the record at which it fired; None: unknown.
    """
    verdict = program.formula
    if (line := program.comparison) is not None:
        figure = program.figures[0]
        name = getattr(rule, "aggregation_type", None) or figure.aggregate
        unit = unit_of(figure, money)
        return [_bar(str(name), figure_text(figure), _number(alert["value"]), line.threshold, line.operator, unit)]
    if verdict is not None:
        if rule.rule_type == "geo_velocity":
            speed = _number(alert["value"])
            limit = float(getattr(rule, "max_speed_kmh", 0))
            return [_bar("speed", "from the record before", speed, limit, ">", "km/h")]
        if verdict.lines:
            nearest = verdict.nearest(_number(alert["value"]) or 0.0) or verdict.lines[0]
            name = canonical(verdict.value.root) if verdict.value is not None else "value"
            named = str(getattr(rule, "metric", None) or getattr(rule, "method", None) or name)
            return [_bar(named, "", _number(alert["value"]), nearest.threshold, nearest.operator, "")]
        return list(_formula_bars(verdict, program, read_figures(verdict, alert), money))
    return list(_of_conditions(rule, record, money)) if program.verdict is None and record is not None else []


def _of_conditions(rule: Rule, record: Mapping[str, Any], money: str | None) -> Iterator[FigureBar]:
    """A bar for each condition that compares a number by order."""
    for leaf in _leaves(rule.filter.node):
        if leaf.operator in ORDERING and isinstance(leaf.value, int | float) and not isinstance(leaf.value, bool):
            unit: Unit = "money" if leaf.field == money else ""
            yield _bar(leaf.field, "", _number(lookup(record, leaf.field)), leaf.value, leaf.operator, unit)


def _leaves(node: Any) -> Iterator[Leaf]:
    if isinstance(node, Leaf):
        yield node
    elif isinstance(node, AllOf | AnyOf):
        for part in node.parts:
            yield from _leaves(part)


def figure_text(figure: Figure) -> str:
    """``distinct_count of card, 15 min``."""
    of = f" of {figure.column}" if figure.column is not None else ""
    behind = f", {format_duration(figure.window.delay_ms)} before" if figure.window.delay_ms else ""
    return f"{figure.aggregate}{of}, {format_duration(figure.window.length_ms)}{behind}"


def unit_of(figure: Figure, money: str | None) -> Unit:
    """The unit of a figure's value."""
    if declared(figure.aggregate).in_ms:
        return "ms"
    return "money" if money is not None and figure.column == money and not declared(figure.aggregate).counts else ""


def comparisons(root: Node) -> Iterator[tuple[Node, str, Node]]:
    """Left side, operator and right side of each comparison, in text order; chained comparisons pair by pair."""
    for node in walk(root):
        if isinstance(node, Compare):
            yield from zip(node.operands, node.operators, node.operands[1:], strict=False)


def figures_of(program: Program, verdict: FormulaPredicate) -> dict[str, Figure]:
    """The figures by their names in the formula, cross-key figures included."""
    found = dict(zip(verdict.names, program.figures, strict=True))
    for cross_key in program.cross_key:
        found |= cross_key.figures
    return found


def _formula_bars(
    verdict: FormulaPredicate, program: Program, read: Mapping[str, Any], money: str | None
) -> Iterator[FigureBar]:
    figures = figures_of(program, verdict)
    for left, operator, right in comparisons(verdict.when.root):
        value, threshold = _number(evaluate(left, read)), _number(evaluate(right, read))
        name = left.name if isinstance(left, Name) else canonical(left)
        mine = [figures[each.name] for each in walk(left) if isinstance(each, Name) and each.name in figures]
        units = {unit_of(each, money) for each in mine} or {"money" if name == money else ""}
        has_unit = isinstance(left, Name) or (
            units == {"ms"} and not _MADE_OTHER & set(name)
        )  # a sum of durations is a duration
        unit: Unit = units.pop() if len(units) == 1 and has_unit else ""  # type: ignore[assignment]
        what = figure_text(mine[0]) if isinstance(left, Name) and mine else ""
        if not isinstance(right, Name) and any(isinstance(each, Name) for each in walk(right)):
            what = f"{what}, against {canonical(right)}" if what else f"against {canonical(right)}"
        yield _bar(name, what, value, threshold, operator, unit)


def _bar(name: str, what: str, value: float | None, threshold: float | None, operator: str, unit: Unit) -> FigureBar:
    met = value is not None and threshold is not None and bool(COMPARE[operator](value, threshold))
    share, beyond = share_of(value, threshold)
    return FigureBar(name, what, value, threshold, operator, unit, share, beyond, met)


def share_of(value: float | None, threshold: float | None) -> tuple[float | None, bool]:
    """The position of a value on a scale from 0 to 2 x threshold, and whether it exceeds the scale.

    Example:
        >>> share_of(6, 6), share_of(1865.78, 1500.0)[0], share_of(50, 10), share_of(1, 0)
        ((0.5, False), 0.6219266666666666, (1.0, True), (None, False))
    """
    if value is None or threshold is None or not threshold > 0 or not math.isfinite(threshold):
        return None, False
    share = value / (2 * threshold)
    return min(1.0, max(0.0, share)), share > 1


def _number(value: Any) -> Any:
    """The number of a value: infinities and NaN are texts in an alert. None if it is no number."""
    value = float(value) if value in {"Infinity", "-Infinity", "NaN"} else value
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None
