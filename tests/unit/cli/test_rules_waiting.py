"""What ``rules list`` says of versions that wait for approval."""

from __future__ import annotations

from crossline.rule_registry.events import EventKind, RuleEvent
from crossline.rule_registry.outcomes.overview import pending


def of(event: EventKind, version: int, status: str | None = None, rule_id: str = "large") -> RuleEvent:
    return RuleEvent(event, version, rule_id, version, status)


def test_a_version_waits_until_it_or_a_later_one_is_published() -> None:
    log = [of("waiting", 1), of("waiting", 2), of("waiting", 1, rule_id="other"), of("published", 3, "draft")]
    assert [(each.rule_id, each.version) for each in pending(log)] == [("large", 1), ("large", 2), ("other", 1)]
    assert [(each.rule_id, each.version) for each in pending([*log, of("published", 2, "active")])] == [("other", 1)]
