"""The master key of a token store is rotated: each key of a person is wrapped anew, and no token changes.

1. ``begin``, one step: the store is of the new master key, which has the one before and is had by it. So both open the
   store, keys that are made from now on are under the new one, and keys under either are read.
2. ``wrapped``: some keys a step, in order of persons. A key that was destroyed in between stays away.
3. ``forgotten``: the new master key has the one before no more.
4. ``end``, a call of its own: the one before has the new one no more, and opens nothing.

A process that dies between two steps leaves a store that both master keys open; the same call goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from crossline.basics.errors import RetryableError, StateError, UsageError
from crossline.io.tokens.keyring import BRIDGE, BRIDGE_OF, CHANGED, OLD, keyring_of, rotated_meta
from crossline.io.tokens.master_key import MasterKey, name_of
from crossline.io.tokens.token_store import KeyRows, TokenStore

_AT_ONCE = 2_000


@dataclass(frozen=True, slots=True)
class Rotation:
    """What a rotation did.

    Attributes:
        store: The name of the store.
        before: The name of the master key before; None: there is none any more.
        now: The name of the master key from now on.
        keys: How many keys were wrapped anew.
        ended: Whether the master key before opens the store no more.
    """

    store: str
    before: str | None
    now: str
    keys: int = 0
    ended: bool = False


def rotate(store: TokenStore, new: MasterKey, between: Callable[[str], None] = lambda _: None) -> Rotation:
    """Wrap all keys of a store under another master key, which also goes on where such a call was cut off.

    Args:
        store: The store, with the master key before, or with the new one.
        new: The new master key.
        between: Called between two steps.

    Returns:
        What was done. The master key before still opens the store: see ``end``.

    Raises:
        UsageError: An earlier rotation, to another master key, was not ended.
        StateError: The store is of neither master key, or is damaged.
        RetryableError: The store does not answer, or another process rotates it: the same call may succeed later.
    """
    rows = store.open()
    try:
        meta = rows.meta()
        ring = keyring_of(store.master, meta, store.name)
        if ring.current.check != new.check:
            if BRIDGE in meta:
                raise UsageError(
                    f"{store.name}: found a rotation to master key {ring.current.name} that was not ended; expected "
                    f"that key as the new one, or that rotation ended: crossline tokens rotate --end, when every "
                    "process has that key"
                )
            if not rows.change_meta(ring.current.check, rotated_meta(ring, new)):
                raise RetryableError(f"{store.name}: another process rotates its master key; try again")
            between("begun")
        keys = _wrapped(rows, new, store.name, between)
        before = rows.meta().get(BRIDGE_OF)
        return Rotation(store.name, None if before is None else name_of(before), new.name, keys)
    finally:
        rows.close()


def end(store: TokenStore, between: Callable[[str], None] = lambda _: None) -> Rotation:
    """Close the store to the master key before.

    Args:
        store: The store, with the master key from now on.
        between: Called between two steps.

    Returns:
        What was done. A second call finds no master key before.

    Raises:
        UsageError: The store is given the master key before.
        StateError: The store is of another master key, or is damaged.
        RetryableError: The store does not answer.
    """
    rows = store.open()
    try:
        meta = rows.meta()
        ring = keyring_of(store.master, meta, store.name)
        if ring.current.check != store.master.check:
            raise UsageError(
                f"{store.name}: found master key {store.master.name} in the settings, which was rotated to "
                f"{ring.current.name}; expected that one: put it in the place of the one before, start every process "
                "again, then end the rotation"
            )
        keys = _wrapped(rows, ring.current, store.name, between)
        if not rows.change_meta(ring.current.check, {}, (BRIDGE, BRIDGE_OF)):
            raise RetryableError(f"{store.name}: another process rotates its master key; try again")
        between("ended")
        rows.scour()
        before = meta.get(BRIDGE_OF)
        return Rotation(store.name, None if before is None else name_of(before), ring.current.name, keys, ended=True)
    finally:
        rows.close()


def _wrapped(rows: KeyRows, new: MasterKey, store: str, between: Callable[[str], None]) -> int:
    """Wrap the keys that the master key before has, and let the store forget it; how many there were."""
    meta = rows.meta()
    ring = keyring_of(new, meta, store)
    count, after = 0, b""
    while OLD in meta and (some := rows.page(after, _AT_ONCE)):
        changes = []
        for person, wrapped in some:
            if new.unwrap(person, wrapped) is None:
                key = ring.unwrap(person, wrapped)
                if key is None:
                    raise StateError(f"{store}: {CHANGED}")
                changes.append((person, wrapped, new.wrap(person, key)))
        if changes:
            rows.replace(changes)
        count, after = count + len(changes), some[-1][0]
        between("wrapped")
    if OLD in meta and not rows.change_meta(new.check, {}, (OLD,)):
        raise RetryableError(f"{store}: another process rotates its master key; try again")
    between("forgotten")
    rows.scour()
    return count
