"""The figures of a store that rules use: of thresholds, formulas and feature queries of versions in force."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from crossline.basics.formula.tree import Name
from crossline.plan.compile import StorePlan, StreamPlan
from crossline.plan.spaces import ComparisonPlan, FeatureQueryPlan, FormulaPlan, WindowPlan
from crossline.programs.program import Comparison
from crossline.programs.registry import declared
from crossline.rules.base import Rule
from crossline.rules.shared_figures import shared_in


@dataclass(frozen=True, slots=True)
class QueriedFigure:
    """A figure of a rule version: its name there, the number of its group, and of the one that counts (-1: any).

    ``line``: what it is held against, where the verdict is a comparison of it with a number. ``shared``: the id of the
    shared figure that it is; "": it is none.
    """

    rule_id: str
    version: int
    name: str
    aggregate: int
    count: int
    line: Comparison | None = None
    shared: str = ""


def queried_figures(plan: StreamPlan, store_plan: StorePlan, now_ms: int | None) -> Iterator[QueriedFigure]:
    """The figures of the store that are of rules in force at ``now_ms``, on the ingest clock; None: at any time."""
    kernel = store_plan.plan.windowed
    if kernel is None:
        return
    rules = [versions[0].rule for versions in store_plan.versions]
    for line, rule in zip(kernel.lines, rules[: len(kernel.lines)], strict=True):
        if is_queried(plan, line, rule, now_ms):
            yield from _of_line(kernel, line)
    for formula, rule in zip(kernel.formulas, rules[len(kernel.lines) :], strict=True):
        if is_queried(plan, formula, rule, now_ms):
            yield from _of_formula(formula, rule)
    for feature_query in kernel.feature_queries:
        if _in_force(feature_query, now_ms):
            for name, group, count in feature_query.figures:
                yield QueriedFigure(feature_query.rule_id, feature_query.version, name, group, count)


def is_queried(plan: StreamPlan, line: ComparisonPlan | FormulaPlan, rule: Rule, now_ms: int | None) -> bool:
    """Whether the version is in force and the rule itself names figures: a plan may add figures of its own."""
    written = not rule.is_hold and bool(plan.programs[line.rule_id, line.version].figures)
    return written and _in_force(line, now_ms)


def _in_force(line: ComparisonPlan | FormulaPlan | FeatureQueryPlan, now_ms: int | None) -> bool:
    return now_ms is None or any(start <= now_ms < end for start, end in line.spans)


def _of_line(kernel: WindowPlan, line: ComparisonPlan) -> Iterator[QueriedFigure]:
    group = kernel.aggregates[line.aggregate]
    of = "" if group.column < 0 or declared(group.aggregate).meets else f" of {kernel.columns[group.column][0]}"
    against = Comparison(line.operator, line.threshold)
    yield QueriedFigure(line.rule_id, line.version, f"{group.aggregate}{of}", line.aggregate, -1, against)


def _of_formula(line: FormulaPlan, rule: Rule) -> Iterator[QueriedFigure]:
    shared = {name: each.shared or "" for name, each in shared_in(rule).items()}
    value, fixed = line.verdict.value, line.verdict.fixed_line
    for name, group, count in line.figures:
        held = fixed if value is not None and isinstance(value.root, Name) and value.root.name == name else None
        yield QueriedFigure(line.rule_id, line.version, name, group, count, held, shared.get(name, ""))
