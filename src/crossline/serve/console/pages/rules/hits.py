"""How often rules hit, day by day."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from contextlib import closing

from crossline.connectors.stores import AlertFilter, Store
from crossline.core.basics.errors import UsageError
from crossline.serve.console.asked import Asked

DAYS, DAY_MS = 14, 86_400_000
KEPT_MAX = 50_000
# Days that are over: by store, rule, kind and day.
_over: dict[tuple[str, str, str, int], int] = {}
_lock = threading.Lock()


def days_of(asked: Asked, rules: Iterable[tuple[str, str]]) -> dict[str, tuple[int, ...]]:
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


def _count(store: Store, rule_id: str, kind: str, day: int, *, over: bool) -> int:
    name = (store.name, rule_id, kind, day)
    with _lock:
        if name in _over:
            return _over[name]
    found = store.count(AlertFilter(rule_id, kind, since_ms=day * DAY_MS, until_ms=(day + 1) * DAY_MS))
    if over:
        with _lock:
            if len(_over) >= KEPT_MAX:
                _over.clear()
            _over[name] = found
    return found
