"""Keys of tokenised columns: without a person's key, the tokens of the person mean nothing any more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from crossline.erasure.place import Counts
from crossline.erasure.subject import Subject


class TokenStore(Protocol):
    """A store of keys, one a person."""

    def has(self, person: str) -> bool:
        """Whether the person has a key."""
        ...

    def destroy(self, person: str) -> bool:
        """Destroy the person's key; whether there was one."""
        ...


@dataclass(slots=True)
class TokenKeysPlace:
    """The keys of the persons whose field ``person_field`` has a value that is erased."""

    store: TokenStore
    person_field: str
    name: str = "keys of tokenised columns"
    needs_stop: bool = False

    def find(self, subject: Subject) -> Counts:
        """See ``Place``."""
        return Counts(gone=sum(self.store.has(each) for each in self._persons(subject)))

    def erase(self, subject: Subject) -> Counts:
        """See ``Place``."""
        return Counts(gone=sum(self.store.destroy(each) for each in self._persons(subject)))

    def _persons(self, subject: Subject) -> list[str]:
        return [key.value for key in subject.keys if key.field == self.person_field]
