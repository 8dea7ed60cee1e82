"""What each rule cost, batch by batch, as figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from crossline.plan.costs import NO_RULE, Meter, Sharing
from crossline.runtime.snapshot.snapshot import PlanSnapshot

SHOWN = 20  # rules in the figures of a batch: those of a thousand would be more bytes than its alerts


@dataclass(slots=True)
class Costs:
    """Divides what was measured of batches among the rules of their plan snapshots, which seldom change."""

    _snapshot: PlanSnapshot | None = None
    _sharing: Sharing | None = None

    def of(self, snapshot: PlanSnapshot, meter: Meter) -> dict[str, float]:
        """Milliseconds of processor time by rule version, those of no rule under ``NO_RULE``."""
        if self._sharing is None or snapshot is not self._snapshot:
            self._snapshot, self._sharing = snapshot, Sharing(snapshot.plans())
        return self._sharing.ms(meter)


def shown(cost_ms: Mapping[str, float]) -> dict[str, Any]:
    """For the figures of a batch: the costliest ``rules``, all ``others`` together, and what is of ``no_rule``."""
    rules = sorted(((name, ms) for name, ms in cost_ms.items() if name != NO_RULE), key=lambda each: -each[1])
    figures: dict[str, Any] = {"rules": {name: round(ms, 3) for name, ms in rules[:SHOWN]}}
    if len(rules) > SHOWN:
        figures["others"] = round(sum(ms for _, ms in rules[SHOWN:]), 3)
    return {**figures, "no_rule": round(cost_ms.get(NO_RULE, 0.0), 3)}
