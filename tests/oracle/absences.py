"""Absences, by their words: each record that waits is held against all others of its key, whenever they came."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .rule_versions import Rule

Known = tuple[float, bool, int]  # the first instant of the clock at which it is known, whether it came only then, order


def in_vain(
    rule: Rule,
    records: Sequence[Any],
    is_in: Callable[[Rule, Any], bool],
    clock_ms: Callable[[Any], int],
    passed_ms: float,
) -> list[tuple[Known, Any, int | None]]:
    """Of ``records`` of one key, those of ``after`` that the stream's clock has passed without an answer.

    In the order in which that is known; ``passed_ms``: where the clock stands in the end. Of a probe all of them, with
    how long they waited.
    """
    assert rule.after is not None
    assert rule.expect is not None
    grace_ms = rule.allowed_lateness_ms if rule.event_time else 0
    found = []
    for record in records:
        if not is_in(rule.after, record):
            continue
        from_ms, due_ms = clock_ms(record), clock_ms(record) + rule.window_ms + grace_ms
        answers = [
            other
            for other in records
            if is_in(rule.expect, other)
            and (clock_ms(other), other.position) > (from_ms, record.position)
            and clock_ms(other) <= from_ms + rule.window_ms
            and other.reached_ms <= due_ms
        ]
        if due_ms < passed_ms and (rule.probe or not answers):
            known = (max(due_ms + 1, record.reached_ms), record.reached_ms > due_ms, record.position)
            waited = min((clock_ms(other) - from_ms for other in answers), default=None)
            found.append((known, record, waited))
    return sorted(found, key=lambda each: each[0])
