"""What a decision is made of: a record, and the hits on it that count."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from crossline.rules.base import Rule
from crossline.rules.holds.placed_hold import BY_HAND

STANDING = "standing\x1f"  # begins the reason ids of what raised no alert
_OF_ALERT = ("rule_id", "rule_version", "action", "score", "severity", "alert_id", "message")


@dataclass(frozen=True, slots=True)
class DecidedRecord:
    """The record that a decision is about; times in epoch ms."""

    stream: str
    record_id: str
    event_ms: int
    ingest_ms: int

    def to_json(self) -> dict[str, Any]:
        """As plain JSON: its fields."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class DecidingHit:
    """What a policy sees of a rule that holds at a record; ``alert_id`` and ``message`` are those of its alert.

    ``standing``: it raised none here, and ``alert_id`` is that of its crossing; None: none is known. ``under``: numbers
    the keys under which it holds at one record. ``held_by``: the earlier alert that holds the record,
    where the rule does not hold there itself; of a manual hold, which has no alert, the id of that hold.
    """

    rule_id: str
    rule_version: int
    action: str
    score: int
    severity: str
    tags: tuple[str, ...]
    alert_id: str | None
    message: str
    standing: bool = False
    under: int = 0
    held_by: str = ""

    @classmethod
    def standing_of(cls, rule: Rule) -> Self:
        """One that stands, as all of ``rule`` are but for their alerts."""
        given = (rule.action, rule.score, rule.severity, tuple(rule.tags), None)
        return cls(rule.rule_id, rule.version, *given, f"{rule.rule_id} still holds", standing=True)

    def standing_on(self, alert_id: str | None, under: int) -> Self:
        """The same after the crossing of an alert."""
        given = (self.rule_id, self.rule_version, self.action, self.score, self.severity, self.tags, alert_id)
        return type(self)(*given, self.message, self.standing, under, self.held_by)

    def to_json(self) -> dict[str, Any]:
        """As plain JSON: its fields."""
        return {name: getattr(self, name) for name in self.__slots__}

    @property
    def by_hand(self) -> bool:
        """Whether it is a manual hold without a rule: the decision is at least as grave."""
        return bool(self.held_by) and self.rule_id == f"{BY_HAND}{self.held_by}"

    @property
    def reason_id(self) -> str:
        """By what it is known among those of its record, whatever becomes of it."""
        if self.held_by:
            by_hand = f"\x1f{self.held_by}" if self.alert_id is None else ""
            return f"held\x1f{self.rule_id}\x1f{self.rule_version}{by_hand}"
        if self.standing or self.alert_id is None:
            return f"{STANDING}{self.rule_id}\x1f{self.rule_version}\x1f{self.under}"
        return self.alert_id


def hit_of(alert: Mapping[str, Any]) -> DecidingHit | None:
    """The hit of ``alert``; None where it does not count.

    Shadow rules never decide, nor do rules whose alerts go to no sink: they only feed others. A correction has the
    hit that it corrects.
    """
    if alert["kind"] not in {"alert", "correction"} or not alert.get("emit_to_sink", True):
        return None
    given = {name: alert[name] for name in _OF_ALERT}
    if alert.get("corrects") is not None:
        given["alert_id"] = alert["corrects"]
    return DecidingHit(**given, tags=tuple(alert.get("tags", ())))


def gravest(names: Iterable[str], order: Sequence[str]) -> str | None:
    """The one of ``names`` that comes last in ``order``; None where there is none."""
    return max(names, key=order.index, default=None)
