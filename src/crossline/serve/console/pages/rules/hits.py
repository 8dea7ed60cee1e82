"""How often rules hit, day by day."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from contextlib import closing

from crossline.basics.errors import UsageError
from crossline.io.stores.protocol import AlertFilter, Store
from crossline.serve.cases.statistics.queries import read_days
from crossline.serve.console.pages.rules.health import RuleFigures
from crossline.serve.console.request import PageRequest

DAYS, DAY_MS = 14, 86_400_000
KINDS = ("alert", "shadow")
KEPT_MAX = 50_000
# Days that are over: by store, rule, kind, day, and version where it is of one.
_over: dict[tuple[str, str, str, int, int | None], int] = {}
_lock = threading.Lock()


def daily(
    asked: PageRequest, rules: Iterable[tuple[str, str]], known: Mapping[str, RuleFigures]
) -> dict[str, tuple[int, ...]]:
    """As ``days_of``, by what was counted where that is anything: a query of the store is slow over many alerts."""
    found = {name: ((0,) * DAYS + each.days)[-DAYS:] for name, each in known.items() if any(each.days[-DAYS:])}
    return found | days_of(asked, [each for each in rules if each[0] not in found])


def days_of(asked: PageRequest, rules: Iterable[tuple[str, str]]) -> dict[str, tuple[int, ...]]:
    """Alerts of each of the past 14 days, today last, by rule; of ``rules``: name and kind of their alerts."""
    today = asked.parts.now_ms() // DAY_MS
    try:
        with closing(asked.parts.deps.store()) as store:
            return {
                name: tuple(
                    _count(store, name, kind, day, over=day < today - 1) for day in range(today - DAYS + 1, today + 1)
                )
                for name, kind in rules
            }
    except UsageError:
        return {}  # nothing was delivered yet, so that there is no store


def days_of_version(asked: PageRequest, rule_id: str, version: int) -> tuple[int, ...]:
    """Alerts of a version on each of the past 14 days, today last: of all keys, shadow alerts too.

    As they were counted when they came; of days before anything was counted the store is asked.
    """
    today, desk = asked.parts.now_ms() // DAY_MS, asked.parts.deps.desk
    days = range(today - DAYS + 1, today + 1)
    since, found = (None, {}) if desk is None else read_days(desk.file, rule_id, version, days.start)
    # Of the first day that was counted a part may be missing.
    before = [day for day in days if since is None or day <= since]
    if before:
        try:
            with closing(asked.parts.deps.store()) as store:
                for day in before:
                    over = day < today - 1
                    found[day] = sum(_count(store, rule_id, kind, day, version, over=over) for kind in KINDS)
        except UsageError:  # nothing was delivered yet, so that there is no store
            pass
    return tuple(found.get(day, 0) for day in days)


def _count(store: Store, rule_id: str, kind: str, day: int, version: int | None = None, *, over: bool) -> int:
    name = (store.name, rule_id, kind, day, version)
    with _lock:
        if name in _over:
            return _over[name]
    since_ms = day * DAY_MS
    found = store.count(AlertFilter(rule_id, kind, since_ms=since_ms, until_ms=since_ms + DAY_MS, version=version))
    if over:
        with _lock:
            if len(_over) >= KEPT_MAX:
                _over.clear()
            _over[name] = found
    return found
