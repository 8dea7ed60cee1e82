"""The last alert of each rule version and key, for as long as a record may still hold because of it.

A table over columns, looked up for all rows of a batch at once. It follows from what was judged and is not judged by:
it only names alerts. What a batch changed is written beside its records, again for each key at which a rule holds, so
that no segment is needed for longer than its records are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from crossline.basics.byte_slices import take_bytes
from crossline.basics.values import I32, I64, U8
from crossline.state.batch import KeyedBatch
from crossline.state.memory.hashing import keyed_many

U64 = npt.NDArray[np.uint64]
Bools = npt.NDArray[np.bool_]
Lines = Sequence[tuple[str, int]]

ALERT_BYTES = 16
_MIXED = np.uint64(0x9E3779B97F4A7C15)
_DENSE_MAX = 1 << 22  # pairs of line and key that are numbered in an array; of more, those that are there are sorted


@dataclass(frozen=True, slots=True)
class Pairs:
    """p records at which lines hold: ``row`` of the batch, ascending, and ``line``, ascending within a row."""

    row: I64
    line: I64

    def __len__(self) -> int:
        return len(self.row)

    def only(self, chosen: Bools | I64) -> Pairs:
        """Those that are ``chosen``, or have these numbers."""
        return Pairs(self.row[chosen], self.line[chosen])

    def places_of(self, some: Pairs) -> I64:
        """Where among these each of ``some`` is, which are some of these."""
        if not len(some):
            return np.zeros(0, np.int64)
        width = np.int64(max(int(self.line.max()), int(some.line.max())) + 1)
        found: I64 = np.searchsorted(self.row * width + self.line, some.row * width + some.line)
        return found


@dataclass(frozen=True, slots=True)
class LastAlertChanges:
    """What a batch changed: n pairs of ``line`` (number) and key, each with its alert and a clock.

    ``named`` is False where no alert is known. ``clock_ms``: the highest of the records at which it held. Also what is
    written into a segment.
    """

    line: I32
    key_bytes: U8
    key_offsets: I64
    alert: U8
    named: Bools
    clock_ms: I64

    def arrays(self) -> dict[str, Any]:
        """By name, as ``of`` takes them."""
        return {name: getattr(self, name) for name in _NAMES}

    @staticmethod
    def of(arrays: Mapping[str, Any]) -> LastAlertChanges | None:
        """Inverse of ``arrays``; None where these are of something else."""
        return LastAlertChanges(**{name: arrays[name] for name in _NAMES}) if _NAMES[0] in arrays else None

    def take(self, chosen: I64) -> LastAlertChanges:
        """Those numbered ``chosen``."""
        lengths = np.diff(self.key_offsets)[chosen]
        key_bytes, key_offsets = take_bytes(self.key_bytes, self.key_offsets[chosen], lengths)
        alert, named = self.alert[chosen], self.named[chosen]
        return LastAlertChanges(self.line[chosen], key_bytes, key_offsets, alert, named, self.clock_ms[chosen])


_NAMES = ("line", "key_bytes", "key_offsets", "alert", "named", "clock_ms")


def _nothing(rows: int = 0) -> U8:
    return np.zeros((rows, ALERT_BYTES), np.uint8)


@dataclass(slots=True)
class LastAlerts:
    """By a keyed hash of rule version and key (n, ascending): the ``alert``, and when the rule last held there."""

    hashes: U64 = field(default_factory=lambda: np.zeros(0, np.uint64))
    alert: U8 = field(default_factory=_nothing)
    named: Bools = field(default_factory=lambda: np.zeros(0, np.bool_))
    clock_ms: I64 = field(default_factory=lambda: np.zeros(0, np.int64))

    def __len__(self) -> int:
        return len(self.hashes)

    def load(self, crossed: LastAlertChanges, lines: Lines) -> None:
        """Take in what a batch changed."""
        self._put(_hashes(lines, crossed.line, keyed_many(crossed.key_bytes, crossed.key_offsets)), crossed)

    def evict(self, cutoff_ms: int) -> None:
        """Forget what last held at ``cutoff_ms`` or before, once it is half of all."""
        kept = self.clock_ms > cutoff_ms
        if 2 * int(kept.sum()) <= len(kept):
            self.hashes, self.alert = self.hashes[kept], self.alert[kept]
            self.named, self.clock_ms = self.named[kept], self.clock_ms[kept]

    def follow(
        self, held: Pairs, emitted: Pairs, alerts: U8, lines: Lines, keys: Keys, clock_ms: I64
    ) -> tuple[U8, Bools, LastAlertChanges]:
        """Of each of ``held`` the last alert of its line and key up to its row, whether there is one; what changed.

        ``emitted``: those of ``held`` at which there is an alert, of which ``alerts`` has the ids (16 bytes each), by
        row and then by line. ``clock_ms``: of all rows of the batch.
        """
        number, first = _numbered(held, keys)
        of_keys = keyed_many(keys.data, keys.offsets)
        hashes = _hashes(lines, held.line[first], of_keys[keys.index[held.row[first]]])
        hashes, chosen, same = np.unique(hashes, return_index=True, return_inverse=True)
        number, first = same.astype(np.int64)[number], first[chosen]
        pairs = held.line[first], keys.index[held.row[first]]
        alert, named = self._find(hashes)
        last_ms = np.full(len(first), np.iinfo(np.int64).min)
        np.maximum.at(last_ms, number, clock_ms[held.row])
        alert_of, named_of = alert[number], named[number]
        if len(emitted):
            at = held.places_of(emitted)
            order = np.lexsort((emitted.row, number[at]))
            by_pair = number[at][order] * np.int64(keys.rows) + emitted.row[order]
            before = np.searchsorted(by_pair, number * np.int64(keys.rows) + held.row, side="right") - 1
            mine = (before >= 0) & (number[at][order][np.maximum(before, 0)] == number)
            alert_of[mine], named_of[mine] = alerts[order[before[mine]]], True
            alert[number[at]], named[number[at]] = alerts, True  # of one pair the last one stays
        key_bytes, key_offsets = take_bytes(keys.data, keys.offsets[pairs[1]], np.diff(keys.offsets)[pairs[1]])
        crossed = LastAlertChanges(pairs[0].astype(np.int32), key_bytes, key_offsets, alert, named, last_ms)
        self._put(hashes, crossed)
        return alert_of, named_of, crossed

    def _find(self, hashes: U64) -> tuple[U8, Bools]:
        alert, named = _nothing(len(hashes)), np.zeros(len(hashes), np.bool_)
        if len(self.hashes):
            at = np.minimum(np.searchsorted(self.hashes, hashes), len(self.hashes) - 1)
            known = self.hashes[at] == hashes
            alert[known], named[known] = self.alert[at[known]], self.named[at[known]]
        return alert, named

    def _put(self, hashes: U64, crossed: LastAlertChanges) -> None:
        """Known ones get the alert, and the later of two clocks; new ones are put in between."""
        clock_ms, new = crossed.clock_ms, np.ones(len(hashes), np.bool_)
        if len(self.hashes):
            at = np.minimum(np.searchsorted(self.hashes, hashes), len(self.hashes) - 1)
            new = self.hashes[at] != hashes
            known = at[~new]
            self.alert[known], self.named[known] = crossed.alert[~new], crossed.named[~new]
            self.clock_ms[known] = np.maximum(self.clock_ms[known], clock_ms[~new])
        if new.any():
            every = np.concatenate([self.hashes, hashes[new]])
            order = np.argsort(every, kind="stable")
            self.hashes = every[order]
            self.alert = np.concatenate([self.alert, crossed.alert[new]])[order]
            self.named = np.concatenate([self.named, crossed.named[new]])[order]
            self.clock_ms = np.concatenate([self.clock_ms, clock_ms[new]])[order]


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of a batch of ``rows`` rows: the number of each row's (``index``), and their bytes.

    A key has a number in each chunk of the batch that it is in.
    """

    index: I32
    data: U8
    offsets: I64
    rows: int

    @classmethod
    def of(cls, batch: KeyedBatch) -> Self:
        """Those of ``batch``."""
        return cls(batch.key_index, batch.key_bytes, batch.key_offsets, len(batch))


def _numbered(held: Pairs, keys: Keys) -> tuple[I64, I64]:
    """A number for each pair of line and number of a key that is there; of each the first of ``held`` that has it."""
    count = len(keys.offsets) - 1
    pair = held.line * np.int64(count) + keys.index[held.row]
    if not len(pair) or int(pair.max()) >= _DENSE_MAX:
        _, first, number = np.unique(pair, return_index=True, return_inverse=True)
        return number.astype(np.int64), first.astype(np.int64)
    first_of = np.full(int(pair.max()) + 1, -1, np.int64)
    first_of[pair[::-1]] = np.arange(len(pair) - 1, -1, -1)
    there = np.flatnonzero(first_of >= 0)
    number_of = np.empty(len(first_of), np.int64)
    number_of[there] = np.arange(len(there))
    return number_of[pair], first_of[there]


def _hashes(lines: Lines, line: Any, key_hash: Any) -> U64:
    """Of each pair of a line, by its number, and a key, by its keyed hash."""
    names = [f"{rule_id}\x1f{version}".encode() for rule_id, version in lines]
    offsets = np.zeros(len(names) + 1, np.int64)
    np.cumsum([len(name) for name in names], out=offsets[1:])
    of_lines = keyed_many(np.frombuffer(b"".join(names), np.uint8), offsets).view(np.uint64)
    mixed: U64 = (key_hash.view(np.uint64) * _MIXED) ^ of_lines[line]
    return mixed
