"""The spool of the lake writer: what each batch gave, and where its records are, one file a batch.

The pipeline writes a file before Spark commits the batch, so a committed batch has one. A batch that is run again
writes its file again, with the same meaning. The writer deletes files whose content is in the lake.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from crossline.basics.errors import StateError
from crossline.io.objects.file_stores import FileStore
from crossline.io.outbox.encoding import decode_delivery, encode_delivery
from crossline.io.sinks.base import Delivery

SCHEMA_VERSION = 1
SUFFIX = ".batch"
CHUNKS = "chunks"  # the log of a source that is a list of chunks: its ranges are numbers of chunks

# By stream and log: the first position, and the one behind the last. A log is a topic-partition, or ``CHUNKS``.
Ranges = Mapping[str, Mapping[str, tuple[int, int]]]


@dataclass(frozen=True, slots=True)
class SpooledBatch:
    """One batch.

    Attributes:
        delivery: What it gave.
        ranges: Where its records are, by stream and log.
        delivered_ms: When it was delivered, in epoch milliseconds.
    """

    delivery: Delivery
    ranges: Ranges
    delivered_ms: int

    @property
    def number(self) -> int:
        """The batch's number in its checkpoint."""
        return self.delivery.batch_id


@dataclass(frozen=True, slots=True)
class BatchSpool:
    """The files in ``store``. One process writes them, another one reads and deletes them."""

    store: FileStore

    def put(self, batch: SpooledBatch) -> None:
        """Write the file of a batch. Raises OSError or StoreUnavailableError."""
        head = {"schema_version": SCHEMA_VERSION, "ranges": batch.ranges, "delivered_ms": batch.delivered_ms}
        self.store.put(_name(batch.number), orjson.dumps(head) + b"\n" + encode_delivery(batch.delivery))

    def numbers(self) -> list[int]:
        """The numbers of the batches that have a file, in order; files that come meanwhile are left for the next call.

        A list of a folder may lack a file that came while it was made, and have one that came after that. So it is made
        twice: all up to the last of the first list were there before the second one was begun.
        """
        last = max(self._listed(), default=-1)
        return sorted(number for number in self._listed() if number <= last)

    def _listed(self) -> list[int]:
        return [int(name.removesuffix(SUFFIX)) for name in self.store.names() if name.endswith(SUFFIX)]

    def get(self, number: int) -> SpooledBatch:
        """The batch. Raises FileNotFoundError where it has no file, StateError where that is damaged."""
        head, _, body = self.store.get(_name(number)).partition(b"\n")
        where = f"the spool of the lake, {_name(number)}"
        return SpooledBatch(decode_delivery(body, where), *_head(head, where))

    def delete(self, number: int) -> None:
        """Delete the file of a batch, if it is there."""
        self.store.delete(_name(number))


def _name(number: int) -> str:
    return f"{number:012d}{SUFFIX}"


def _head(raw: bytes, where: str) -> tuple[Ranges, int]:
    try:
        head: Any = orjson.loads(raw)
        if head["schema_version"] != SCHEMA_VERSION:
            raise StateError(f"{where}: written by another version of crossline; run that one until the lake has it")
        ranges = {
            stream: {log: (int(start), int(end)) for log, (start, end) in logs.items()}
            for stream, logs in head["ranges"].items()
        }
        return ranges, int(head["delivered_ms"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StateError(f"{where}: damaged ({error}); restore the file, or delete it and lose the batch") from None
