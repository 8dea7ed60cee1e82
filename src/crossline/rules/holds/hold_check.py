"""What a rule must have for its alerts to hold their key."""

from __future__ import annotations

from typing import Protocol

from crossline.basics.streams.inputs import HIT
from crossline.basics.texts.problems import Finding
from crossline.basics.times import format_duration


class HoldingRule(Protocol):
    """A rule whose alerts hold their key for ``hold`` milliseconds; None: they hold nothing."""

    hold: int | None

    @property
    def key_of_alerts(self) -> tuple[str, ...]:
        """The fields of its alerts' key; none where they have no key."""
        ...


def hold_findings(rule: HoldingRule) -> list[Finding]:
    """Why the alerts of ``rule``, in which all else is right, cannot hold anything."""
    if rule.hold is None:
        return []
    found, at = format_duration(rule.hold), ("hold",)
    if not rule.hold:
        return [Finding(at, "no time", "a time longer than 0, such as 30m")]
    if not getattr(rule, "emit_to_sink", True):
        return [Finding(at, found, "no hold beside emit_to_sink: false: it is alerts that hold, and there are none")]
    if not rule.key_of_alerts:
        return [Finding(at, found, "a key that it holds: group_by, or entity where a type keeps nothing")]
    of_hits = [key for key in rule.key_of_alerts if key.startswith(f"{HIT}.")]
    if of_hits:
        return [Finding(at, found, f"a key of fields that the stream's own records have; {of_hits[0]} is one of hits")]
    return []
