"""Counts what cooldowns hold back: a rule's own alerts, and those of others whose decision rests on it meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from crossline.basics.times import parse_instant_ms
from crossline.rules.rule_reader import read_rule
from crossline.serve.cases.file import CaseFile
from crossline.serve.cases.statistics.schema import DAY_MS

_RECORD = "INSERT INTO cooled_records (day, stream, record_id) VALUES (?, ?, ?) ON CONFLICT DO NOTHING RETURNING 1"
_CELL = """INSERT INTO rule_cooled (day, rule_id, other, records) VALUES (?, ?, ?, 1)
ON CONFLICT DO UPDATE SET records = records + 1"""

Cools = Callable[[str, int], bool]


def cools(body: Mapping[str, Any]) -> bool:
    """Whether a rule alerts at every hit but for its cooldown: where it holds and raises no alert, that is why.

    A rule that alerts at crossings is silent beyond its threshold with or without cooldown, so it is not counted.
    """
    rule, _ = read_rule(dict(body))
    return getattr(rule, "emit", "") == "every" and getattr(rule, "cooldown", 0) > 0


def count_cooled(file: CaseFile, decision: Mapping[str, Any], cooling: Cools) -> None:
    """Count a decision of the stream, in the transaction that takes it; one that came before changes nothing."""
    reasons = [each for each in decision.get("reasons") or () if not each.get("held_by")]
    if decision.get("kind") != "decision" or not any(each.get("standing") for each in reasons):
        return
    silent = {
        str(each["rule_id"])
        for each in reasons
        if each.get("standing") and cooling(str(each["rule_id"]), int(each["rule_version"]))
    }
    day = parse_instant_ms(decision["event_time"]) // DAY_MS
    if not silent or not file.rows(_RECORD, (day, decision["stream"], decision["record_id"])):
        return
    for each in silent:
        file.run(_CELL, (day, each, each))
    first = decision["reasons"][0]  # under a manual hold no rule leads
    leader = "" if first.get("held_by") else str(first["rule_id"])
    if leader in silent:
        for name in {str(each["rule_id"]) for each in reasons if not each.get("standing")} - {leader}:
            file.run(_CELL, (day, name, leader))
