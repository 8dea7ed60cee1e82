"""What happens, in an order that may be gone on from: what the routes need of the follower of the pipeline."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

Kind = Literal["alert", "correction", "decision", "revision", "case", "prediction"]
KINDS: tuple[Kind, ...] = ("alert", "correction", "decision", "revision", "case", "prediction")
EventId = str  # of one line, at most 200 characters; later ones need not sort behind earlier ones


@dataclass(frozen=True, slots=True)
class LiveEvent:
    """Something that happened. ``body``: its JSON, on one line. ``key``: the values that filters see, as text."""

    id: EventId
    kind: Kind
    body: bytes
    key: Mapping[str, str] = field(default_factory=dict)


class EventsGoneError(Exception):
    """What came after an id is not kept any more, or never was."""


class EventSource(Protocol):
    """Follows what happens; each who asks follows for himself."""

    def follow(self, after: EventId | None) -> AsyncIterator[LiveEvent]:
        """What comes after the event of that id, then whatever happens; None: what happens from now on.

        Ends where the server ends. Raises EventsGoneError before the first event where it cannot go on from there.
        """
        ...
