"""What a run has done so far."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from crossline.connectors.base import Delivery


@dataclass(slots=True)
class Totals:
    """What a run has done so far.

    ``first_s`` to ``ended_s``: from the start of the first batch to the end of the last. ``after_ms``: what the
    last batch spent in the driver once its outcome was there. ``left``: what a drained source had and is in no batch.
    ``share``: how much of all is done, 0 to 1, where that is known.
    """

    batches: int = 0
    records: int = 0
    alerts: dict[str, int] = field(default_factory=dict)
    dead: dict[str, int] = field(default_factory=dict)
    late: int = 0
    decisions: dict[str, int] = field(default_factory=dict)
    started_s: float = field(default_factory=time.monotonic)
    first_s: float = 0.0
    ended_s: float = 0.0
    after_ms: dict[str, float] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)
    share: float | None = None

    @property
    def taken(self) -> int:
        """Records judged or refused."""
        return self.records + sum(self.dead.values())

    def add(self, delivery: Delivery) -> None:
        """A batch was delivered."""
        self.batches += 1
        self.ended_s = time.monotonic()
        self.records += delivery.figures["records"]
        self.late += len(delivery.late)
        for alert in delivery.alerts:
            self.alerts[alert["rule_id"]] = self.alerts.get(alert["rule_id"], 0) + 1
        for each in delivery.decisions:
            self.decisions[each["decision"]] = self.decisions.get(each["decision"], 0) + 1
        for letter in delivery.dead:
            self.dead[letter.reason] = self.dead.get(letter.reason, 0) + 1
