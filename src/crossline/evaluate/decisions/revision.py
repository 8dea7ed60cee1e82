"""What corrections make of decisions: pure functions over what is known of a record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from crossline.evaluate.decisions.decision import Decision, decide, decision_id, revision_id
from crossline.rules.policy.hits import STANDING, DecidedRecord, DecidingHit
from crossline.rules.policy.policy import Policy


@dataclass(frozen=True, slots=True)
class Change:
    """What became of a hit on a record: ``hit`` as it is now, None where it is none any more.

    ``reason_id``: of the hit. ``because``: the id of the alert or correction that carries it.
    """

    reason_id: str
    because: str
    hit: DecidingHit | None


@dataclass(slots=True)
class Known:
    """What is known of a record that was decided about: the hits on it that count, by their reason ids.

    ``policy_version``: by which it was first decided. ``revision``: how many times its decision was revised.
    """

    record: DecidedRecord
    policy_version: int
    hits: dict[str, DecidingHit] = field(default_factory=dict)
    revision: int = 0

    def to_json(self) -> dict[str, Any]:
        """As plain JSON."""
        hits = [hit.to_json() for hit in self.hits.values()]
        counted = {"policy_version": self.policy_version, "revision": self.revision}
        return {"record": self.record.to_json(), "hits": hits, **counted}

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Self:
        """Inverse of ``to_json``."""
        hits = [deciding_hit(each) for each in body["hits"]]
        record, by_id = DecidedRecord(**body["record"]), {hit.reason_id: hit for hit in hits}
        return cls(record, body["policy_version"], by_id, body["revision"])


def deciding_hit(body: Mapping[str, Any]) -> DecidingHit:
    """A hit from plain JSON."""
    return DecidingHit(**{**body, "tags": tuple(body["tags"])})


_RestsOn = tuple[str, int, list[tuple[str, str | None]]]  # what is decided, the score, reasons with their alerts


class Summaries:
    """What ``policy`` decides by hits, for each list of them once: a late record revises many records alike."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._known = dict[tuple[DecidingHit, ...], tuple[Decision, _RestsOn]]()

    def of(self, known: Known) -> tuple[Decision, _RestsOn]:
        """The decision by the hits of ``known``, on whatever record they are, and by what it is told from others."""
        hits = tuple(known.hits.values())
        found = self._known.get(hits)
        if found is None:
            made = decide(self._policy, known.record, hits)
            rests_on = [(hit.reason_id, hit.alert_id) for hit in made.reasons]
            found = self._known[hits] = made, (made.decision, made.score, rests_on)
        return found


def revise(summaries: Summaries, known: Known, changes: Sequence[Change]) -> tuple[Decision, str] | None:
    """The revised decision after ``changes`` with one trigger, and the change it is due to; None: it stays as it is.

    ``known`` is moved on. A decision is another where what is decided is, or its score, or the alerts that it rests on.
    """
    _, before = summaries.of(known)
    for change in changes:
        if change.hit is None:
            known.hits.pop(change.reason_id, None)
        else:
            known.hits[change.reason_id] = change.hit
    now, rests_on = summaries.of(known)
    if before == rests_on:
        return None
    known.revision += 1
    # Alerts and corrections come first: a change of a suppressed hit may have none of its own.
    because = min((change.reason_id.startswith(STANDING), change.because) for change in changes)[1]
    summary = (now.decision, now.score, now.reasons, now.policy_version)
    return Decision(known.record, *summary, known.revision), because


def revision_json(known: Known, decision: Decision, because: str, rules_digest: str, decided_ms: int) -> dict[str, Any]:
    """A revision as JSON values: the fields of a decision, ``revises``, and ``because``, the id of the correction."""
    record = decision.record
    first = decision_id(known.policy_version, record.stream, record.record_id)
    named = {"decision_id": revision_id(first, because), "kind": "revision"}
    body = decision.to_json(rules_digest, decided_ms, named["decision_id"])
    return {**body, **named, "revises": first, "because": because}
