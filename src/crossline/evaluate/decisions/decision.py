"""``decide(policy, record, hits) -> Decision``: a pure function, and what a decision looks like outside."""

from __future__ import annotations

import hashlib
import uuid
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from crossline.basics.formula.naive import evaluate
from crossline.basics.times import BEGINNING_MS, instant_text
from crossline.basics.uuids import UUID_CHARS, seeded, uuid5_text
from crossline.evaluate.decisions.holds import one_a_rule
from crossline.rules.base import Rule
from crossline.rules.composition import Head, way_of
from crossline.rules.policy.hits import DecidedRecord, DecidingHit, gravest
from crossline.rules.policy.policy import Policy
from crossline.rules.policy.words import ACTIONS, facts
from crossline.rules.ruleset import RuleSet, RuleVersion

SCHEMA_VERSION = 1
# A promise to other programs: with another namespace every decision would have another id.
NAMESPACE = uuid.UUID("b0a3a2d4-6f0e-5c55-8f0a-3d6f5b1f7c21")
DIGEST_DIGITS = 32
TIME_CHARS = 24

_SEEDED = seeded(NAMESPACE)


@dataclass(frozen=True, slots=True)
class Decision:
    """What is decided about ``record``; ``reasons``: the hits that it rests on, the weightiest first.

    ``revision`` counts what corrections made of it: 0 for the first.
    """

    record: DecidedRecord
    decision: str
    score: int
    reasons: tuple[DecidingHit, ...]
    policy_version: int
    revision: int = 0

    def to_json(self, rules_digest: str, decided_ms: int, own_id: str | None = None) -> dict[str, Any]:
        """As JSON values, fields in the order promised. ``decided_ms`` is only written into it.

        ``own_id``: its id; None: that of a first decision.
        """
        record = self.record
        return {
            "schema_version": SCHEMA_VERSION,
            "decision_id": own_id or decision_id(self.policy_version, record.stream, record.record_id),
            "kind": "decision",
            "revision": self.revision,
            "stream": record.stream,
            "record_id": record.record_id,
            "decision": self.decision,
            "score": self.score,
            "reasons": [_reason(hit) for hit in self.reasons],
            "policy_version": self.policy_version,
            "rules_digest": rules_digest,
            "event_time": instant_text(record.event_ms),
            "ingest_time": instant_text(record.ingest_ms),
            "decided_at": instant_text(decided_ms),
            "answered": "exact",
            "degraded": [],
        }


def decision_id(policy_version: int, stream: str, record_id: str) -> str:
    """The UUIDv5 of the policy's version and the record: the same in every redelivery, replay and backtest."""
    return uuid5_text(_SEEDED, f"{policy_version}\x1f{stream}\x1f{record_id}")


def revision_id(decision: str, because: str) -> str:
    """The UUIDv5 of a revision: of the decision that it revises, and of the correction because of which it does."""
    return uuid5_text(_SEEDED, f"revision\x1f{decision}\x1f{because}")


def decision_line(
    decision: Decision, rules_digest: str, decided_ms: int, more: Mapping[str, Any], *, hole: str
) -> bytes:
    """The text of a decision with ``hole`` for each character of what is its record's own: ids and times."""
    body = {**decision.to_json(rules_digest, decided_ms), **more}
    body |= {"decision_id": hole * UUID_CHARS, "record_id": hole * len(decision.record.record_id.encode())}
    body |= dict.fromkeys(("event_time", "ingest_time"), hole * TIME_CHARS)
    known = [{**each, "alert_id": each["alert_id"] and hole * UUID_CHARS} for each in body["reasons"]]
    return orjson.dumps({**body, "reasons": known})


def _reason(hit: DecidingHit) -> dict[str, Any]:
    body: dict[str, Any] = {
        "rule_id": hit.rule_id,
        "rule_version": hit.rule_version,
        "action": hit.action,
        "score": hit.score,
        "alert_id": hit.alert_id,
        "message": hit.message,
        **({"held_by": hit.held_by} if hit.held_by else {}),
    }
    return {**body, "standing": True} if hit.standing else body


def decide(policy: Policy, record: DecidedRecord, hits: Iterable[DecidingHit]) -> Decision:
    """The decision of ``policy`` on ``record``, given all of its hits that count, in any order; without any, ``allow``.

    A person's hold without a rule sets a minimum: the decision is at least as grave as the hold, whatever the policy.
    """
    reasons = tuple(sorted(one_a_rule(hits), key=weight))
    if not reasons:
        return Decision(record, ACTIONS[0], 0, (), policy.version)
    scores = [hit.score for hit in reasons]
    score = sum(scores) if policy.score == "sum" else max(scores)
    lines = [_summary(policy, reasons, score), *(hit.action for hit in reasons if hit.by_hand)]
    return Decision(record, gravest(lines, ACTIONS) or ACTIONS[0], score, reasons, policy.version)


def weight(hit: DecidingHit) -> tuple[int, int, str, int]:
    """The graver action first, then the higher score; then by name, so that the order is one."""
    return -ACTIONS.index(hit.action), -hit.score, hit.rule_id, hit.rule_version


def _summary(policy: Policy, hits: Sequence[DecidingHit], score: int) -> str:
    for branch in policy.decide:
        if evaluate(branch.formula.root, facts(branch.formula.names, hits, score)) is True:
            return branch.decision
    if policy.bands:
        reached = [band for band in policy.bands if band.at_least <= score]
        return max(reached, key=lambda band: band.at_least).decision if reached else ACTIONS[0]
    return gravest((hit.action for hit in hits), ACTIONS) or ACTIONS[0]


class RulesInForce:
    """The rules over one stream that were in force at an ingest time, as a digest that is the same in every replay.

    It is of ids, versions and bodies, whenever those were published, and of rules that read hits of others too. Shadow
    rules are left out: they never decide.
    """

    def __init__(self, rules: RuleSet, stream: str) -> None:
        heads = {v.rule.rule_id: Head(v.rule.reading) for v in rules.versions}
        active = (v for v in rules.versions if v.kind == "active")
        self._versions = [v for v in active if way_of(v.rule.reading.judged[0], heads)[-1] == stream]
        edges = {edge for v in self._versions for edge in (v.effective_from_ms, v.effective_until_ms)}
        self._edges = sorted({BEGINNING_MS, *edges})
        self._digests: dict[int, str] = {}

    def digest(self, ingest_ms: int) -> str:
        """128 bits of SHA-256, in hex."""
        span = bisect_right(self._edges, ingest_ms)
        known = self._digests.get(span)
        if known is None:
            named = sorted(_named(each) for each in self._at(ingest_ms))
            known = hashlib.sha256("\x1e".join(named).encode()).hexdigest()[:DIGEST_DIGITS]
            self._digests[span] = known
        return known

    def at(self, ingest_ms: int) -> list[Rule]:
        """The rules in force at that time, in no order."""
        return [each.rule for each in self._at(ingest_ms)]

    def _at(self, ingest_ms: int) -> list[RuleVersion]:
        return [v for v in self._versions if v.effective_from_ms <= ingest_ms < v.effective_until_ms]

    @property
    def edges(self) -> Sequence[int]:
        """The ingest times at which it changes, in epoch ms, ascending."""
        return self._edges


def _named(version: RuleVersion) -> str:
    """A version, its content, and its share of keys where that is not all."""
    rule, slots = version.rule, version.slots
    has = "" if slots is None else f"\x1f{slots.first}\x1f{slots.end}"
    return f"{rule.rule_id}\x1f{rule.version}\x1f{rule.body_digest()}{has}"
