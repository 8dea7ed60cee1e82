"""Responses: decisions in the API's form, and problems (RFC 9457)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

import orjson

from crossline.basics.times import instant_text
from crossline.evaluate.decisions.decision import SCHEMA_VERSION, decision_id
from crossline.io.sinks.base import wall_clock_ms
from crossline.serve.decisions.record_faults import error_of
from crossline.serve.decisions.records import CheckedRecord, RefusedRecord
from crossline.serve.decisions.values import Answered, AsOf, Basis, Degraded, SubmittedRecord

JSON, PROBLEM = "application/json", "application/problem+json"
# What the type of a problem ends in, as other routes have it (docs/api.md).
_KINDS = {400: "invalid", 404: "not-found", 409: "conflict", 422: "invalid", 500: "fault", 503: "try-again"}
_SENTENCES_MAX = 3  # of the faults of a record, in the detail of its problem; its errors are all of them


@dataclass(frozen=True, slots=True)
class HttpReply:
    """A status, a body, and headers besides its type."""

    status: int
    body: bytes
    form: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)


def problem(
    status: int, detail: str, errors: Sequence[Mapping[str, Any]] = (), headers: Mapping[str, str] | None = None
) -> HttpReply:
    """What is wrong with a request, or kept it from being answered."""
    body = {
        "type": f"urn:crossline:problem:{_KINDS.get(status, 'http')}",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "errors": list(errors),
    }
    return HttpReply(status, orjson.dumps(body), PROBLEM, headers or {})


def unkept(why: str) -> HttpReply:
    """Nothing was decided: who asks again, with the same id, begins anew."""
    text = f"the record could not be kept, and nothing was decided: {why}; ask again with the same id"
    return problem(HTTPStatus.SERVICE_UNAVAILABLE, text, headers={"Retry-After": "1"})


def stalled() -> HttpReply:
    """The record is in its stream, and what is answered about it is not written down yet."""
    text = "the ledger takes too long to keep the answer; ask again with the same id: it gets this answer, once kept"
    return problem(HTTPStatus.SERVICE_UNAVAILABLE, text, headers={"Retry-After": "1"})


def no_stream(stream: str) -> HttpReply:
    """There is none of that name that may be asked about."""
    return problem(HTTPStatus.NOT_FOUND, f"no stream {stream[:100]!r} that takes records here")


def differs(asked: SubmittedRecord) -> HttpReply:
    """The id was asked about, and the content was another."""
    text = f"record {asked.record_id!r} of stream {asked.stream} was asked about with another content"
    return problem(HTTPStatus.CONFLICT, text)


def asked_of(stream: str, checked: CheckedRecord | RefusedRecord, number: int) -> SubmittedRecord | HttpReply:
    """A record as it is asked about now; a problem where it does not fit its stream."""
    if isinstance(checked, CheckedRecord):
        return SubmittedRecord(number, stream, checked.record_id, checked.raw, checked.digest, wall_clock_ms())
    more = len(checked.faults) - _SENTENCES_MAX
    texts = [each.sentence for each in checked.faults[:_SENTENCES_MAX]] + [f"and {more} more"] * (more > 0)
    text = f"the record does not fit stream {stream}: {'; '.join(texts)}"
    return problem(HTTPStatus.UNPROCESSABLE_ENTITY, text, [error_of(each) for each in checked.faults])


@dataclass(frozen=True, slots=True)
class DecisionAnswer:
    """What is answered about a record, before it has a receipt.

    ``decision``: as the pipeline writes decisions. ``basis``: what was in force, where anything was judged.
    ``evidence``: by rule id, what its figure rests on.
    """

    asked: SubmittedRecord
    decision: Mapping[str, Any]
    answered: Answered
    figures: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    evidence: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    as_of: AsOf | None = None
    degraded: tuple[Degraded, ...] = ()
    basis: Basis | None = None

    def to_json(self, decided_ms: int, took_ms: float) -> dict[str, Any]:
        """As the API returns it, without the receipt. ``took_ms``: from the request's arrival."""
        body = self.decision
        return {
            "schema_version": SCHEMA_VERSION,
            "decision_id": body["decision_id"],
            "stream": self.asked.stream,
            "record_id": self.asked.record_id,
            "decision": body["decision"],
            "score": body["score"],
            "reasons": [{**each, "standing": each.get("standing", False)} for each in body["reasons"]],
            "figures": dict(self.figures),
            "answered": self.answered,
            "as_of": None if self.as_of is None else self.as_of.to_json(),
            "degraded": [each.to_json() for each in self.degraded],
            "policy_version": body["policy_version"],
            "rules_digest": body["rules_digest"],
            "decided_at": instant_text(decided_ms),
            "took_ms": round(took_ms, 1),
        }


def kept_before(answer: DecisionAnswer, body: bytes) -> DecisionAnswer:
    """The answer of ``body``, which was kept before ``answer`` about the same record."""
    content = orjson.loads(body)
    return DecisionAnswer(answer.asked, content, content["answered"])


def fallback_decision(asked: SubmittedRecord, decision: str, policy_version: int) -> dict[str, Any]:
    """The fallback's decision about a record, as the pipeline writes decisions; no rule is a reason of it."""
    return {
        "decision_id": decision_id(policy_version, asked.stream, asked.record_id),
        "decision": decision,
        "score": 0,
        "reasons": [],
        "policy_version": policy_version,
        "rules_digest": None,
    }
