"""What a decision is made of: a record, and the hits on it that count."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_OF_ALERT = ("rule_id", "rule_version", "action", "score", "severity", "alert_id", "message")


@dataclass(frozen=True, slots=True)
class DecidedRecord:
    """The record that a decision is about; times in epoch ms."""

    stream: str
    record_id: str
    event_ms: int
    ingest_ms: int


@dataclass(frozen=True, slots=True)
class DecidingHit:
    """A hit as a policy sees it; ``alert_id`` and ``message`` are those of its alert.

    ``held_by``: the alert of before that holds the record, where the rule did not hit it itself.
    """

    rule_id: str
    rule_version: int
    action: str
    score: int
    severity: str
    tags: tuple[str, ...]
    alert_id: str
    message: str
    held_by: str = ""

    @property
    def known_by(self) -> str:
        """What it is known by among those of a record, whatever becomes of it."""
        return f"held\x1f{self.rule_id}\x1f{self.rule_version}" if self.held_by else self.alert_id


def hit_of(alert: Mapping[str, Any]) -> DecidingHit | None:
    """The hit that ``alert`` tells of; None where it does not count.

    Shadow rules never decide, nor do rules whose alerts go to no sink: they only feed others. A correction tells of the
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
