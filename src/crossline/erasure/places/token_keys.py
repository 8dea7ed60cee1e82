"""Keys of sensitive fields: without a person's key, the tokens of the person mean nothing any more."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from crossline.basics.streams.schema import StreamSpec
from crossline.erasure.place import Counts
from crossline.erasure.subject import Key, Subject
from crossline.io.tokens.lookup import destroy_keys, has_key, key_as_tokens, persons_of


@dataclass(frozen=True, slots=True)
class TokenKeysPlace:
    """The keys of the persons that the erased values name; they are destroyed after all else is erased."""

    streams: Mapping[str, StreamSpec]
    name: str = "keys of sensitive fields"
    needs_stop: bool = False

    def find(self, subject: Subject) -> Counts:
        """See ``Place``."""
        return Counts(gone=sum(has_key(self.streams, key.field, key.value) for key in self._persons(subject)))

    def erase(self, subject: Subject) -> Counts:
        """See ``Place``."""
        now_ms = time.time_ns() // 1_000_000
        keys = [key for key in self._persons(subject) if has_key(self.streams, key.field, key.value)]
        return Counts(gone=sum(destroy_keys(self.streams, key.field, key.value, now_ms) for key in keys))

    def _persons(self, subject: Subject) -> Iterator[Key]:
        named = {name for spec in self.streams.values() if spec.tokens is not None for name in persons_of(spec)}
        return (key for key in subject.keys if key.field in named)


def with_tokens(streams: Mapping[str, StreamSpec], keys: Iterable[Key]) -> tuple[Key, ...]:
    """``keys``, and the tokens that records have for those of sensitive fields.

    Raises:
        PermanentError: There is no master key.
        RetryableError: The token store does not answer.
    """
    found: list[Key] = []
    for key in keys:
        token = key_as_tokens(streams, {key.field: key.value}, make=False)[key.field]
        found += [key, Key(key.field, token)]
    return tuple(dict.fromkeys(found))
