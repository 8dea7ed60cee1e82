"""A record of a topic as a client gives it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TopicMessage:
    """``value`` None: a tombstone. ``at_ms``: the time that the topic has for it, None where it has none."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    at_ms: int | None = None

    @property
    def place(self) -> str:
        """Where it stands, as text."""
        return f"{self.topic}/{self.partition}/{self.offset}"

    def header(self, name: str) -> str | None:
        """The last header of this name as text; None where there is none, or it is no text."""
        found = next((value for key, value in reversed(self.headers) if key == name), None)
        try:
            return found.decode().strip() or None if found is not None else None
        except UnicodeDecodeError:
            return None
