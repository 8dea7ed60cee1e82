"""A record that could not be read."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A record that could not be read: the reason, its position, and its bytes.

    ``partition`` names the log (a topic-partition or a file), ``offset`` the position in it (Kafka offset, byte
    offset of the line, or row number). ``raw`` is None where the bytes are fetched from the source at delivery.
    """

    stream: str
    reason: str
    detail: str
    partition: str
    offset: int
    raw: bytes | None = None
    record_id: str | None = None
