"""The keys of persons in a database: made once, read by all processes, destroyed for good."""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Mapping, Sequence

from crossline.basics.errors import RetryableError, StateError
from crossline.ingest.tokens.token import KEY_BYTES
from crossline.io.tokens.keyring import CHANGED, Keyring, keyring_of
from crossline.io.tokens.master_key import MasterKey

KEYS_MAX = 1 << 17  # that a process remembers; 32 bytes each, and some 200 around them
_TRIES = 3


class KeyRows(ABC):
    """One process's connection to the database."""

    @abstractmethod
    def generation(self) -> int:
        """How many keys were destroyed."""

    @abstractmethod
    def find(self, person_ids: Sequence[bytes]) -> Mapping[bytes, bytes]:
        """The wrapped keys that are there, by person."""

    @abstractmethod
    def add(self, rows: Sequence[tuple[bytes, bytes]], master: bytes) -> bool:
        """Add wrapped keys; a person that has one keeps it. On the disk at the end.

        False, and nothing is added, where the store is not of the ``master`` key of this check any more.
        """

    @abstractmethod
    def meta(self) -> Mapping[str, bytes]:
        """What the store has about its master key: see ``keyring``."""

    @abstractmethod
    def change_meta(self, master: bytes, put: Mapping[str, bytes], drop: Sequence[str] = ()) -> bool:
        """Change ``meta`` in one step; False where the store is not of the ``master`` key of this check any more."""

    @abstractmethod
    def page(self, after: bytes, count: int) -> Sequence[tuple[bytes, bytes]]:
        """The next ``count`` wrapped keys in order of persons, behind the person ``after``."""

    @abstractmethod
    def replace(self, rows: Sequence[tuple[bytes, bytes, bytes]]) -> None:
        """Put a wrapped key in the place of another one: person, before, after. One that is not there stays away."""

    @abstractmethod
    def scour(self) -> None:
        """Overwrite what was replaced or dropped. Raises RetryableError where somebody is in the way."""

    @abstractmethod
    def destroy(self, person_id: bytes, now_ms: int) -> bool:
        """Destroy a person's key, and note it; whether there was one."""

    @abstractmethod
    def close(self) -> None:
        """End the connection."""


class TokenStore(ABC):
    """The keys of persons. Any number of processes and threads; a fork opens a connection of its own.

    Args:
        master: The master key.
    """

    def __init__(self, master: MasterKey) -> None:
        self.master = master
        self._mine: _Session | None = None

    @abstractmethod
    def open(self) -> KeyRows:
        """A connection, to a store that is made where there is none. Raises StateError where this is no store."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Which store it is, for people."""

    def generation(self) -> int:
        """How many keys were destroyed; keys that this process remembers are forgotten where that has changed."""
        mine = self._session()
        with mine.lock:
            generation = mine.rows.generation()
            if generation != mine.generation:
                mine.keys.clear()
                mine.generation = generation
            return generation

    def keys(self, domain: str, persons: Sequence[str]) -> list[bytes]:
        """The key of each of the ``persons`` in ``domain``, of 32 bytes; a random one where there is none yet.

        Raises RetryableError where the store does not answer, StateError where it is damaged.
        """
        mine = self._session()
        with mine.lock:
            ids = [mine.ring.person_id(domain, each) for each in persons]
            made = [mine.keys.get(each) for each in ids]
            missing = list(dict.fromkeys(each for each, key in zip(ids, made, strict=True) if key is None))
            if not missing:
                return [each for each in made if each is not None]
            found = self._found(mine, missing)
            for each, key in found.items():
                mine.keys[each] = key
            while len(mine.keys) > KEYS_MAX:
                mine.keys.popitem(last=False)
            return [found[each] if key is None else key for each, key in zip(ids, made, strict=True)]

    def has(self, domain: str, person: str) -> bool:
        """Whether the person has a key."""
        mine = self._session()
        with mine.lock:
            return bool(mine.rows.find([mine.ring.person_id(domain, person)]))

    def destroy(self, domain: str, person: str, now_ms: int) -> bool:
        """Destroy the person's key: none of the tokens under it can be made or recognised again.

        Records of the person that come later get a new key, and so other tokens. Other processes forget the key with
        their next batch. The store notes that the key was destroyed, under a name that says nothing of the person.

        Args:
            domain: Of the field that names the person; by default the field's name.
            person: The value that names the person, as text.
            now_ms: Epoch milliseconds, for the note.

        Returns:
            Whether there was a key.

        Raises:
            RetryableError: the store does not answer.

        Example:
            >>> store_of(spec.tokens).destroy("account_id", "a1", now_ms)
        """
        mine = self._session()
        with mine.lock:
            there = mine.rows.destroy(mine.ring.person_id(domain, person), now_ms)
            mine.keys.clear()
            return there

    def close(self) -> None:
        """End this process's connection; the next call opens another one."""
        mine, self._mine = self._mine, None
        if mine is not None and mine.pid == os.getpid():
            with mine.lock:
                mine.rows.close()

    def _found(self, mine: _Session, person_ids: Sequence[bytes]) -> dict[bytes, bytes]:
        """The keys of persons, made where there are none; who makes one first makes it for all."""
        for _ in range(_TRIES):  # again where one was destroyed in between, or the master key was rotated
            ring = mine.ring
            wrapped = dict(mine.rows.find(person_ids))
            absent = [each for each in person_ids if each not in wrapped]
            added = True
            if absent:
                made = [(each, ring.current.wrap(each, os.urandom(KEY_BYTES))) for each in absent]
                added = mine.rows.add(made, ring.current.check)
                wrapped |= mine.rows.find(absent)
            keys = {each: ring.unwrap(each, found) for each, found in wrapped.items()}
            if added and None not in keys.values():
                if len(keys) == len(person_ids):
                    return {each: key for each, key in keys.items() if key is not None}
                continue
            mine.ring = keyring_of(self.master, mine.rows.meta(), self.name)
            if added and mine.ring.same_as(ring):
                raise StateError(CHANGED)
        raise RetryableError(
            "the token store: keys were destroyed, or its master key was rotated, as often as keys were made; try again"
        )

    def _session(self) -> _Session:
        mine = self._mine
        if mine is None or mine.pid != os.getpid():
            if mine is not None:
                _INHERITED.append(mine)
            rows = self.open()
            try:
                ring = keyring_of(self.master, rows.meta(), self.name)
            except BaseException:
                rows.close()
                raise
            mine = self._mine = _Session(rows, ring)
        return mine


class _Session:
    def __init__(self, rows: KeyRows, ring: Keyring) -> None:
        self.pid = os.getpid()
        self.rows = rows
        self.ring = ring
        self.lock = threading.Lock()
        self.keys: OrderedDict[bytes, bytes] = OrderedDict()
        self.generation = -1


# Connections of the process that this one was forked from: closing them here would end them there.
_INHERITED: list[_Session] = []
