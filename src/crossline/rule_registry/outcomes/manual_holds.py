"""What people hold, as rows: what ``--json`` writes and the API answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from crossline.rule_registry.events import RuleEvent
from crossline.rule_registry.history import History
from crossline.rule_registry.outcomes.overview import instant
from crossline.rules.holds.placed_hold import PlacedHold


@dataclass(frozen=True, slots=True)
class HeldByHand:
    """A manual hold, and why."""

    placed: PlacedHold
    reason: str

    @property
    def hold_id(self) -> str:
        """Its own."""
        return self.placed.hold_id

    def to_json(self) -> dict[str, Any]:
        """As JSON values; ``since``: the last of the instants from which it holds in each stream."""
        held = self.placed
        return {
            "hold_id": held.hold_id,
            "rule_id": held.rule_id,
            "rule_version": None if held.rule_id is None else held.rule_version,
            "key": dict(held.key),
            "action": held.action,
            "score": held.score,
            "since": instant(max(ms for _, ms in held.begins)),
            "until": instant(held.until_ms),
            "alert_id": None,
            "message": f"held by {held.who} until {instant(held.until_ms)}",
            "placed_by": held.who,
            "reason": self.reason,
            "streams": [stream for stream, _ in held.begins],
        }


def held_by_hand(
    events: Iterable[RuleEvent], at_ms: int, only: Mapping[str, str] | None = None, *, then: bool = False
) -> list[HeldByHand]:
    """What people hold, in the order in which it began. ``only``: those whose key has these values.

    ``then``: as of ``at_ms`` of the streams' ingest clocks; else what is left of it now, wherever these stand.
    """
    events = list(events)
    reasons = {str(each.hold_id): str(each.text) for each in events if each.event == "held"}
    found = []
    for each in History(events).placed.values():
        key = dict(each.key)
        stands = any(
            each.stands(stream, at_ms) if then else at_ms < each.until_ms and stream not in dict(each.ended)
            for stream, _ in each.begins
        )
        if stands and all(key.get(name) == value for name, value in (only or {}).items()):
            found.append(HeldByHand(each, reasons.get(each.hold_id, "")))
    return found
