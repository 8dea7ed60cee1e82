"""Who asked for something, when and from where; and what must be known of it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Origin:
    """Of a publication; None: it does not say.

    ``at_ms``: by the topic's clock; ``place``: topic/partition/offset; ``author``: who published what ``who`` gave
    another status.
    """

    who: str | None = None
    at_ms: int | None = None
    host: str | None = None
    place: str | None = None
    author: str | None = None


UNKNOWN = Origin()
