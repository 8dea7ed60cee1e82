"""A record that a caller of the API puts into a stream, and its place there."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SubmittedRecord:
    """A record of a request.

    ``number``: counts those of this process, in their order. ``raw``: its JSON, one line without its end. ``digest``:
    SHA-256 of ``raw`` as canonical JSON (sorted keys), in hex: equal for equal records. ``ingest_ms``: when it came.
    """

    number: int
    stream: str
    record_id: str
    raw: bytes
    digest: str
    ingest_ms: int


@dataclass(frozen=True, slots=True)
class KeyedSubmission(SubmittedRecord):
    """A record whose ``raw`` is no JSON, so that its ``key`` goes with it; None: it has none."""

    key: bytes | None = None


@dataclass(frozen=True, slots=True)
class LogPosition:
    """Where a record stands in its stream: byte or offset ``at`` of ``log`` (a file's name, or topic-partition)."""

    log: str
    at: int
