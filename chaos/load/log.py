"""The log of all records that a producer sent. There may be millions; each takes some 33 bytes."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field

import xxhash

_NONE = -1


@dataclass(frozen=True, slots=True)
class Sent:
    """A record that the client was given; ``due_s``: when it was due; ``poison``: the reason why it must be dead.

    ``record``: the number by which its id is made, which is that of another record where it is a copy; None where it
    has no id that can be read. Of what stands in it a digest is kept.
    """

    number: int
    due_s: float
    record: int | None
    event_ms: int | None
    digest: int
    poison: str | None = None


@dataclass(slots=True)
class Log:
    """Records in the order of their numbers."""

    _due_s: array[float] = field(default_factory=lambda: array("d"))
    _records: array[int] = field(default_factory=lambda: array("q"))
    _events_ms: array[int] = field(default_factory=lambda: array("q"))
    _digests: array[int] = field(default_factory=lambda: array("Q"))
    _poisons: bytearray = field(default_factory=bytearray)
    _reasons: list[str | None] = field(default_factory=lambda: [None])

    def add(self, sent: Sent) -> None:
        """Add the next record."""
        if sent.number != len(self):
            raise ValueError(f"record {sent.number} was to be number {len(self)}")
        if sent.poison not in self._reasons:
            self._reasons.append(sent.poison)
        self._poisons.append(self._reasons.index(sent.poison))
        self._due_s.append(sent.due_s)
        self._records.append(_NONE if sent.record is None else sent.record)
        self._events_ms.append(_NONE if sent.event_ms is None else sent.event_ms)
        self._digests.append(sent.digest)

    def __len__(self) -> int:
        return len(self._digests)  # noted last, so that a concurrent reader finds it complete

    def __getitem__(self, number: int) -> Sent:
        record, event_ms = self._records[number], self._events_ms[number]
        return Sent(
            number,
            self._due_s[number],
            None if record == _NONE else record,
            None if event_ms == _NONE else event_ms,
            self._digests[number],
            self._reasons[self._poisons[number]],
        )


def id_of(record: int) -> str:
    """The id of a record."""
    return f"t{record:08d}"


def record_of(name: str) -> int:
    """The number of a record, by its id."""
    return int(name[1:])


def digest_of(value: bytes | None) -> int:
    """A digest of a value."""
    return xxhash.xxh3_64_intdigest(value or b"")
