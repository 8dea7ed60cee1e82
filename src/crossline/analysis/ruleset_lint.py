"""Lint of a rule set: each rule by itself, and rules compared with each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from crossline.analysis.lint import KINDS, LintFinding, lint_rule, rule_claims
from crossline.analysis.overlap.key_shares import share_findings
from crossline.analysis.overlap.subsumption import subsumption_findings
from crossline.basics.streams.schema import StreamSpec
from crossline.rules.base import Defaults, Rule
from crossline.rules.composition import Sources


def lint(
    rules: Sequence[Rule],
    streams: Mapping[str, StreamSpec],
    defaults: Defaults,
    before: Mapping[str, Rule] = MappingProxyType({}),
) -> list[LintFinding]:
    """All findings of rules, single and compared, in the order of ``rules``, which have one version per id.

    ``before``: by rule, the version that judges the keys outside of a share.
    """
    sources = Sources.of(streams, {})
    known = [(rule, sources.of_reading(rule.reading)) for rule in rules if rule.status != "retired"]
    found = [finding for rule, spec in known for finding in lint_rule(rule, spec, defaults)]
    hopeless = {each.rule_id for each in found if each.kind in {"never_true", "contradictory"}}
    others = [rule_claims(rule, spec, defaults) for rule, spec in known if rule.rule_id not in hopeless]
    found += subsumption_findings(others)
    found += share_findings(others, before)
    places = {rule.rule_id: number for number, rule in enumerate(rules)}
    return sorted(found, key=lambda each: (places[each.rule_id], KINDS.index(each.kind)))
