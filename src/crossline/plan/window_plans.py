"""Verdicts over windows, as a kernel has them: what a program asks of the state store that it is given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain

from crossline.basics.conditions.condition import Condition
from crossline.basics.conditions.tree import AllOf, Leaf, Node
from crossline.basics.streams.schema import StreamSpec
from crossline.plan.spaces import (
    AggregateSpec,
    ComparisonPlan,
    CrossKeyInput,
    FeatureQueryPlan,
    FormulaPlan,
    WindowSpec,
)
from crossline.plan.state_stores import Draft, FilterSpec, filter_of, step_filter, streak_filter
from crossline.programs.program import (
    Comparison,
    CrossKeyFigure,
    FeatureQuery,
    Feed,
    Figure,
    FormulaPredicate,
    Program,
    Window,
)
from crossline.rules.ruleset import RuleVersion


def _filter(draft: Draft, spec: FilterSpec) -> int:
    number = draft.state_store.filters.index(spec)
    draft.used.add(number)
    return number


def _filter_of(draft: Draft, feed: Feed, spec: StreamSpec, column: str | None = None) -> int:
    """The number of the filter of ``feed``, or of another that lets the same records pass, and whose windows it shares.

    That a required field is present holds for every record, so a condition without it selects the same ones. Panes
    keep parts by filter, each its own.
    """
    own = filter_of(feed, spec, column)
    number, wider = _filter(draft, own), replace(own, condition=_selecting(feed.condition, spec))
    if draft.state_store.resolution_ms or wider not in draft.state_store.filters:
        return number
    return _filter(draft, wider)


def _selecting(condition: Condition, spec: StreamSpec) -> str:
    """The canonical form of ``condition`` without the presence of required fields."""
    node = condition.node
    if not isinstance(node, AllOf):
        return condition.canonical
    return Condition(AllOf(tuple(each for each in node.parts if not _holds_always(each, spec)))).canonical


def _holds_always(node: Node, spec: StreamSpec) -> bool:
    if not isinstance(node, Leaf) or node.operator != "exists":
        return False
    column = spec.columns.get(node.field)
    return column is not None and not column.optional


def _aggregate(draft: Draft, figure: Figure, spec: StreamSpec, *, counted: bool = False) -> int:
    """The number of the aggregate of ``figure``, or of the count of its window."""
    window = _window(_filter_of(draft, figure.feed, spec, figure.column), figure.window)
    number = draft.windows.setdefault(window, len(draft.windows))
    column = -1
    if figure.streak_of is not None and not counted:
        column = _filter(draft, streak_filter(figure))
    elif figure.column is not None and figure.column_kind is not None and not counted:
        column = draft.state_store.columns.index((figure.column, figure.column_kind))
    aggregate = AggregateSpec(number, column, figure.aggregate, figure.rank, figure.half_life_ms)
    if counted:
        aggregate = AggregateSpec(number, column, "count")
    return draft.aggregates.setdefault(aggregate, len(draft.aggregates))


def comparison_of(
    draft: Draft, version: RuleVersion, program: Program, verdict: Comparison, spec: StreamSpec
) -> ComparisonPlan:
    """The comparison of a figure, for the state store of ``draft``."""
    if program.figures[0].feed != program.feed:
        raise ValueError(f"{version.rule.rule_id}: a comparison reads a figure of the judged feed")
    return ComparisonPlan(
        rule_id=version.rule.rule_id,
        version=version.rule.version,
        aggregate=_aggregate(draft, program.figures[0], spec),
        operator=verdict.operator,
        threshold=verdict.threshold,
        emit_every=program.emission.every,
        cooldown_ms=program.emission.cooldown_ms,
        spans=((version.effective_from_ms, version.effective_until_ms),),
        judge_lateness_ms=program.judge_lateness_ms,
    )


def formula_of(
    draft: Draft, version: RuleVersion, program: Program, verdict: FormulaPredicate, spec: StreamSpec
) -> FormulaPlan:
    """The formula of a rule, and the fields that it reads."""
    inputs = tuple(chain.from_iterable(_cross_key_inputs(version, of) for of in program.cross_key))
    cross_key = {each.name for each in inputs}
    draft.facts |= dict.fromkeys(name for name in verdict.fields if name not in cross_key)
    rearm_ms = program.emission.rearm_ms
    if rearm_ms is None:
        rearm_ms = max(each.window.rearm_ms for each in program.figures)
    return FormulaPlan(
        rule_id=version.rule.rule_id,
        version=version.rule.version,
        filter=_filter_of(draft, program.feed, spec),
        figures=_named(draft, program, verdict.names, spec),
        verdict=verdict,
        cross_key_inputs=inputs,
        rearm_ms=rearm_ms,
        emit_every=program.emission.every,
        cooldown_ms=program.emission.cooldown_ms,
        spans=((version.effective_from_ms, version.effective_until_ms),),
        judge_lateness_ms=program.judge_lateness_ms,
    )


def _cross_key_inputs(version: RuleVersion, of: CrossKeyFigure) -> list[CrossKeyInput]:
    windows = ((name, figure.window) for name, figure in of.figures.items())
    return [
        CrossKeyInput(version.rule.rule_id, version.rule.version, name, kind, _window(-1, window))
        for (name, window), kind in zip(windows, of.kinds, strict=True)
    ]


def _window(number: int, window: Window) -> WindowSpec:
    return WindowSpec(
        filter=number,
        window_ms=window.length_ms,
        left_closed=window.bounds[0] == "[",
        right_open=window.bounds[1] == ")",
        include_current=window.include_current,
        delay_ms=window.delay_ms,
        resolution_ms=window.resolution_ms,
    )


def _named(draft: Draft, program: Program, names: Sequence[str], spec: StreamSpec) -> tuple[tuple[str, int, int], ...]:
    """For each figure its name, its aggregate, and the aggregate that counts its window."""
    aggregates = [
        (_aggregate(draft, each, spec), _aggregate(draft, each, spec, counted=True)) for each in program.figures
    ]
    return tuple((name, *each) for name, each in zip(names, aggregates, strict=True))


def feature_query_of(
    draft: Draft, version: RuleVersion, program: Program, verdict: FeatureQuery, spec: StreamSpec
) -> FeatureQueryPlan:
    """The figures that a feature query computes, and the fields that its rows carry."""
    draft.facts |= dict.fromkeys(verdict.facts)
    return FeatureQueryPlan(
        rule_id=version.rule.rule_id,
        version=version.rule.version,
        filter=_filter_of(draft, program.feed, spec),
        figures=_named(draft, program, verdict.names, spec),
        facts=verdict.facts,
        spans=((version.effective_from_ms, version.effective_until_ms),),
        judge_lateness_ms=program.judge_lateness_ms,
    )


def filter_of_step(draft: Draft, program: Program, spec: StreamSpec, feed: Feed) -> int:
    """The number of the filter of a feed of a sequence or an absence."""
    return _filter(draft, step_filter(program, feed, spec))
