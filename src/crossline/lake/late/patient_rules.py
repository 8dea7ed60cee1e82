"""Rules as they would judge if no record were too late: with a longer lateness, and results judged again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from crossline.basics.streams.inputs import rule_of
from crossline.rules.base import Defaults, Rule
from crossline.rules.rule_reader import read_rule
from crossline.rules.ruleset import RuleSet, RuleVersion


@dataclass(frozen=True, slots=True)
class PatientRules:
    """Rules that read the same records of a stream.

    Attributes:
        stream: The stream.
        field: The first field of their keys: records of other keys change nothing. None: each record counts alone.
        rules: The rules.
    """

    stream: str
    field: str | None
    rules: RuleSet


def patient_rules(rules: RuleSet, defaults: Defaults, lateness_ms: int) -> tuple[list[PatientRules], dict[str, str]]:
    """The rules whose results late records can change, and why each of the others is left out, by rule.

    Args:
        rules: All versions with their intervals.
        defaults: What rules leave out.
        lateness_ms: A lateness that no record is beyond.
    """
    by_field: dict[tuple[str, str], list[RuleVersion]] = {}
    left_out: dict[str, str] = {}
    for each in rules.versions:
        made = _patient(each.rule, defaults, lateness_ms)
        if isinstance(made, str):
            left_out[each.rule.rule_id] = made
        else:
            keys = _keys(each.rule)
            place = (each.rule.source_topic, keys[0] if keys else "")
            by_field.setdefault(place, []).append(replace(each, rule=made))
    groups = [
        PatientRules(stream, field or None, replace(rules, versions=tuple(found)))
        for (stream, field), found in sorted(by_field.items())
    ]
    return groups, left_out


def _patient(rule: Rule, defaults: Defaults, lateness_ms: int) -> Rule | str:
    """The rule, or why it is left out."""
    if rule.lateness(defaults).allowed_ms is None:
        return "on its clock, the ingest time, no record is late"
    if not rule.reading.single or rule_of(rule.source_topic) is not None:
        return "it reads several streams, or the hits of a rule"
    if not _one_key(rule.to_json(), _keys(rule)):
        return "its figures have several keys"
    made, findings = read_rule({**rule.to_json(), "late_policy": "reevaluate", "allowed_lateness": f"{lateness_ms}ms"})
    return made or f"it cannot be judged again: {findings[0].expected if findings else 'by its type'}"


def _keys(rule: Rule) -> tuple[str, ...]:
    found = rule.keys_written(rule.to_json())
    return (found,) if isinstance(found, str) else tuple(found or ())


def _one_key(body: Mapping[str, Any], keys: tuple[str, ...]) -> bool:
    """Whether all figures of a rule have the first field of its key."""
    figures = body.get("figures")
    parts = [each for each in figures.values() if isinstance(each, dict)] if isinstance(figures, dict) else []
    given = [part["group_by"] for part in parts if part.get("group_by")]
    firsts = [each if isinstance(each, str) else each[0] for each in given]
    return all(first == keys[0] for first in firsts) if keys else not firsts
