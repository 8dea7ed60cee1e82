"""Looks for the records of an alert in the lake and in their source, whichever has them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

from crossline.backtest.record_search import FoundRecords, RecordQuery
from crossline.basics.errors import CrosslineError
from crossline.basics.times import parse_instant_ms
from crossline.cli.alerts.lake_source import LakeSource
from crossline.cli.alerts.record_origin import RecordOrigin, back_of
from crossline.io.stores.protocol import StoredAlert


@dataclass(slots=True)
class RecordFinder:
    """Finds records: in the lake first if it covers the alert's batch, else in the source first.

    Attributes:
        stored: The alert.
        origin: Its sources, and the lake.
        in_lake: How many records were found in the lake.
        in_source: How many were found in their source.
        looked: Whether a source was looked through.
        failed: Why a source could not be read, where the lake had some of the records.
    """

    stored: StoredAlert
    origin: RecordOrigin
    in_lake: int = 0
    in_source: int = 0
    looked: bool = False
    failed: list[str] = field(default_factory=list)

    def find(self, stream: str, wanted: RecordQuery, until_s: float) -> FoundRecords:
        """The records that ``wanted`` asks for; the source is read until ``until_s`` at most.

        Raises CrosslineError if the source cannot be read, and the lake has none of them.
        """
        lake = self.origin.lake
        if lake is None:
            return self._in_source(stream, wanted, until_s)
        if lake.covers(self.stored):
            rows = self._in_lake(lake, stream, wanted, until_s)
            left = [each for each in wanted.ids if each not in rows.rows]
            return _joined(rows, self._rest(stream, replace(wanted, ids=left), until_s, rows)) if left else rows
        error: CrosslineError | None = None
        try:
            rows = self._in_source(stream, wanted, until_s)
        except CrosslineError as raised:
            rows, error = FoundRecords(), raised
        left = [each for each in wanted.ids if each not in rows.rows]
        if left:
            rows = _joined(rows, self._in_lake(lake, stream, replace(wanted, ids=left), until_s))
        if error is not None:
            if not rows.rows:
                raise error
            self.failed.append(f"the source of {stream} was not read: {error}")
        return rows

    def place(self) -> str:
        """Where the records are from; empty without a lake, or without records."""
        if self.origin.lake is None:
            return ""
        if self.in_source and self.in_lake:
            return f"{self.in_lake:,} records from the lake, {self.in_source:,} from their source"
        if self.in_lake:
            return "records from the lake"
        return "records from their source" if self.in_source else ""

    def notes(self) -> Iterator[str]:
        """Why records were not read from the lake, or not from a source."""
        lake = self.origin.lake
        if lake is not None and lake.why and (self.looked or not self.in_lake):
            yield lake.why
        yield from self.failed

    def _rest(self, stream: str, wanted: RecordQuery, until_s: float, known: FoundRecords) -> FoundRecords:
        try:
            return self._in_source(stream, wanted, until_s)
        except CrosslineError as error:
            if not known.rows:
                raise
            self.failed.append(f"the source of {stream} was not read: {error}")
            return FoundRecords()

    def _in_lake(self, lake: LakeSource, stream: str, wanted: RecordQuery, until_s: float) -> FoundRecords:
        at_ms = parse_instant_ms(self.stored.alert["event_time"])
        rows = lake.records(stream, wanted, at_ms, until_s)
        self.in_lake += len(rows)
        return FoundRecords(rows)

    def _in_source(self, stream: str, wanted: RecordQuery, until_s: float) -> FoundRecords:
        own = stream == self.stored.alert["stream"]
        start = self.stored if own else StoredAlert(self.stored.alert, "", None)
        self.looked = True
        with ExitStack() as stack:
            source = back_of(start, stream, self.origin, wanted.spec, until_s, stack)
            found = wanted.find(source, until_s)
        self.in_source += len(found.rows)
        return found


def _joined(found: FoundRecords, more: FoundRecords) -> FoundRecords:
    """Both. A source was read if one of them did."""
    return FoundRecords(
        found.rows | more.rows, found.read + more.read, found.ended or more.ended, [*found.gone, *more.gone]
    )
