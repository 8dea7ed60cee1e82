"""The values of a stream's sensitive fields as tokens: of columns, of one record, of one value.

A column is reduced to its different values first. Tokens are remembered for as long as no key was destroyed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crossline.basics.deadletter import DeadLetter
from crossline.basics.streams.schema import StreamSpec
from crossline.basics.values import Columns
from crossline.ingest.tokens.letters import without_values
from crossline.ingest.tokens.token import is_token, token_of

TOKENS_MAX = 1 << 17  # of a field, that are remembered; as many again from before
CHARS_MAX = 256  # of a value whose token is remembered: records may have values of a megabyte


class PersonKeys(Protocol):
    """The keys of persons. A person is a value, as text, in a domain."""

    def generation(self) -> int:
        """How many keys were destroyed: when it differs, tokens made before may be of a destroyed key.

        Raises RetryableError where the store does not answer.
        """
        ...

    def keys(self, domain: str, persons: Sequence[str]) -> list[bytes]:
        """The key of each of the ``persons``, of 32 bytes each; made where there is none.

        Raises RetryableError where the store does not answer.
        """
        ...


@dataclass(frozen=True, slots=True)
class TokenField:
    """A sensitive field. ``person``: the field that names its person, None where the value does; in which domain."""

    name: str
    domain: str
    person: str | None
    person_domain: str


# Whose value: the value, where it names its person; else the person (None: the value itself) and the value.
_Pair = str | tuple[str | None, str]


@dataclass(slots=True)
class _Known:
    """Tokens that were made. The older half is forgotten when there are too many."""

    young: dict[_Pair, str] = field(default_factory=dict)
    old: dict[_Pair, str] = field(default_factory=dict)

    def find(self, pairs: Sequence[_Pair]) -> list[str | None]:
        """Those of ``pairs``, None where it is not known."""
        found = list(map(self.young.get, pairs))
        if self.old:
            for n, pair in enumerate(pairs):
                if found[n] is None and (token := self.old.get(pair)) is not None:
                    found[n] = token
                    self.put(pair, token)
        return found

    def put(self, pair: _Pair, token: str) -> None:
        if len(self.young) >= TOKENS_MAX:
            self.old, self.young = self.young, {}
        self.young[pair] = token


def token_fields(spec: StreamSpec) -> dict[str, TokenField]:
    """The sensitive fields of a stream, by name."""
    return {
        name: TokenField(name, spec.domain_of(name), each.person, spec.domain_of(each.person or name))
        for name, each in spec.sensitive.items()
    }


class Tokeniser:
    """Makes the tokens of one stream.

    Args:
        spec: The stream.
        keys: The keys of persons.
    """

    def __init__(self, spec: StreamSpec, keys: PersonKeys) -> None:
        self.fields = token_fields(spec)
        self.keys = keys
        self._known: dict[str, _Known] = {}
        self._generation: int | None = None

    def columns(self, names: tuple[str, ...], fields: Mapping[str, pa.Array]) -> Columns:
        """``fields`` with string arrays of tokens in the place of sensitive ones, made when they are asked for."""

        def make(number: int) -> pa.Array:
            name = names[number]
            each = self.fields.get(name)
            if each is None:
                return fields[name]
            return self.column(each, fields[name], None if each.person is None else fields[each.person])

        return Columns(names, make)

    def column(self, of: TokenField, values: pa.Array, persons: pa.Array | None) -> pa.Array:
        """The tokens of an array of strings or integers; null where it is. ``persons``: of as many rows, or None."""
        texts = values.cast(pa.string()).dictionary_encode()
        words = texts.dictionary.to_pylist()
        if persons is None:
            tokens = self._tokens(of, words)
            return pa.array(tokens, pa.string()).take(texts.indices)
        named = persons.cast(pa.string()).dictionary_encode()
        names: list[str | None] = [*named.dictionary.to_pylist(), None]
        at = np.asarray(pc.fill_null(named.indices, len(names) - 1), np.int64)
        codes = at * max(len(words), 1) + np.asarray(pc.fill_null(texts.indices, 0), np.int64)
        rows = np.asarray(pc.is_valid(texts.indices))
        pairs, places = np.unique(codes[rows], return_inverse=True)
        found = [(names[code // len(words)], words[code % len(words)]) for code in pairs.tolist()]
        index: np.ndarray[Any, np.dtype[np.int64]] = np.zeros(len(codes), np.int64)
        index[rows] = places
        return pa.array(self._tokens(of, found), pa.string()).take(pa.array(index, mask=~rows))

    def record(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """A record as its source has it, nested or flat, with tokens. ``fields`` is left as it is."""
        made = dict(fields)
        for name, each in self.fields.items():
            value = _found(fields, name)
            if value is not None and not isinstance(value, dict | list):
                person = None if each.person is None else _found(fields, each.person)
                _replace(made, name, self.value(name, value, person))
        return made

    def value(self, name: str, value: Any, person: Any = None) -> str:
        """The token of one value of the sensitive field ``name``, as a record has it."""
        of, text = self.fields[name], str(value)
        return self._tokens(of, [text if of.person is None else (None if person is None else str(person), text)])[0]

    def values(self, name: str, values: Sequence[str], person: str | None = None) -> list[str]:
        """The tokens of values that people give for the sensitive field ``name``, all of one person if it has one.

        A value that is a token stays as it is. A value of a record never does: else a sender could take the token of
        somebody else.
        """
        of = self.fields[name]
        given = [each for each in values if not is_token(each)]
        plain = iter(self._tokens(of, given if of.person is None else [(person, each) for each in given]))
        return [each if is_token(each) else next(plain) for each in values]

    def letters(self, letters: Sequence[DeadLetter]) -> list[DeadLetter]:
        """Dead letters of the stream, without values of sensitive fields."""
        return without_values(letters)

    def _tokens(self, of: TokenField, pairs: Sequence[_Pair]) -> list[str]:
        """The tokens of values. Where no person is named, the value is the person, in the domain of the field."""
        generation = self.keys.generation()
        if generation != self._generation:
            self._known, self._generation = {}, generation
        known = self._known.setdefault(of.name, _Known())
        made = known.find(pairs)
        new = [n for n, token in enumerate(made) if token is None]
        if not new:
            return [token for token in made if token is not None]
        wanted: dict[str, list[tuple[int, str, str]]] = {of.domain: [], of.person_domain: []}
        for n in new:
            person, value = _parted(pairs[n])
            domain = of.domain if person is None else of.person_domain
            wanted[domain].append((n, value if person is None else person, value))
        for domain, some in wanted.items():
            keys = self.keys.keys(domain, [person for _, person, _ in some]) if some else []
            for (n, _, value), key in zip(some, keys, strict=True):
                made[n] = token = token_of(key, of.domain, value)
                if len(value) <= CHARS_MAX:
                    known.put(pairs[n], token)
        return [token for token in made if token is not None]


def _parted(pair: _Pair) -> tuple[str | None, str]:
    return (None, pair) if isinstance(pair, str) else pair


def _found(fields: Mapping[str, Any], name: str) -> Any:
    if name in fields:
        return fields[name]
    here: Any = fields
    for part in name.split("."):
        here = here.get(part) if isinstance(here, Mapping) else None
    return here


def _replace(fields: dict[str, Any], name: str, value: str) -> None:
    """Put ``value`` where ``_found`` finds it; inner objects are copied first."""
    if name in fields:
        fields[name] = value
        return
    *outer, last = name.split(".")
    for part in outer:
        fields[part] = fields = dict(fields[part])
    fields[last] = value
