"""When records came: what is known of that from outside, and which of their times lie too far ahead of it.

A clock that one record set to the year 2199 would make all others late. Nothing here reads a clock: the instant at
which records are known to have been there travels with them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from crossline.basics.times import format_duration, format_instant
from crossline.basics.values import I64
from crossline.ingest.decode.reasons import RecordFault, RefusedRecordError


@dataclass(frozen=True, slots=True)
class Arrival:
    """Of n records: ``ingest_ms`` int64[n], the broker's times, None where there is none.

    ``known_ms``: when they are known to have been there, int64[n] or one for all; None where that is unknown.
    ``bound_ms``: how far ahead of that a time may lie.
    """

    bound_ms: int
    ingest_ms: I64 | None = None
    known_ms: I64 | int | None = None

    def ahead(self, *times: I64 | None) -> npt.NDArray[np.bool_] | None:
        """Which records have a time that lies too far ahead, the broker's among them; None where no one can say."""
        if self.known_ms is None:
            return None
        latest: I64 | int = self.known_ms + self.bound_ms
        marks = [stamps > latest for stamps in (*times, self.ingest_ms) if stamps is not None]
        return np.asarray(np.logical_or.reduce(marks))

    def check(self, row: int, stamps: Mapping[str, int | None], record_id: str) -> None:
        """Refuse record ``row`` where one of its times (by the name of the field) is too far ahead."""
        for fault in self.faults(row, stamps):
            raise RefusedRecordError(fault, record_id)

    def faults(self, row: int, stamps: Mapping[str, int | None]) -> Iterator[RecordFault]:
        """Each time of record ``row`` that is too far ahead; ``stamps`` by the name of the field."""
        if self.known_ms is None:
            return
        known_ms = int(self.known_ms if isinstance(self.known_ms, int) else self.known_ms[row])
        latest = known_ms + self.bound_ms
        for name, stamp in stamps.items():
            if stamp is not None and stamp > latest:
                expected = latest_text(known_ms, self.bound_ms)
                yield RecordFault("time_in_future", format_instant(stamp), expected, name)
        if self.ingest_ms is not None and int(self.ingest_ms[row]) > latest:
            found, expected = format_instant(int(self.ingest_ms[row])), latest_text(known_ms, self.bound_ms)
            yield RecordFault("time_in_future", found, expected, about="the message's timestamp")


def latest_text(known_ms: int, bound_ms: int) -> str:
    """The latest time that is believed, for people."""
    bound = format_duration(bound_ms)
    return f"at most {format_instant(known_ms + bound_ms)}, {bound} after it was there to be read"
