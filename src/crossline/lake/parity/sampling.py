"""A sample of alerts by rule that is the same wherever the alerts come from: those with the smallest hashes."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import xxhash

Alert = dict[str, Any]


@dataclass(slots=True)
class AlertSample:
    """Keeps ``size`` alerts of each rule. An alert that comes twice is kept once.

    ``counts``: by rule, how many alerts came.
    """

    size: int
    counts: dict[str, int] = field(default_factory=dict)
    _kept: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    _alerts: dict[str, Alert] = field(default_factory=dict)

    def add(self, alert: Alert) -> None:
        """Take an alert in."""
        rule_id, alert_id = alert["rule_id"], alert["alert_id"]
        if alert_id in self._alerts:
            return
        self.counts[rule_id] = self.counts.get(rule_id, 0) + 1
        kept = self._kept.setdefault(rule_id, [])
        entry = (-xxhash.xxh64_intdigest(alert_id.encode()), alert_id)
        if len(kept) < self.size:
            heapq.heappush(kept, entry)
        elif entry > kept[0]:
            _, gone = heapq.heapreplace(kept, entry)
            del self._alerts[gone]
        else:
            return
        self._alerts[alert_id] = alert

    def get(self, alert_id: str) -> Alert | None:
        """An alert, if it is kept."""
        return self._alerts.get(alert_id)

    def rules(self) -> set[str]:
        """The rules that alerts came of."""
        return {*self._kept}

    def ids(self, rule_id: str) -> list[tuple[int, str]]:
        """The alerts of a rule: hash and id, the smallest hash first."""
        return sorted((-hashed, alert_id) for hashed, alert_id in self._kept.get(rule_id, ()))

    def both(self, other: AlertSample, rule_id: str) -> Iterator[tuple[Alert | None, Alert | None]]:
        """The ``size`` alerts of a rule with the smallest hashes in either sample, as each has them.

        An alert that one of the samples does not have never came there: it would be among its smallest.
        """
        ids = sorted({*self.ids(rule_id), *other.ids(rule_id)})[: self.size]
        for _, alert_id in ids:
            yield self.get(alert_id), other.get(alert_id)
