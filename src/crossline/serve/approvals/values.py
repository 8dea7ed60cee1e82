"""Drafts, proofs and requests as they are kept: plain values."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from crossline.basics.times import format_instant

State = Literal["waiting", "published", "rejected"]


@dataclass(frozen=True, slots=True)
class RuleDraft:
    """A text that a user works on. ``at_ms``: when it was saved last, epoch milliseconds."""

    rule_id: str
    who: str
    text: str
    at_ms: int

    def to_json(self) -> dict[str, Any]:
        """As the API returns it."""
        return {"rule_id": self.rule_id, "who": self.who, "text": self.text, "at": format_instant(self.at_ms)}


@dataclass(frozen=True, slots=True)
class KeptProof:
    """A proof, who ran it and when. ``content``: the proof itself, as ``crossline rules prove --json`` prints it."""

    proof_id: str
    who: str
    at_ms: int
    content: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Request:
    """That ``who`` asks for approval of a text. ``decided_by``, ``decided_ms``, ``reason``: once it is over.

    ``name``: what the file is called that the text replaces; ``beneath``: SHA-256 of what stood there then, empty if
    there was no such file, None if rules do not come from files, or it was not kept. ``done_ms``: when all that was
    decided was done; None: not yet, as where a server ended in between.
    """

    number: int
    rule_id: str
    version: int
    name: str
    text: str
    proof_id: str
    who: str
    asked_ms: int
    state: State = "waiting"
    decided_by: str | None = None
    decided_ms: int | None = None
    reason: str = ""
    beneath: str | None = None
    done_ms: int | None = None

    def to_json(self) -> dict[str, Any]:
        """As the API returns it."""
        decided = None if self.decided_ms is None else format_instant(self.decided_ms)
        over = {
            "decided_by": self.decided_by,
            "decided_at": decided,
            "reason": self.reason,
            "done": self.done_ms is not None,
        }
        of = {"rule_id": self.rule_id, "version": self.version, "name": self.name, "text": self.text}
        asked = {"proof_id": self.proof_id, "who": self.who, "asked_at": format_instant(self.asked_ms)}
        return {"number": self.number, "state": self.state, **of, **asked, **over}


def text_digest(text: str) -> str:
    """SHA-256 of a rule's text, in hex: what a proof names as its rule."""
    return hashlib.sha256(text.encode()).hexdigest()
