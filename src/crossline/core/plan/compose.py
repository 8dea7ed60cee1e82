"""All plans of a rule set: those of its streams, and those of hits that other rules read.

A plan of hits is one level above that of what its rule reads, and is judged a hop later. The deepest are compiled
first, for what they read of a hit is what the rule's own plan has to carry.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from crossline.core.conditions.condition import Condition
from crossline.core.conditions.tree import AllOf, Leaf
from crossline.core.figures.program import Feed, Program
from crossline.core.plan.compile import Origin, StreamPlan, compile_stream
from crossline.core.plan.layers import Layout
from crossline.core.rules.base import Defaults
from crossline.core.rules.composition import HIT, Sources, rule_of
from crossline.core.rules.ruleset import RuleSet, RuleVersion
from crossline.core.streams.schema import StreamSpec

_IS_ACTIVE = Leaf(f"{HIT}.shadow", "==", False)


def compile_all(
    rules: RuleSet,
    streams: Mapping[str, StreamSpec],
    defaults: Defaults,
    layout: Layout | None = None,
    *,
    probing: int = 0,
) -> dict[str, StreamPlan]:
    """The plans by name, of streams first, then of hits by their level.

    Hits that nobody reads have none, nor have those of a rule that is not there; a rule whose fields the hits have no
    more is left out. ``probing``: rules that look back and are judged at this level alert at every record that they
    have a figure at, or that takes a step; no level above it is judged (0: none).
    """
    sources = sources_of(rules, streams)
    rules = RuleSet(tuple(v for v in rules.versions if rule_of(v.rule.source_topic) is None or _fits(v, sources)))
    read = {v.rule.source_topic for v in rules.versions if rule_of(v.rule.source_topic) is not None}
    there = [name for name in read if not probing or sources.level(name) <= probing]
    way = sorted(there, key=sources.level, reverse=True)
    carried: dict[str, tuple[str, ...]] = {}
    plans: dict[str, StreamPlan] = {}
    for name in [*way, *streams]:
        mine = {rule_id: fields for rule_id, fields in carried.items() if sources.heads[rule_id].source_topic == name}
        rule_id = rule_of(name)
        change = _change(rules, rule_id, probing=sources.level(name) == probing)
        origin = Origin(sources.base(name), sources.level(name), mine)
        plan = plans[name] = compile_stream(rules, name, sources[name], defaults, layout, change=change, of=origin)
        if rule_id is not None:
            carried[rule_id] = tuple(field for field in reads(plan) if not field.startswith(f"{HIT}."))
    return dict(sorted(plans.items(), key=lambda each: each[1].level))


def _fits(version: RuleVersion, sources: Sources) -> bool:
    """Whether there are hits for it, with the fields that it reads."""
    name = version.rule.source_topic
    return sources.finding(name) is None and not version.rule.stream_findings(name, sources[name], None)


def sources_of(rules: RuleSet, streams: Mapping[str, StreamSpec]) -> Sources:
    """What the rules of a set may read: of several versions of a rule, the last says what its hits are."""
    return Sources(streams, rules.heads, any_key=True)


def reads(plan: StreamPlan) -> tuple[str, ...]:
    """The fields of its records that are read by what is judged on it, and by those that read its hits."""
    found = [plan.spec.id]
    for each in plan.layers:
        found += [
            *(name for fields in each.layer.namings for name in fields),
            *each.facts,
            *(name for name, _ in each.layer.columns),
        ]
        found += [entry.column for entry in each.layer.entries if entry.column is not None]
    for condition in plan.conditions.values():
        found += condition.fields()
    for rule in plan.stateless:
        found += [*rule.shown_fields, *plan.carried.get(rule.version.rule.rule_id, ())]
    return tuple(dict.fromkeys(found))


def _change(rules: RuleSet, rule_id: str | None, *, probing: bool) -> Callable[[RuleVersion, Program], Program] | None:
    """Hits of a shadow rule are for shadow rules.

    A version that is shadow for a while is one thing to its windows: it is as strict as it was when it was active. That
    is so whatever versions of the other rule there are, so that windows do not end with these.
    """
    if rule_id is None and not probing:
        return None
    strict = {(v.rule.rule_id, v.rule.version) for v in rules.versions if v.kind == "active"}

    def changed(version: RuleVersion, program: Program) -> Program:
        if rule_id is not None and (version.rule.rule_id, version.rule.version) in strict:
            program = _of_active(program)
        return program.probing() if probing else program

    return changed


def _of_active(program: Program) -> Program:
    """``program`` over the hits of active rules alone."""

    def of_active(feed: Feed) -> Feed:
        return replace(feed, condition=Condition(AllOf((feed.condition.node, _IS_ACTIVE))))

    return program.over(of_active)
