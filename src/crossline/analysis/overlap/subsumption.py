"""Findings about subsumed rules: wherever the one holds, the other holds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import get_args

from crossline.analysis.claims import All, Denied
from crossline.analysis.lint import LintFinding, RuleClaims
from crossline.analysis.satisfiability import impossible
from crossline.basics.conditions.condition import Condition
from crossline.basics.conditions.tree import EVERYTHING
from crossline.basics.share import SLOTS, keys_of
from crossline.basics.streams.clocks import clock_of
from crossline.programs.program import Comparison, Figure
from crossline.programs.registry import declared
from crossline.rules.base import Action, Severity

# Of more records these are never less, or never more: where the line is on that side, a wider feed serves.
_NO_CONDITION = Condition(EVERYTHING)


def subsumption_findings(rules: Sequence[RuleClaims]) -> list[LintFinding]:
    """Of rules of the same stream, clock and keys those that another one makes needless; of equals the later."""
    groups: dict[object, list[RuleClaims]] = defaultdict(list)
    for each in rules:
        feed = each.program.feed
        clock = clock_of(each.rule.timestamp_field, each.spec)
        groups[feed.stream, feed.time_mode, clock, feed.key_fields, each.program.entity].append(each)
    return [finding for group in groups.values() for finding in _in_group(group)]


def _in_group(group: Sequence[RuleClaims]) -> Iterator[LintFinding]:
    for number, rule in enumerate(group):
        for place, other in enumerate(group):
            if place == number or not _as_grave(rule, other) or not _implies(rule, other):
                continue
            if place > number and _as_grave(other, rule) and _implies(other, rule):
                continue  # equals: reported for the later one
            yield _finding(rule, other)
            break


def _finding(rule: RuleClaims, other: RuleClaims) -> LintFinding:
    return LintFinding(
        rule.rule.rule_id,
        "subsumed",
        rule.rule.place_of("when") or rule.rule.place_of("conditions"),
        f"wherever it holds, {other.rule.rule_id} version {other.rule.version} does, which is as grave",
        "it holds at no record at which the other does not",
        "retire it, or give it a severity, score or action of its own",
    )


def _as_grave(rule: RuleClaims, other: RuleClaims) -> bool:
    """Whether ``other`` weighs as much, reaches as far, and is in force where ``rule`` is."""
    one, two = rule.rule, other.rule
    severities, actions = get_args(Severity), get_args(Action)
    return (
        severities.index(two.severity) >= severities.index(one.severity)
        and actions.index(two.action) >= actions.index(one.action)
        and two.score >= one.score
        and two.sink_topic == one.sink_topic
        and two.status == one.status
        and keys_of(two.share) == SLOTS  # of the same share two rules have other keys: a slot is of the rule's id
        and (two.effective_from or 0) == (one.effective_from or 0)
        and (other.program.emission.delivered or not rule.program.emission.delivered)
    )


def _implies(rule: RuleClaims, other: RuleClaims) -> bool:
    """Whether ``other`` holds at every record at which ``rule`` does."""
    one, two = rule.program, other.program
    late = (one.feed.allowed_lateness_ms, one.judge_lateness_ms) == (
        two.feed.allowed_lateness_ms,
        two.judge_lateness_ms,
    )
    if not late or rule.hits is None or other.hits is None:
        return late and rule.hits is other.hits is None and _narrower(rule, other)
    if not _narrower(rule, other) or not _same_figures(rule, other):
        return False
    return impossible(All((rule.enters, rule.hits, Denied(other.hits))), rule.known)


def _narrower(rule: RuleClaims, other: RuleClaims) -> bool:
    """Whether all records that ``rule`` looks at are looked at by ``other``."""
    return impossible(All((rule.enters, Denied(other.enters))), rule.known)


def _same_figures(rule: RuleClaims, other: RuleClaims) -> bool:
    one, two = rule.program, other.program
    if one.formula is not None and two.formula is not None:
        if set(one.named) & set(rule.spec.columns):
            return False  # a name would mean a figure here and a field there
        return all(one.named.get(name) == figure for name, figure in two.named.items())
    if one.comparison is not None and two.comparison is not None:
        return _same_or_wider(one.figures[0], one.comparison, two.figures[0], two.comparison)
    return False


def _same_or_wider(figure: Figure, line: Comparison, wider: Figure, its_line: Comparison) -> bool:
    if figure == wider:
        return True
    sides = declared(figure.aggregate).grows if figure.error is None else ()  # sketches are not so sure
    on_that_side = line.operator in sides and its_line.operator in sides
    return on_that_side and _apart_from_conditions(figure) == _apart_from_conditions(wider)


def _apart_from_conditions(figure: Figure) -> Figure:
    return replace(figure, feed=replace(figure.feed, condition=_NO_CONDITION))
