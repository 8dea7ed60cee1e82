"""The master keys that open one store: the one of its keys, and during a rotation the one before.

The store has, by name, in its table of ``meta``:

- ``master``: the check of the master key of its keys;
- ``naming``: the key by which it names persons, wrapped; absent in a store whose master key was never rotated, which
  names persons by what is derived from its master key;
- ``old``: during a rotation, the master key before, wrapped under the one from now on;
- ``bridge``, ``bridge_of``: from a rotation to its end, the master key from now on, wrapped under the one before, and
  the check of that one. So a process that was started with the key before goes on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from crossline.basics.errors import StateError
from crossline.io.tokens.master_key import MasterKey, name_of, person_id

MASTER, NAMING, OLD, BRIDGE, BRIDGE_OF = "master", "naming", "old", "bridge", "bridge_of"
# In the place of a person, whose ids have 32 bytes.
_AS_NAMING, _AS_OLD, _AS_BRIDGE = b"crossline naming", b"crossline old", b"crossline bridge"

CHANGED = (
    "the token store: found a key of a person that was changed; expected it as it was written: restore the store from "
    "a backup"
)


@dataclass(frozen=True, slots=True)
class Keyring:
    """What opens a store.

    Attributes:
        current: The master key that keys are wrapped with.
        naming: Names persons; 32 bytes.
        before: The master key that some keys are still wrapped with; None: there are none.
    """

    current: MasterKey
    naming: bytes
    before: MasterKey | None = None

    def same_as(self, other: Keyring) -> bool:
        """Whether it opens the same keys."""
        mine, others = ((each.current.check, each.before is None) for each in (self, other))
        return mine == others

    def person_id(self, domain: str, person: str) -> bytes:
        """What a person is called in the store, 32 bytes."""
        return person_id(self.naming, domain, person)

    def unwrap(self, person: bytes, wrapped: bytes) -> bytes | None:
        """A key; None where neither master key opens it."""
        key = self.current.unwrap(person, wrapped)
        return self.before.unwrap(person, wrapped) if key is None and self.before is not None else key


def keyring_of(given: MasterKey, meta: Mapping[str, bytes], store: str) -> Keyring:
    """The keyring of a store.

    Args:
        given: The master key that the process has.
        meta: What the store has about its master key.
        store: The name of the store, for errors.

    Raises:
        StateError: The store is of another master key, or ``meta`` is damaged.
    """
    if meta[MASTER] == given.check:
        current = given
    else:
        root = given.unwrap(_AS_BRIDGE, meta[BRIDGE]) if BRIDGE in meta else None
        if root is None:
            raise StateError(
                f"{store}: found keys under another master key, {name_of(meta[MASTER])}; expected those of the one "
                f"that is given, {given.name}: give the master key with which the store was made, or to which it was "
                "rotated"
            )
        current = MasterKey.of_root(root)
    naming = given.naming if NAMING not in meta else current.unwrap(_AS_NAMING, meta[NAMING])
    old = current.unwrap(_AS_OLD, meta[OLD]) if OLD in meta else None
    if current.check != meta[MASTER] or naming is None or (OLD in meta and old is None):
        raise StateError(f"{store}: found what it has about its master key changed; restore the store from a backup")
    return Keyring(current, naming, None if old is None else MasterKey.of_root(old))


def rotated_meta(ring: Keyring, new: MasterKey) -> dict[str, bytes]:
    """What a store has in ``meta`` from the first step of a rotation to ``new`` on."""
    return {
        MASTER: new.check,
        NAMING: new.wrap(_AS_NAMING, ring.naming),
        OLD: new.wrap(_AS_OLD, ring.current.root),
        BRIDGE: ring.current.wrap(_AS_BRIDGE, new.root),
        BRIDGE_OF: ring.current.check,
    }
