"""The sink that spools each batch for the lake writer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Self

from crossline.basics.errors import SinkError, StateError, UsageError
from crossline.io.objects.file_stores import StoreUnavailableError
from crossline.io.outbox.batch_spool import CHUNKS, BatchSpool, Ranges, SpooledBatch
from crossline.io.outbox.sink import Backlog
from crossline.io.sinks.base import Delivery, wall_clock_ms
from crossline.runtime.snapshot.spark_log import first_offsets, offsets_of
from crossline.runtime.work.totals import STORED


class BatchRanges:
    """Where the records of a batch are, by stream and log, from Spark's own log of offsets.

    Args:
        checkpoint: The folder of the checkpoint.
        streams: The streams, in the order of Spark's offsets.
    """

    def __init__(self, checkpoint: str, streams: Sequence[str]) -> None:
        self._checkpoint = checkpoint
        self._streams = streams

    def __call__(self, batch: int) -> Ranges:
        """The ranges of ``batch``; a stream that gave nothing has none."""
        before = offsets_of(self._checkpoint, batch - 1) if batch else [None] * len(self._streams)
        after = offsets_of(self._checkpoint, batch)
        found: dict[str, dict[str, tuple[int, int]]] = {}
        for number, (stream, begin, end) in enumerate(zip(self._streams, before, after, strict=True)):
            starts = dict(_logs(first_offsets(self._checkpoint, number) if begin is None else begin))
            ranges = {log: (starts.get(log, 0), stop) for log, stop in _logs(end) if stop > starts.get(log, 0)}
            if ranges:
                found[stream] = ranges
        return found


def _logs(offsets: Mapping[str, Any] | None) -> Iterator[tuple[str, int]]:
    if offsets is None:
        return
    if "chunk" in offsets:
        yield CHUNKS, int(offsets["chunk"])
        return
    for topic, partitions in offsets.items():
        for number, offset in partitions.items():
            yield f"{topic}-{number}", int(offset)


class LakeSpoolSink:
    """Writes a file for each batch into a spool, which the lake writer reads.

    Guarantee: the file is on disk before Spark commits the batch. A batch that is run again replaces it.
    """

    def __init__(
        self,
        spool: BatchSpool,
        ranges: Callable[[int], Ranges],
        clock_ms: Callable[[], int] = wall_clock_ms,
    ) -> None:
        self._spool = spool
        self._ranges = ranges
        self._clock_ms = clock_ms
        self._oldest = (-1, 0)  # number, and when it was delivered
        self._backlog = Backlog(0, None)

    @classmethod
    def from_settings(cls, settings: Any, pipeline: str) -> Self:  # noqa: ARG003 - the protocol's
        """Not for pipeline files: ``lake:`` adds it."""
        raise UsageError("the lake is no sink of its own; write `lake:` in the pipeline file")

    def open(self) -> None:
        """Nothing is opened before the first batch."""

    def deliver(self, delivery: Delivery) -> None:
        """Write the file of the batch. Raises SinkError where the disk or store fails."""
        try:
            # The lake has the records that came from it.
            ranges = {} if STORED in delivery.figures else self._ranges(delivery.batch_id)
            self._spool.put(SpooledBatch(delivery, ranges, self._clock_ms()))
        except (OSError, StoreUnavailableError) as error:
            reason = getattr(error, "strerror", None) or error
            raise SinkError(f"batch {delivery.batch_id} cannot be kept for the lake: {reason}; make room") from error

    def look(self) -> None:
        """Count the batches that the lake does not have. If the disk or store does not answer, the last count stays."""
        with suppress(OSError, StoreUnavailableError, StateError):
            numbers = self._spool.numbers()
            oldest = numbers[0] if numbers else None
            if oldest is not None and oldest != self._oldest[0]:
                self._oldest = oldest, self._spool.get(oldest).delivered_ms
            self._backlog = Backlog(len(numbers), None if oldest is None else self._oldest[1])

    def backlog(self) -> Backlog:
        """The batches that the lake did not have at the last look."""
        return self._backlog

    def close(self) -> None:
        """Nothing is held."""
