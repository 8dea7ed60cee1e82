"""A place where traces of a person may be, and what an erasure found there."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

from crossline.erasure.subject import Subject


@dataclass(frozen=True, slots=True)
class Counts:
    """What was found or done at a place.

    Attributes:
        gone: Rows that go.
        changed: Rows that stay, with pseudonyms in the place of mentions.
        kept: Rows that were looked at and have no trace.
        files: Files that are written anew or deleted.
        size: Bytes of these files before.
    """

    gone: int = 0
    changed: int = 0
    kept: int = 0
    files: int = 0
    size: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.gone + other.gone,
            self.changed + other.changed,
            self.kept + other.kept,
            self.files + other.files,
            self.size + other.size,
        )

    @property
    def found(self) -> bool:
        """Whether there was a trace."""
        return bool(self.gone or self.changed)

    def of_file(self, size: int) -> Counts:
        """The same, with a file of ``size`` bytes where there is a trace."""
        return replace(self, files=1, size=size) if self.found else self


class Place(Protocol):
    """A place. Each call goes through all of it; rows of the person that it meets add to the subject's record ids."""

    @property
    def name(self) -> str:
        """Its name in receipts, without any value."""
        ...

    @property
    def needs_stop(self) -> bool:
        """Whether the pipeline must be stopped for ``erase``."""
        ...

    def find(self, subject: Subject) -> Counts:
        """Count the traces; nothing is changed."""
        ...

    def erase(self, subject: Subject) -> Counts:
        """Erase them. A call that was killed is repeated from the start: what is done already has no trace."""
        ...


@dataclass(frozen=True, slots=True)
class Unreachable:
    """What an erasure cannot reach. ``until``: when it goes by itself, as text; None: that is not known here."""

    place: str
    why: str
    until: str | None = None
