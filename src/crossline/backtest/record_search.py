"""Search for the records of an alert in their source.

An alert names its records by id and not by position; a running stream keeps no index of positions. The records precede
the one at which the rule fired, most of them by little. So the source is read backwards from that record until all are
found, the time limit is reached, or its beginning is reached. A match needs the id, the alert's key and an event time
within its window, because an id may be reused.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Protocol

from crossline.basics.conditions.evaluation import lookup
from crossline.basics.streams.schema import StreamSpec, TimeField
from crossline.basics.times import parse_instant_ms

_LOOK_EACH = 256  # records between two checks of the time limit
# Units per millisecond.
_PER_MS = {"ms": 1, "us": 1_000, "ns": 1_000_000}


@dataclass(frozen=True, slots=True)
class SourceRecord:
    """A record of a source, with its position."""

    partition: str
    offset: int
    fields: Mapping[str, Any]


class ReverseReader(Protocol):
    """Reads a source backwards."""

    @property
    def gone(self) -> list[str]:
        """The parts that it could not read, one sentence each."""
        ...

    def rows(self, ids: Collection[str]) -> Iterator[SourceRecord | None]:
        """Records, the last first; None between them, so that the caller can check the time.

        It may skip records that have none of ``ids``.
        """
        ...


@dataclass(slots=True)
class FoundRecords:
    """The result of a search.

    Attributes:
        rows: The records found, by id.
        read: How many records were read.
        ended: Whether the source was read to its beginning; False: the time limit was reached, or all were found.
        gone: The parts that could not be read, one sentence each.
    """

    rows: dict[str, SourceRecord] = field(default_factory=dict)
    read: int = 0
    ended: bool = False
    gone: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class RecordQuery:
    """A query for records: ``ids`` with this ``key`` and an event time within the bounds, in epoch ms (None: any).

    ``refused``: partitions and offsets of records that have such an id and were refused as dead letters.
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
        for side_inputs, row in enumerate(source.rows(left)):
            if row is not None:
                found.read += 1
                record_id = str(lookup(row.fields, self.spec.id))
                if record_id in left and self.matches(row):
                    found.rows[record_id] = row
                    left.discard(record_id)
            if not left or ((row is None or side_inputs % _LOOK_EACH == 0) and time.monotonic() >= until_s):
                break
        else:
            found.ended = True
        found.gone = source.gone
        return found

    def matches(self, row: SourceRecord) -> bool:
        """Whether a record matches the query, and is not another one with the same id."""
        if (row.partition, row.offset) in self.refused:
            return False
        for name, value in self.key.items():
            if name not in self.spec.own_columns:
                continue  # a field of a table, which the source does not have
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
    """The event time of a record, in epoch ms; None if it cannot be read."""
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
