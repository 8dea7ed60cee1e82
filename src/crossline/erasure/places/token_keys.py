"""Keys of sensitive fields: without a person's key, the tokens of the person mean nothing any more."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from crossline.basics.errors import UsageError
from crossline.basics.streams.schema import StreamSpec
from crossline.basics.streams.sensitive import TOKEN
from crossline.erasure.place import Counts
from crossline.erasure.subject import Key, Subject
from crossline.io.tokens.lookup import destroy_keys, has_key, persons_of
from crossline.io.tokens.opening import store_of, tokeniser_of


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
        return Counts(gone=sum(destroy_keys(self.streams, key.field, key.value, now_ms, alone=True) for key in keys))

    def _persons(self, subject: Subject) -> Iterator[Key]:
        stored = [spec for spec in self.streams.values() if spec.tokens is not None]
        named = {name for spec in stored for name in (*persons_of(spec), *spec.sensitive)}
        return (key for key in subject.keys if key.field in named)


def with_tokens(streams: Mapping[str, StreamSpec], keys: Iterable[Key]) -> tuple[Key, ...]:
    """``keys``, and the tokens that records have for those of sensitive fields, in all streams.

    Raises:
        UsageError: A value is under the key of a person that no key names.
        PermanentError: There is no master key.
        RetryableError: The token store does not answer.
    """
    given = tuple(keys)
    found: list[Key] = []
    for key in given:
        found.append(key)
        found += [Key(key.field, token) for spec in streams.values() for token in _tokens(spec, key, given)]
    return tuple(dict.fromkeys(found))


def _tokens(spec: StreamSpec, key: Key, given: Iterable[Key]) -> Iterator[str]:
    """The tokens of a value in one stream: under its own key, and under those of the persons that keys name."""
    declared = spec.sensitive.get(key.field)
    if declared is None or spec.tokens is None or TOKEN.fullmatch(key.value):
        return
    owners: list[tuple[str, str, str | None]] = [(spec.domain_of(key.field), key.value, None)]
    if declared.person is not None:
        persons = [each.value for each in given if each.field == declared.person and not TOKEN.fullmatch(each.value)]
        if not persons:
            raise UsageError(
                f"--key: found {key.field}, whose values are under the key of the person that {declared.person} names; "
                f"expected that person too: --key {declared.person}=VALUE"
            )
        owners += [(spec.domain_of(declared.person), person, person) for person in persons]
    store, tokens = store_of(spec.tokens), tokeniser_of(spec)
    for domain, owner, person in owners:
        if tokens is not None and store.has(domain, owner):
            yield from tokens.values(key.field, [key.value], person)
