"""The holds in force: of alerts whose rules hold their keys, and of people, until they are released."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from crossline.basics.times import instant_text, parse_instant_ms
from crossline.evaluate.alerts.current_alerts import current_states
from crossline.io.stores.protocol import AlertFilter, Store
from crossline.rule_registry.events import RuleEvent
from crossline.rule_registry.history import History
from crossline.rule_registry.outcomes.manual_holds import HeldByHand, held_by_hand
from crossline.rule_registry.sources.releases import release_name
from crossline.rules.base import Rule
from crossline.rules.holds.release import Key, release_key

HELD_MAX = 10_000  # alerts of a rule that are looked at


@dataclass(frozen=True, slots=True)
class HeldKey:
    """A key that alerts of a rule hold, by the last of them."""

    rule: Rule
    key: Key
    alert: Mapping[str, Any]
    until_ms: int

    @property
    def hold_id(self) -> str:
        """``RULE.MARK``: of the rule, and of the key."""
        return f"{self.rule.rule_id}.{release_name(self.rule.rule_id, self.key).mark}"

    def to_json(self) -> dict[str, Any]:
        """As the API returns it."""
        alert = self.alert
        return {
            "hold_id": self.hold_id,
            "rule_id": self.rule.rule_id,
            "rule_version": alert["rule_version"],
            "key": alert["key"],
            "action": alert["action"],
            "score": alert["score"],
            "since": alert["event_time"],
            "until": instant_text(self.until_ms),
            "alert_id": alert["alert_id"],
            "message": alert["message"],
        }


def held_now(events: list[RuleEvent], store: Store, at_ms: int, only: Mapping[str, str] | None = None) -> list[HeldKey]:
    """The keys that are held at that instant, by rule and key. ``only``: those whose key has these values."""
    history = History(events)
    released = _released(events)
    found: dict[tuple[str, Key], HeldKey] = {}
    for rule in _holding(history):
        assert rule.hold is not None  # noqa: S101 - it was looked for
        which = AlertFilter(rule.rule_id, key=only or {}, since_ms=at_ms - rule.hold, until_ms=at_ms + 1)
        alerts = list(store.alerts(which, HELD_MAX))
        for alert in current_states(reversed(alerts)):
            if alert["kind"] != "alert" or alert["rule_version"] != rule.version:
                continue
            key = release_key(alert["key"])
            since_ms, ingest_ms = parse_instant_ms(alert["event_time"]), parse_instant_ms(alert["ingest_time"])
            if released.get((rule.rule_id, key), -1) > ingest_ms:
                continue
            known = found.get((rule.rule_id, key))
            if known is None or known.until_ms <= since_ms + rule.hold:
                found[rule.rule_id, key] = HeldKey(rule, key, alert, since_ms + rule.hold)
    return [found[name] for name in sorted(found)]


def all_held(
    events: list[RuleEvent], store: Store, at_ms: int, only: Mapping[str, str] | None = None, *, then: bool = False
) -> list[HeldKey | HeldByHand]:
    """What is held at that instant by alerts, and then by people. ``then``: of another instant than now."""
    return [*held_now(events, store, at_ms, only), *held_by_hand(events, at_ms, only, then=then)]


def _holding(history: History) -> Iterator[Rule]:
    """The versions that hold: active ones, and those that such a one replaced, as long as it may hold on."""
    for mine in history.rules.values():
        current = mine.in_force
        if current is None or mine.status(current) != "active":
            continue
        yield from (rule for rule in mine.versions.values() if rule.hold is not None and rule.status != "draft")


def _released(events: list[RuleEvent]) -> dict[tuple[str, Key], int]:
    """By rule and key, from when on alerts of before hold it no more."""
    found: dict[tuple[str, Key], int] = {}
    for event in events:
        if (
            event.event == "released"
            and event.hold_id is None
            and event.rule_id
            and event.key is not None
            and event.effective_from_ms is not None
        ):
            name = event.rule_id, release_key(event.key)
            found[name] = max(found.get(name, 0), event.effective_from_ms)
    return found
