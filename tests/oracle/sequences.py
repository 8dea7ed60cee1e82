"""Sequences, by their words: the records of a key are offered one after another, from the first that there was."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .rule_versions import Rule

Match = list[Any]


def completed(
    rule: Rule, records: Sequence[Any], is_in: Callable[[Rule, Any], bool], clock_ms: Callable[[Any], int]
) -> Match:
    """The match that the last of ``records``, all of one key, completes; none: nothing.

    Of a probe: the longest that it carries on or begins.
    """
    steps = [step for _, times, step in rule.steps for _ in range(times)]
    waiting: dict[int, Match] = {}  # by the steps taken; one waits at each
    done: Match = []
    for record in records:
        now_ms, done = clock_ms(record), []
        for taken in [*sorted(waiting, reverse=True), 0]:  # the last step first
            match = waiting.get(taken, [])
            in_time = not match or clock_ms(match[-1]) <= now_ms <= clock_ms(match[0]) + rule.window_ms
            if in_time and is_in(steps[taken], record):
                waiting.pop(taken, None)
                longer = [*match, record]
                if len(longer) == len(steps) or (rule.probe and not done):
                    done = longer
                there = waiting.get(len(longer))
                if len(longer) < len(steps) and (there is None or clock_ms(there[0]) <= clock_ms(longer[0])):
                    waiting[len(longer)] = longer  # of two the one that began later, or came later
            elif match and rule.strict and is_in(rule, record) and clock_ms(match[0]) <= now_ms:
                del waiting[taken]
        if rule.until is not None and is_in(rule.until, record):
            waiting = {taken: match for taken, match in waiting.items() if clock_ms(match[0]) > now_ms}
    return done


def by_step(rule: Rule, match: Match, shown: int) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The ids of the last ``shown`` records by the names of their steps."""
    names = [name for name, times, _ in rule.steps for _ in range(times)][: len(match)]
    ids: dict[str, list[str]] = {name: [] for name in names}
    for name, record in list(zip(names, match, strict=True))[-shown:]:
        ids[name].append(record.record_id)
    return tuple((name, tuple(each)) for name, each in ids.items())
