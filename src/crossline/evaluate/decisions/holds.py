"""Holds as decisions see them: which alert holds a record, until it is over, retracted or released."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from crossline.rules.policy.hits import DecidingHit

_BETWEEN = "\x1f"


def came_record(ingest_ms: int, record_id: str) -> str:
    """A record and when it came, as a hold knows those that alerts are on."""
    return f"{ingest_ms}{_BETWEEN}{record_id}"


def holding(came: Sequence[str], alerts: Sequence[str], released_ms: int | None) -> tuple[str, str] | None:
    """The latest alert that holds, and its record; None where all of them were released.

    ``came``: the records of ``alerts`` (see ``came_record``), the oldest first. Those that came before ``released_ms``
    hold no more.
    """
    for known, alert in zip(reversed(came), reversed(alerts), strict=True):
        ingest_ms, _, record_id = known.partition(_BETWEEN)
        if released_ms is None or int(ingest_ms) >= released_ms:
            return alert, record_id
    return None


def one_a_rule(hits: Iterable[DecidingHit]) -> list[DecidingHit]:
    """``hits`` without the holds of rules that hit the record themselves; of a rule's versions that hold, the last.

    What stands by an alert of this very record, of which several rows are judged, is that alert itself.
    """
    found = list(hits)
    raised = {hit.alert_id for hit in found if not hit.standing and not hit.held_by}
    found = [hit for hit in found if not (hit.standing and hit.alert_id in raised)]
    if not any(hit.held_by for hit in found):
        return found
    own = {hit.rule_id for hit in found if not hit.held_by}
    last: dict[str, DecidingHit] = {}
    for hit in found:
        if hit.held_by and hit.rule_id not in own:
            before = last.get(hit.rule_id)
            last[hit.rule_id] = hit if before is None or _rank(before) < _rank(hit) else before
    return [*(hit for hit in found if not hit.held_by), *last.values()]


def _rank(hit: DecidingHit) -> tuple[int, bool, str]:
    """One hold for each rule: the one of the last version; then an alert counts before a person's hold."""
    return hit.rule_version, hit.alert_id is not None, hit.held_by
