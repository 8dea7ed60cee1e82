"""Dead letters as people see them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from crossline.basics.deadletter import DeadLetter
from crossline.io.sinks.identity import identity_of


@dataclass(frozen=True, slots=True)
class StoredDeadLetter:
    """A dead letter where it is kept. ``number``: of it there; ``delivered_at``: None if that is not noted."""

    number: int
    letter: DeadLetter
    delivered_at: str | None = None

    @property
    def identity(self) -> str:
        """Its identity, in whichever store it is."""
        return identity_of(self.letter).hex()

    @property
    def name(self) -> str:
        """Its id: where it is found again, and that it is the same one then."""
        return f"{self.number}-{self.identity[:16]}"


@dataclass(frozen=True, slots=True)
class Letters:
    """Some dead letters, the latest first. ``before``: the number to go on from; None at the end."""

    found: Sequence[StoredDeadLetter]
    before: int | None


@dataclass(frozen=True, slots=True)
class ReasonCounts:
    """Dead letters by reason, most first. ``whole``: else there are older ones, which are not counted."""

    by_reason: Mapping[str, int]
    whole: bool


class LetterBox(Protocol):
    """Where dead letters are kept and can be read back. From any thread."""

    name: str

    def page(self, reason: str | None, before: int | None, limit: int) -> Letters:
        """The latest before a number; of many that have another reason a page may be shorter than ``limit``."""
        ...

    def one(self, number: int) -> StoredDeadLetter | None:
        """The one with a number."""
        ...

    def counts(self) -> ReasonCounts:
        """How many there are of each reason, among the latest."""
        ...
