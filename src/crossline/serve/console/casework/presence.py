"""What is remembered in this process while people look: who has a case open, and what was judged again of an alert."""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

SEEN_MS = 75_000  # after a page asked last, whoever looked is gone
CASES_MAX, KEPT_MAX, KEPT_MS = 5_000, 128, 60_000


class Presence:
    """Who has which case open. From any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: OrderedDict[str, dict[str, int]] = OrderedDict()

    def others(self, case_id: str, name: str, now_ms: int) -> tuple[str, ...]:
        """Who else looks at a case, now that ``name`` does."""
        with self._lock:
            seen = self._seen.setdefault(case_id, {})
            self._seen.move_to_end(case_id)
            seen[name] = now_ms
            for each in [each for each, at_ms in seen.items() if now_ms - at_ms > SEEN_MS]:
                del seen[each]
            while len(self._seen) > CASES_MAX:
                self._seen.popitem(last=False)
            return tuple(sorted(each for each in seen if each != name))


class EvidenceCache:
    """What the engine said of alerts, for a minute. From any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, tuple[int, Mapping[str, Any]]] = OrderedDict()
        self._asking: dict[str, asyncio.Future[Any]] = {}

    def only_last(self, name: str, asking: asyncio.Future[Any]) -> None:
        """What ``name`` asked for before is not waited for any more: who walks a list looks at the last one alone."""
        with self._lock:
            before = self._asking.pop(name, None)
            self._asking[name] = asking
            while len(self._asking) > CASES_MAX:
                del self._asking[next(iter(self._asking))]
        if before is not None and not before.done():
            before.cancel()

    def get(self, alert_id: str, now_ms: int) -> Mapping[str, Any] | None:
        """The evidence of an alert, as the API said it; None if it has to be asked for."""
        with self._lock:
            at_ms, evidence = self._kept.get(alert_id, (0, None))
            return evidence if evidence is not None and 0 <= now_ms - at_ms < KEPT_MS else None

    def keep(self, alert_id: str, evidence: Mapping[str, Any], now_ms: int) -> None:
        """For those who look next."""
        with self._lock:
            self._kept[alert_id] = now_ms, evidence
            self._kept.move_to_end(alert_id)
            while len(self._kept) > KEPT_MAX:
                self._kept.popitem(last=False)
