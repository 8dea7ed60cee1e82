"""Rules that read each other over many depths: what is found out of one of them is found out once."""

from __future__ import annotations

import json
from typing import Any

from crossline.plan.compose import compile_all
from crossline.rules.base import Defaults
from crossline.rules.rule_reader import load_rules_text
from crossline.rules.ruleset import RuleSet

from .scenes import STREAMS

LEVELS = 60  # of two rules each that read both of the depth below: 2^60 ways down from the last


def _rules() -> list[dict[str, Any]]:
    plain = {"version": 1, "rule_type": "threshold", "source_topic": "payments"}
    plain["conditions"] = [{"field": "amount", "operator": ">", "value": 1}]
    both = {"version": 1, "rule_type": "composite", "at_least": 1, "join_key": "merchant", "window": "5s"}
    found = [{**plain, "rule_id": f"r0{side}"} for side in "ab"]
    for depth in range(1, LEVELS):
        below = [f"r{depth - 1}{side}" for side in "ab"]
        found += [{**both, "rule_id": f"r{depth}{side}", "any_of": below} for side in "ab"]
    figures = {"risky": {"risk": True, "group_by": "merchant"}}
    scored = {"version": 1, "rule_type": "formula", "source_topic": "payments", "figures": figures, "when": "risky > 1"}
    over = {"version": 1, "rule_type": "threshold", "source_topic": "rule:scored", "conditions": plain["conditions"]}
    return [*found, {**scored, "rule_id": "scored"}, {**over, "rule_id": "over"}]


def test_sixty_levels_are_checked_and_compiled() -> None:
    """A risk score is of all rules but of those that rest on it; that this ends is what is tested."""
    loaded = load_rules_text(json.dumps(_rules()), "rules.yaml", STREAMS)
    rules = RuleSet.from_rules(each.rule for each in loaded)
    plans = compile_all(rules, STREAMS, Defaults())
    assert max(plan.depth for plan in plans.values()) == LEVELS + 2
    (met,) = [plan.met for plan in plans.values() if plan.met is not None and "rule:*" in plan.met.members]
    assert len(met.members["rule:*"]) == 2 * LEVELS
    assert not {"rule:scored", "rule:over"} & {*met.members["rule:*"]}
