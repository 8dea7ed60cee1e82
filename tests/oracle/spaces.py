"""Key spaces: the rules that group the same records on the same clock, and how long those remember a record's id."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from .rulebook import Entry, Rule, read_rule


@dataclass(frozen=True, eq=False)
class Space:
    """``remembers_ms``: how far behind a record's ingest time an earlier one of its id may lie and still be known."""

    group_by: tuple[str, ...]
    event_time: bool
    rules: tuple[Rule, ...]
    remembers_ms: int


def key_spaces(book: Sequence[Rule], allowed_lateness_ms: int) -> list[Space]:
    """The key spaces of the window rules, in the order of their first rules.

    They remember for as long as the widest window or cooldown, and on event time for ``allowed_lateness_ms``, the
    greatest that a rule of the stream allows, on top.
    """
    members: dict[tuple[tuple[str, ...], bool], list[Rule]] = {}
    for rule in book:
        if rule.rule_type != "threshold":
            members.setdefault((rule.group_by, rule.event_time), []).append(rule)
    return [
        Space(
            group_by,
            event_time,
            tuple(rules),
            max(max(rule.window_ms, rule.cooldown_ms) for rule in rules) + (allowed_lateness_ms if event_time else 0),
        )
        for (group_by, event_time), rules in members.items()
    ]


def reporter_of(spaces: Sequence[Space], allowed_lateness_ms: int, always: Collection[str]) -> Space:
    """The key space that says which records are duplicates, and shows the others to the threshold rules.

    It is the first on event time in which every record has a key, and enters unless later than any rule allows; if
    there is none, one of its own in which each id is a key.
    """
    for space in spaces:
        if space.event_time and set(space.group_by) <= set(always) and _takes_all(space, allowed_lateness_ms, always):
            return space
    allowed = f"{allowed_lateness_ms}ms"
    body: dict[str, Any] = {
        "rule_id": "",
        "version": 0,
        "rule_type": "velocity",
        "group_by": "_id",
        "window": allowed,
        "time_mode": "event_time",
        "allowed_lateness": allowed,
        "status": "paused",  # it remembers records and judges none
    }
    rule = read_rule(Entry(body, 0, 0), {})
    return Space(("_id",), event_time=True, rules=(rule,), remembers_ms=2 * allowed_lateness_ms)


def _takes_all(space: Space, allowed_lateness_ms: int, always: Collection[str]) -> bool:
    return any(
        not rule.conditions
        and (rule.field is None or rule.field in always)
        and rule.allowed_lateness_ms == allowed_lateness_ms
        for rule in space.rules
    )
