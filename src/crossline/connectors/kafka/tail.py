"""Topics read on and on: the records between two offsets, where each range begins where the one before ended."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

Place = tuple[str, int]  # topic, partition
Range = tuple[int, int]  # the first offset, and the one behind the last

AT_ONCE = 2_000  # records that are taken from the client in one go
_ASK = {
    "enable.partition.eof": "true",
    "enable.auto.commit": "false",
    "auto.offset.reset": "error",  # records that are gone are nobody's to pass over
    "queued.max.messages.kbytes": "8192",  # of a partition: what is read ahead of a batch that was not planned yet
    "isolation.level": "read_uncommitted",  # as Spark's source reads
    "log_level": "0",
}


class KafkaTail:
    """Reads ahead of what it is asked for: a range that goes on where the last one ended is there already, mostly."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._settings = {**_ASK, **settings, "group.id": "crossline-tail"}
        self._consumer: Consumer | None = None
        self._held: dict[Place, deque[Message]] = {}
        self._done: dict[Place, int] = {}
        self._read_to: dict[Place, int] = {}

    def read(self, ranges: Mapping[Place, Range], until_s: float) -> dict[Place, list[Message]] | None:
        """The records of each range, by their offsets; None where they are not all there by ``until_s``.

        None too where the broker no longer has the first of them, or says anything else: whoever asks has another way
        to read, and that tells what is wrong.
        """
        try:
            self._go_to(ranges)
            if self._fill(ranges, until_s):
                return {place: self._taken(place, end) for place, (_, end) in ranges.items()}
        except KafkaException:
            pass
        self.rest()
        return None

    def rest(self) -> None:
        """Read no further; the next range is asked for anew."""
        self._held, self._done, self._read_to = {}, {}, {}
        if self._consumer is not None:
            with suppress(KafkaException):
                self._consumer.unassign()

    def close(self) -> None:
        """Leave the brokers."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def _go_to(self, ranges: Mapping[Place, Range]) -> None:
        if self._consumer is None:
            self._consumer = Consumer(self._settings)
        if {place: start for place, (start, _) in ranges.items()} == self._done:
            return
        self._done = {place: start for place, (start, _) in ranges.items()}
        self._read_to = dict(self._done)
        self._held = {place: deque() for place in ranges}
        self._consumer.assign([TopicPartition(*place, start) for place, start in self._done.items()])

    def _fill(self, ranges: Mapping[Place, Range], until_s: float) -> bool:
        """Whether each range was read to its end: offsets may be missing, so the end is told by what lies behind it."""
        consumer = self._consumer
        while consumer is not None and any(self._read_to[place] < end for place, (_, end) in ranges.items()):
            left_s = until_s - time.monotonic()
            if left_s <= 0:
                return False
            # The first is waited for, the rest is what is there: asked for many, the client waits for all of them.
            first = consumer.poll(left_s)
            for message in (first, *consumer.consume(AT_ONCE, 0)) if first is not None else ():
                place, offset = (str(message.topic()), int(message.partition() or 0)), int(message.offset() or 0)
                error = message.error()
                if error is None:
                    self._held[place].append(message)
                    self._read_to[place] = offset + 1
                elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - the client's public name
                    self._read_to[place] = max(self._read_to[place], offset)
                else:
                    return False
        return True

    def _taken(self, place: Place, end: int) -> list[Message]:
        held, taken = self._held[place], []
        while held and int(held[0].offset() or 0) < end:
            taken.append(held.popleft())
        self._done[place] = end
        return taken
