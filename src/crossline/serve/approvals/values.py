"""Drafts, proofs and requests as they are kept: plain values."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

State = Literal["waiting", "published", "rejected"]


@dataclass(frozen=True, slots=True)
class Draft:
    """A text that somebody works on. ``at_ms``: when it was saved last, epoch milliseconds."""

    rule_id: str
    who: str
    text: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class KeptProof:
    """A proof, who ran it and when. ``said``: the proof itself, as ``crossline rules prove --json`` tells it."""

    proof_id: str
    who: str
    at_ms: int
    said: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Request:
    """That ``who`` asks for approval of a text. ``decided_by``, ``decided_ms``, ``reason``: once it is over.

    ``name``: what the file is called that the text replaces.
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


def text_digest(text: str) -> str:
    """SHA-256 of a rule's text, in hex: what a proof names as its rule."""
    return hashlib.sha256(text.encode()).hexdigest()
