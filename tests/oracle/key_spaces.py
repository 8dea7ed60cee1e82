"""Key spaces: the rules that group the same records on the same clock, and how long those remember a record's id."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from .rule_versions import Rule


@dataclass(frozen=True, eq=False)
class Space:
    """``remembers_ms``: how far behind a record's ingest time an earlier one of its id may lie and still be known."""

    group_by: tuple[str, ...]
    event_time: bool
    rules: tuple[Rule, ...]
    remembers_ms: float


def key_spaces(snapshot: Sequence[Rule], allowed_lateness_ms: int) -> list[Space]:
    """The key spaces of the rules that look back, in the order of their first rules.

    Those of sequences are by themselves, and so are those of absences.

    On event time a record that comes again has the time that it had: whatever is not too late for a rule finds the
    first one. On the ingest clock a rule remembers for its window or cooldown and the pipeline's allowed lateness,
    rounded up to a power of two seconds, together with the rules that remember as long. One of panes remembers for its
    windows without them, if it has any.
    """
    members: dict[tuple[tuple[str, ...], float, int, str], list[Rule]] = {}
    for rule in snapshot:
        if rule.rule_type != "threshold":
            kind = rule.rule_type if rule.rule_type in {"sequence", "absence"} else "windows"
            key = (rule.group_by, _remembers_ms(rule, allowed_lateness_ms), rule.panes_ms, kind)
            members.setdefault(key, []).append(rule)
    return [
        Space(group_by, rules[0].event_time, tuple(rules), remembers_ms)
        for (group_by, remembers_ms, *_), rules in members.items()
    ]


def _remembers_ms(rule: Rule, allowed_lateness_ms: int) -> float:
    if rule.event_time:
        return math.inf
    kept_ms = max(rule.reach_ms, rule.cooldown_ms)
    if rule.rule_type == "absence":
        kept_ms = rule.window_ms + rule.cooldown_ms
    if rule.panes_ms:
        kept_ms = max([0, *(each.reach_ms for _, each in rule.figures if not each.resolution_ms)])
    return in_powers(kept_ms + allowed_lateness_ms)


def in_powers(ms: float) -> int:
    """Rounded up to a power of two seconds."""
    power_ms = 1000
    while power_ms < ms:
        power_ms *= 2
    return power_ms
