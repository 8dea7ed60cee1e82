"""What the lake does not have yet, and until when the topics keep it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from crossline.basics.times import format_instant
from crossline.io.outbox.batch_spool import CHUNKS, BatchSpool, Ranges
from crossline.lake.writing.source_reader import SourceReader
from crossline.lake.writing.writer import pending_batches
from crossline.logs import get_logger

if TYPE_CHECKING:
    from crossline.io.kafka.retention import Retention

OLD_MS = 600_000  # of the oldest batch: before that the writer is not behind
CHECK_S = 600.0

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class PendingLog:
    """The first record of a topic-partition that the lake does not have.

    Attributes:
        stream: The stream.
        log: The topic-partition.
        offset: The record's offset.
        older: How many older records the partition has.
        record_ms: The record's timestamp in the topic; None: the topic has deleted it.
        retention: When the topic deletes records.
    """

    stream: str
    log: str
    offset: int
    older: int
    record_ms: int | None
    retention: Retention

    @property
    def until_ms(self) -> int | None:
        """When the topic may delete the record because of its age; None: never, or it has."""
        return None if self.record_ms is None or self.retention.ms is None else self.record_ms + self.retention.ms

    def urgent(self, now_ms: int) -> bool:
        """Whether half of the retention has passed, or the record is the next that a limit of bytes deletes."""
        if self.record_ms is None:
            return True
        by_age = self.retention.ms is not None and 2 * (now_ms - self.record_ms) >= self.retention.ms
        return by_age or (self.retention.bytes is not None and not self.older)


@dataclass(frozen=True, slots=True)
class Backlog:
    """The committed batches that the lake does not have: how many, when the oldest was delivered, its logs."""

    batches: int
    delivered_ms: int
    logs: tuple[PendingLog, ...]


def backlog(spool: BatchSpool, reader: SourceReader, older_than_ms: int | None = None) -> Backlog | None:
    """What the lake writer has to write; None: nothing.

    Records are read in their order, so those of the oldest batch are the first that the topics delete.

    Args:
        spool: What batches gave.
        reader: Reads their records.
        older_than_ms: Nothing is pending where the oldest batch was delivered after this instant; None: always.

    Raises:
        SourceError: The brokers do not answer.
    """
    numbers = pending_batches(spool, reader.folder)
    if not numbers:
        return None
    try:
        oldest = spool.get(numbers[0])
    except FileNotFoundError:  # another writer has written it
        return None
    if older_than_ms is not None and oldest.delivered_ms > older_than_ms:
        return None
    return Backlog(len(numbers), oldest.delivered_ms, tuple(_logs(reader, oldest.ranges)))


def _logs(reader: SourceReader, ranges: Ranges) -> Iterator[PendingLog]:
    known: dict[tuple[str, str], Retention] = {}
    for stream, logs in ranges.items():
        for name, (start, end) in logs.items():
            if name == CHUNKS or start >= end:
                continue
            topic = name.rpartition("-")[0]
            if (stream, topic) not in known:
                known[stream, topic] = reader.retention(stream, topic)
            first, record_ms = reader.stored_at(stream, name, start)
            yield PendingLog(stream, name, start, max(0, start - first), record_ms, known[stream, topic])


@dataclass(slots=True)
class BacklogAlarm:
    """Logs a warning before a topic deletes records that the lake does not have.

    Attributes:
        spool: What batches gave.
        reader: Reads their records.
        now_ms: The clock, in epoch milliseconds.
        now_s: A clock for the time between two checks, in seconds.
    """

    spool: BatchSpool
    reader: SourceReader
    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    now_s: Callable[[], float] = time.monotonic
    _checked_s: float = -CHECK_S

    def check(self) -> None:
        """Check, if the last check is ``CHECK_S`` ago and the oldest batch was delivered ``OLD_MS`` ago.

        Whatever keeps it from an answer is logged: the writer goes on.
        """
        if self.now_s() < self._checked_s + CHECK_S:
            return
        try:
            found = backlog(self.spool, self.reader, older_than_ms=self.now_ms() - OLD_MS)
        except Exception as error:  # noqa: BLE001 - whatever it is, the writer goes on
            self._checked_s = self.now_s()
            log.warning(_UNKNOWN, error=str(error).partition("\n")[0])
            return
        if found is not None:
            self._checked_s = self.now_s()
            for each in found.logs:
                self._warn(each, found)

    def _warn(self, pending: PendingLog, found: Backlog) -> None:
        if not pending.urgent(self.now_ms()):
            return
        until = None if pending.until_ms is None else format_instant(pending.until_ms)
        place = {"stream": pending.stream, "log": pending.log, "offset": pending.offset}
        said = _GONE if pending.record_ms is None else _SOON
        log.warning(said, **place, until=until, kept_bytes=pending.retention.bytes, batches=found.batches)


_SOON = "the lake is behind, and the topic deletes records soon; start the lake writer or raise the topic's retention"
_GONE = "the lake is behind, and the topic has deleted records that the lake does not have"
_UNKNOWN = "the lake is behind, and the brokers do not say until when the topic keeps its records"
