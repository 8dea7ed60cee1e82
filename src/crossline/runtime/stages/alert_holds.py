"""Records that alerts hold: hits of holds, which are no alerts, as what is decided by."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from crossline.basics.times import format_duration, format_instant
from crossline.evaluate.alerts.alert import alert_id_of, correction_id
from crossline.evaluate.alerts.current_alerts import RETRACTED
from crossline.evaluate.alerts.hits import Hit
from crossline.evaluate.decisions.holds import holding
from crossline.evaluate.suppression.change_columns import SuppressionChange
from crossline.rules.base import Rule
from crossline.rules.holds.hold import HoldRule
from crossline.rules.holds.manual import PlacedRule
from crossline.rules.holds.placed_hold import BY_HAND, PlacedHold
from crossline.rules.holds.release import Releases
from crossline.rules.policy.hits import DecidingHit
from crossline.rules.ruleset import RuleSet


def hold_changes(rules: RuleSet, held: Iterable[Hit]) -> Iterator[SuppressionChange]:
    """What is decided by of the hits of holds. One whose alerts were all released is none."""
    releases = rules.released
    for hit in held:
        made = hit.version.rule
        if isinstance(made, PlacedRule):
            for placed in rules.held.at(made.stream, hit.key, hit.ingest_ms):
                yield SuppressionChange(hit, _by_hand(placed))
            continue
        if not isinstance(made, HoldRule):
            raise TypeError(f"{made.rule_id}: found a published rule where a hold was expected")
        now = _counts(made.held, hit, releases)
        was = hit.correction.before if hit.correction is not None else None
        before = None if was is None else _counts(made.held, was, releases)
        retracted = hit.correction is not None and hit.correction.outcome == RETRACTED
        standing, either = (None if retracted else now), now or before
        if before is not None and standing == before:
            continue  # other alerts of the key hold it besides, or hold it no more
        if either is not None and (standing is not None or hit.correction is not None):
            plainly = hit.correction is None and hit.cause is None
            because = None if plainly else _because(hit, standing, before)
            yield SuppressionChange(hit, either, standing is not None, because)


def _because(hit: Hit, now: DecidingHit | None, before: DecidingHit | None) -> str:
    """The alert id of the hold that ended by a correction, or of the hold that began."""
    correction = hit.correction
    if correction is not None and before is not None and before.held_by not in (hit.rests_on or ()):
        return correction_id(before.held_by, correction.caused_by)
    if correction is not None and now is None and before is not None:
        return correction_id(before.held_by, correction.caused_by)
    if correction is not None and correction.outcome == "reinstated" and now is not None:
        return correction_id(now.held_by, correction.caused_by)
    return now.held_by if now is not None else alert_id_of(hit)


def _counts(rule: Rule, hit: Hit, releases: Releases) -> DecidingHit | None:
    """How a hit of the hold of ``rule`` counts; None where the alerts that it rests on were released."""
    released_ms = releases.last_ms(rule.rule_id, hit.key, hit.ingest_ms)
    found = holding(hit.record_ids, hit.rests_on or (), released_ms)
    if found is None:
        return None
    alert_id, record_id = found
    lasts = format_duration(rule.hold or 0)
    return DecidingHit(
        rule_id=rule.rule_id,
        rule_version=rule.version,
        action=rule.action,
        score=rule.score,
        severity=rule.severity,
        tags=tuple(rule.tags),
        alert_id=alert_id,
        message=f"held for {lasts} by the alert on record {record_id}",
        held_by=alert_id,
    )


def _by_hand(placed: PlacedHold) -> DecidingHit:
    """How a person's hold counts: as one of a rule, or by itself."""
    return DecidingHit(
        rule_id=placed.rule_id or f"{BY_HAND}{placed.hold_id}",
        rule_version=placed.rule_version,
        action=placed.action,
        score=placed.score,
        severity=placed.severity,
        tags=placed.tags,
        alert_id=None,
        message=f"held by {placed.who} until {format_instant(placed.until_ms)}",
        standing=True,
        held_by=placed.hold_id,
    )
