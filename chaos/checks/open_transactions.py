"""Finds transactions that a broker keeps open although they are decided, and completes them as they were decided.

A single broker of Kafka 4.3 that is killed within milliseconds after a commit may never write the end of the
transaction into its partitions. After the restart it knows no leader of them yet, and takes the ends for written
("Couldn't find leader endpoint … skipped" in its log). Consumers then stop at that place. This module does what
`kafka-transactions.sh` does about it, with the same requests, since the clients of Python do not have them: it writes
there what the coordinator has decided.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from confluent_kafka.admin import AdminClient

OFFSETS = "__consumer_offsets"
LIST_TRANSACTIONS, DESCRIBE_PRODUCERS, WRITE_TXN_MARKERS = 66, 61, 27
OVER = {"CompleteCommit": True, "CompleteAbort": False}
ANSWER_S_MAX = 30.0
SURE_S = 3.0  # an end that is only late is there by then


@dataclass(frozen=True, slots=True)
class Hanging:
    """A transaction that is open in a partition since ``start``, whose end the coordinator has long decided."""

    topic: str
    partition: int
    start: int
    producer: int
    epoch: int
    coordinator_epoch: int
    name: str
    committed: bool

    @property
    def shown(self) -> str:
        """For the report."""
        how = "committed" if self.committed else "aborted"
        return f"{self.topic}-{self.partition} held open at {self.start} by {self.name}, which was {how}"


def mended(brokers: str, topics: Sequence[str]) -> list[str]:
    """End what hangs in partitions of ``topics``, and of consumers' offsets; what was ended."""
    first = {(each.topic, each.partition, each.start): each for each in hanging(brokers, topics)}
    if not first:
        return []
    time.sleep(SURE_S)
    found = [each for each in hanging(brokers, topics) if (each.topic, each.partition, each.start) in first]
    for each in found:
        with Talk(brokers) as talk:
            talk.end(each)
    return [each.shown for each in found]


def hanging(brokers: str, topics: Sequence[str]) -> list[Hanging]:
    """What is open in a partition and over for its coordinator."""
    known = AdminClient({"bootstrap.servers": brokers, "log_level": 0}).list_topics(timeout=ANSWER_S_MAX).topics
    wanted = {name: sorted(known[name].partitions) for name in (*topics, OFFSETS) if name in known}
    with Talk(brokers) as talk:
        opened = talk.open_transactions(wanted)
        states = talk.transactions()  # asked later: what began since is another one
    found = []
    for topic, partition, start, producer, epoch, coordinator_epoch in opened:
        name, state = states.get(producer, ("", ""))
        if state in OVER:
            found.append(
                Hanging(topic, partition, start, producer, epoch, coordinator_epoch, name, committed=OVER[state])
            )
    return found


class Talk:
    """A connection to the broker, without authentication."""

    def __init__(self, brokers: str) -> None:
        host, _, port = brokers.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), ANSWER_S_MAX)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def transactions(self) -> dict[int, tuple[str, str]]:
        """By producer the transactional id and its state."""
        answer = self._ask(LIST_TRANSACTIONS, 0, _array([]) + _array([]) + b"\0")
        answer.skip(4)
        answer.failed(answer.i16())
        for _ in range(answer.count()):
            answer.text()
        found = {}
        for _ in range(answer.count()):
            name, producer, state = answer.text(), answer.i64(), answer.text()
            answer.tags()
            found[producer] = (name, state)
        return found

    def open_transactions(self, topics: dict[str, list[int]]) -> list[tuple[str, int, int, int, int, int]]:
        """(topic, partition, start, producer, its epoch, that of its coordinator) of each that is open."""
        asked = [
            _text(name) + _array([struct.pack(">i", each) for each in known]) + b"\0" for name, known in topics.items()
        ]
        answer = self._ask(DESCRIBE_PRODUCERS, 0, _array(asked) + b"\0")
        answer.skip(4)
        found = []
        for _ in range(answer.count()):
            topic = answer.text()
            for _ in range(answer.count()):
                partition = answer.i32()
                answer.failed(answer.i16())
                answer.text()
                for _ in range(answer.count()):
                    producer, epoch = answer.i64(), answer.i32()
                    answer.skip(4 + 8)
                    coordinator_epoch, start = answer.i32(), answer.i64()
                    answer.tags()
                    if start >= 0:
                        found.append((topic, partition, start, producer, epoch, coordinator_epoch))
                answer.tags()
            answer.tags()
        return found

    def end(self, one: Hanging) -> None:
        """Write the end of a transaction into its partition."""
        places = _array([_text(one.topic) + _array([struct.pack(">i", one.partition)]) + b"\0"])
        marker = struct.pack(">qh?", one.producer, one.epoch, one.committed) + places
        marker += struct.pack(">i", max(0, one.coordinator_epoch)) + b"\0"
        answer = self._ask(WRITE_TXN_MARKERS, 1, _array([marker]) + b"\0")
        for _ in range(answer.count()):
            answer.skip(8)
            for _ in range(answer.count()):
                answer.text()
                for _ in range(answer.count()):
                    answer.skip(4)
                    answer.failed(answer.i16())
                    answer.tags()
                answer.tags()
            answer.tags()

    def _ask(self, key: int, version: int, body: bytes) -> Answer:
        request = struct.pack(">hhih", key, version, 1, -1) + b"\0" + body
        self._socket.sendall(struct.pack(">i", len(request)) + request)
        (size,) = struct.unpack(">i", self._read(4))
        answer = Answer(self._read(size))
        answer.skip(4)
        answer.tags()
        return answer

    def _read(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            more = self._socket.recv(count - len(data))
            if not more:
                raise ConnectionError("the broker hung up")
            data += more
        return data


class Answer:
    """The bytes of an answer, taken from the front."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def skip(self, count: int) -> None:
        """Pass over bytes."""
        self._at += count

    def i16(self) -> int:
        """A number of 2 bytes."""
        return self._number(">h", 2)

    def i32(self) -> int:
        """A number of 4 bytes."""
        return self._number(">i", 4)

    def i64(self) -> int:
        """A number of 8 bytes."""
        return self._number(">q", 8)

    def count(self) -> int:
        """How many entries a list has."""
        return max(0, self._varint() - 1)

    def text(self) -> str:
        """A text; none is empty."""
        size = self.count()
        self._at += size
        return self._data[self._at - size : self._at].decode()

    def tags(self) -> None:
        """Pass over fields that are not known here."""
        for _ in range(self._varint()):
            self._varint()
            self.skip(self._varint())

    @staticmethod
    def failed(code: int) -> None:
        """Raises RuntimeError for a code that says so."""
        if code:
            raise RuntimeError(f"the broker answers with the error code {code}")

    def _number(self, form: str, size: int) -> int:
        (found,) = struct.unpack_from(form, self._data, self._at)
        self._at += size
        return int(found)

    def _varint(self) -> int:
        found = shift = 0
        while True:
            byte = self._data[self._at]
            self._at += 1
            found |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return found


def _varint_of(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def _text(text: str) -> bytes:
    return _varint_of(len(text.encode()) + 1) + text.encode()


def _array(entries: Sequence[bytes]) -> bytes:
    return _varint_of(len(entries) + 1) + b"".join(entries)
