"""The records that an alert rests on, read again from where they came from.

An alert names its records and does not say where they stand; nothing is kept for that while a stream runs. They came
before the record at which it fired, most of them shortly before. So a source is read backwards from that record until
all are found, time is up, or its beginning is reached. A record is known by its id, and must have the alert's key and
a time within its window: an id may be used again.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Protocol

from crossline.basics.conditions.holds import lookup
from crossline.basics.streams.schema import StreamSpec, TimeField
from crossline.basics.times import parse_instant_ms

_LOOK_EACH = 256  # records between two looks at the time
# In one millisecond: how many of a unit.
_PER_MS = {"ms": 1, "us": 1_000, "ns": 1_000_000}


@dataclass(frozen=True, slots=True)
class SourceRecord:
    """A record as its source has it, and where it stands there."""

    partition: str
    offset: int
    fields: Mapping[str, Any]


class ReverseReader(Protocol):
    """A source that is read backwards."""

    @property
    def gone(self) -> list[str]:
        """What it was to read and no longer has, as sentences."""
        ...

    def rows(self, ids: Collection[str]) -> Iterator[SourceRecord | None]:
        """Records, the last first; None where it only gives way. It may leave out those that have none of ``ids``."""
        ...


@dataclass(slots=True)
class FoundRecords:
    """The records by id; how many were read for them, and why no more where some are missing.

    ``ended``: the source was read as far as it goes, else time was up.
    """

    rows: dict[str, SourceRecord] = field(default_factory=dict)
    read: int = 0
    ended: bool = False
    gone: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class RecordQuery:
    """What is looked for: ``ids`` with this ``key`` and an event time within the bounds, in epoch ms (None: any).

    ``refused``: partitions and offsets of records that have such an id and do not count.
    """

    spec: StreamSpec
    ids: Collection[str]
    key: Mapping[str, Any]
    since_ms: int | None = None
    until_ms: int | None = None
    refused: Collection[tuple[str, int]] = ()

    def find(self, source: ReverseReader, until_s: float) -> FoundRecords:
        """Read ``source`` backwards until all are found, or until ``until_s`` on ``time.monotonic``'s clock."""
        found = FoundRecords()
        left = set(self.ids)
        for looks, row in enumerate(source.rows(left)):
            if row is not None:
                found.read += 1
                record_id = str(lookup(row.fields, self.spec.id))
                if record_id in left and self._is(row):
                    found.rows[record_id] = row
                    left.discard(record_id)
            if not left or ((row is None or looks % _LOOK_EACH == 0) and time.monotonic() >= until_s):
                break
        else:
            found.ended = True
        found.gone = source.gone
        return found

    def _is(self, row: SourceRecord) -> bool:
        """Whether it is the record that is meant, and not another one with its id."""
        if (row.partition, row.offset) in self.refused:
            return False
        for name, value in self.key.items():
            if name not in self.spec.own_columns:
                continue  # a table's, which the record does not have
            if self.spec.own_columns[name].kind != "timestamp" and not same_value(lookup(row.fields, name), value):
                return False
        at_ms = event_ms(self.spec.event_time, row.fields)
        if at_ms is None or self.since_ms is None or self.until_ms is None:
            return True
        return self.since_ms - 1 <= at_ms <= self.until_ms + 1  # finer units are rounded in more than one place


def same_value(found: Any, value: Any) -> bool:
    """Whether a field as its source writes it (in CSV: as text) is this value of a key."""
    if isinstance(value, bool):
        return str(found).lower() == str(value).lower()
    if isinstance(value, int | float):
        try:
            return Decimal(str(found)) == Decimal(str(value))
        except ArithmeticError:
            return False
    return bool(found == value)


def event_ms(field_: TimeField, fields: Mapping[str, Any]) -> int | None:
    """The instant that a record names as its event time, in epoch ms; None where it cannot be read."""
    value = lookup(fields, field_.field)
    try:
        if isinstance(value, datetime):
            stamp = value if value.tzinfo else value.replace(tzinfo=UTC)
            return int(Decimal(str(stamp.timestamp())) * 1_000 // 1)
        if field_.unit == "iso8601":
            return parse_instant_ms(value)
        number = Decimal(str(value))
        return int(number * 1_000 // 1 if field_.unit == "s" else number // _PER_MS[field_.unit])
    except (ArithmeticError, TypeError, ValueError, OverflowError):
        return None
