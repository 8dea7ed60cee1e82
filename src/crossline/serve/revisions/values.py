"""A revision as a payment system gets it: plain values, no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from crossline.evaluate.decisions.decision import revision_id

SCHEMA_VERSION = 1
Status = Literal["pending", "sent", "parked", "expired"]


@dataclass(frozen=True, slots=True)
class Revision:
    """``revision_id``: the same in every delivery, so that a receiver knows repeats. ``body``: as it is posted."""

    revision_id: str
    stream: str
    record_id: str
    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class FailedDelivery:
    """A revision that was not delivered to an address: ``parked``, it was refused; ``expired``, there was no answer."""

    where: str
    revision_id: str
    stream: str
    record_id: str
    status: Status
    why: str
    attempts: int
    at_ms: int


@dataclass(frozen=True, slots=True)
class AddressState:
    """How it stands with an address: ``pending`` now, the others since the start. ``away``: why it is waited for."""

    where: str
    pending: int
    sent: int
    parked: int
    expired: int
    oldest_ms: int | None
    away: str | None


def revision_of(answer: Mapping[str, Any], decided: Mapping[str, Any], last: str | None = None) -> Revision | None:
    """The revision by which ``decided`` replaces what is known outside; None if that is the same decision.

    Args:
        answer: What the API answered (``decision_id``, ``stream``, ``record_id``, ``decision``, ``answered``).
        decided: The pipeline's decision on the record, or its revision, as sinks get them.
        last: The decision of the last revision that was put for this record; None: only the answer is known outside.

    >>> answer = {"decision_id": "d1", "stream": "payments", "record_id": "t1", "decision": "allow", "answered": "peek"}
    >>> decided = {"decision_id": "d1", "kind": "decision", "decision": "block", "score": 90, "revision": 0}
    >>> revision_of(answer, decided).body["was"], revision_of(answer, decided).body["decision"]
    ('allow', 'block')
    """
    was = answer["decision"] if last is None else last
    if decided["decision"] == was:
        return None
    # The stream's own first decision has the id of the answer itself; its revisions have ids of their own.
    own = decided.get("kind") == "revision"
    name = decided["decision_id"] if own else revision_id(answer["decision_id"], f"answered\x1f{answer['answered']}")
    kept = ("decision", "score", "reasons", "policy_version", "rules_digest", "revision", "because", "decided_at")
    body = {
        "schema_version": SCHEMA_VERSION,
        "kind": "revision",
        "revision_id": name,
        "decision_id": answer["decision_id"],
        "stream": answer["stream"],
        "record_id": answer["record_id"],
        "answered": answer["answered"],
        "was": was,
        **{each: decided[each] for each in kept if each in decided},
    }
    return Revision(name, answer["stream"], answer["record_id"], body)
