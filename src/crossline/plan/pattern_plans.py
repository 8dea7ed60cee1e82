"""Verdicts of the order of records, and of what is missing in it, as a kernel has them."""

from __future__ import annotations

from collections.abc import Callable

from crossline.plan.pattern_spaces import AbsencePlan, SequencePlan, StepPlan
from crossline.programs.program import AbsencePredicate, Feed, Program, SequencePredicate
from crossline.rules.ruleset import RuleVersion


def sequence_of(
    version: RuleVersion, program: Program, verdict: SequencePredicate, number_of: Callable[[Feed], int]
) -> SequencePlan:
    """The plan of a sequence; ``number_of``: the number of the filter of a feed."""
    return SequencePlan(
        rule_id=version.rule.rule_id,
        version=version.rule.version,
        steps=tuple(StepPlan(number_of(step.feed), step.times) for step in verdict.steps),
        within_ms=verdict.within_ms,
        until=None if verdict.until is None else number_of(verdict.until),
        strict=number_of(program.feed) if verdict.strict else None,
        spans=((version.effective_from_ms, version.effective_until_ms),),
        judge_lateness_ms=program.judge_lateness_ms,
        cooldown_ms=program.emission.cooldown_ms,
        probes=verdict.probes,
    )


def absence_of(
    version: RuleVersion, program: Program, verdict: AbsencePredicate, number_of: Callable[[Feed], int]
) -> AbsencePlan:
    """The plan of an absence; ``number_of``: as in ``sequence_of``."""
    return AbsencePlan(
        rule_id=version.rule.rule_id,
        version=version.rule.version,
        after=number_of(verdict.after),
        expect=number_of(verdict.expect),
        within_ms=verdict.within_ms,
        grace_ms=program.feed.allowed_lateness_ms or 0,
        spans=((version.effective_from_ms, version.effective_until_ms),),
        judge_lateness_ms=program.judge_lateness_ms,
        cooldown_ms=program.emission.cooldown_ms,
        probes=verdict.probes,
    )
