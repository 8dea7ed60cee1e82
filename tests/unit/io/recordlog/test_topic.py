"""A producer with a fatal error is replaced; its records fail, and a retry succeeds."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from crossline.basics.errors import RetryableError, UsageError
from crossline.basics.streams.api_record import LogPosition, SubmittedRecord
from crossline.io.recordlog import topic as of_topics
from crossline.io.recordlog.topic import KafkaRecordLog
from crossline.settings.kafka import KafkaSourceSettings

SETTINGS = KafkaSourceSettings.model_validate({"kind": "kafka", "brokers": "localhost:1", "topic": "payments"})


class Message:
    def __init__(self, offset: int) -> None:
        self._offset = offset

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return self._offset


class FakeProducer:
    """Delivers at the next poll; ``error``: that instead. ``raises``: at once. ``silent``: nothing, until purged."""

    made: list[FakeProducer]
    error: KafkaError | None = None
    raises: KafkaError | None = None
    silent = False

    def __init__(self) -> None:
        self._waiting: list[Callable[..., None]] = []
        self._lock = threading.Lock()
        self.purged = False

    def produce(self, *_: Any, on_delivery: Callable[..., None], **__: Any) -> None:
        if self.raises is not None:
            raise KafkaException(self.raises)
        with self._lock:
            self._waiting.append(on_delivery)

    def poll(self, _: float) -> None:
        with self._lock:
            mine, self._waiting = ([], self._waiting) if self.silent and not self.purged else (self._waiting, [])
        for number, on_delivery in enumerate(mine):
            error = KafkaError(KafkaError._PURGE_INFLIGHT) if self.purged else self.error
            on_delivery(error, Message(number))

    def flush(self, timeout_s: float) -> None:
        self.poll(timeout_s)

    def purge(self) -> None:
        self.purged = True


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[FakeProducer]:
    found: list[FakeProducer] = []

    def client_of(*_: Any) -> FakeProducer:
        found.append(FakeProducer())
        return found[-1]

    monkeypatch.setattr(of_topics, "client_of", client_of)
    return found


def record(number: int) -> SubmittedRecord:
    return SubmittedRecord(number, "payments", f"t{number}", b'{"account": "a"}', "", 5)


FATAL = KafkaError(KafkaError._FATAL, "the sequence of a partition was lost", fatal=True)


@pytest.mark.parametrize("how", ["delivery", "at once"])
def test_another_producer_takes_over(made: list[FakeProducer], how: str) -> None:
    async def play() -> None:
        log = KafkaRecordLog(SETTINGS, "payments", "account")
        try:
            assert await log.append([record(1)]) == [LogPosition("payments-0", 0)]
            (first,) = made
            first.error, first.raises = (FATAL, None) if how == "delivery" else (None, FATAL)
            with pytest.raises(RetryableError, match="the sequence of a partition was lost"):
                await log.append([record(2)])
            assert len(made) == 2
            assert await log.append([record(2)]) == [LogPosition("payments-0", 0)]
            assert await log.append([record(1)]) == [LogPosition("payments-0", 0)], "known since before"
            assert len(made) == 2
        finally:
            await log.close()

    asyncio.run(asyncio.wait_for(play(), 30))


def test_what_the_first_still_held_fails_and_may_come_again(made: list[FakeProducer]) -> None:
    async def play() -> None:
        log = KafkaRecordLog(SETTINGS, "payments", "account")
        try:
            made[0].silent = True
            held = asyncio.create_task(log.append([record(1)]))
            await asyncio.sleep(0)
            made[0].raises = FATAL
            with pytest.raises(RetryableError):
                await log.append([record(2)])
            with pytest.raises(RetryableError):
                await held
            assert made[0].purged
            assert len(await log.append([record(1), record(2)])) == 2
        finally:
            await log.close()

    asyncio.run(asyncio.wait_for(play(), 30))


def test_an_error_that_passes_replaces_nothing(made: list[FakeProducer]) -> None:
    async def play() -> None:
        log = KafkaRecordLog(SETTINGS, "payments", "account")
        try:
            made[0].error = KafkaError(KafkaError._MSG_TIMED_OUT)
            with pytest.raises(RetryableError):
                await log.append([record(1)])
            made[0].error = None
            assert await log.append([record(1)]) == [LogPosition("payments-0", 0)]
            assert len(made) == 1
        finally:
            await log.close()

    asyncio.run(asyncio.wait_for(play(), 30))


def test_a_record_is_put_there_while_another_one_waits(made: list[FakeProducer]) -> None:
    async def play() -> None:
        log = KafkaRecordLog(SETTINGS, "payments", "account")
        try:
            made[0].silent = True
            puts = [log.put(record(number)) for number in (1, 2)]
            again = log.put(record(1))
            assert len(made[0]._waiting) == 2, "both are with the client, and the copy is not"
            puts[0].cancel()  # its caller has gone
            made[0].silent = False
            assert await puts[1] == LogPosition("payments-0", 1)
            assert await again == LogPosition("payments-0", 0)
            made[0].error = KafkaError(KafkaError._MSG_TIMED_OUT)
            with pytest.raises(RetryableError):
                await log.put(record(3))
        finally:
            await log.close()
        with pytest.raises(UsageError, match="closed"):
            await log.put(record(4))

    asyncio.run(asyncio.wait_for(play(), 30))


def test_what_is_known_by_its_id_is_not_put_there_whatever_it_says(made: list[FakeProducer]) -> None:
    """The first message of an id is the pipeline's record: every request for the id gets its position."""

    async def play() -> None:
        log = KafkaRecordLog(SETTINGS, "payments", "account")
        first = LogPosition("payments-3", 7)
        try:
            log.know("t1", first)
            log.know("t1", LogPosition("payments-0", 9))  # a copy of it, which the pipeline does not take
            other = SubmittedRecord(1, "payments", "t1", b'{"account": "b", "more": 1}', "", 5)
            assert await log.append([record(1), other, record(2)]) == [first, first, LogPosition("payments-0", 0)]
            assert await log.put(SubmittedRecord(4, "payments", "t1", b"no JSON", "", 5)) == first
            assert len(made) == 1
        finally:
            await log.close()

    asyncio.run(asyncio.wait_for(play(), 30))


@pytest.mark.parametrize("fails", [False, True])
def test_what_is_known_while_it_is_put_is_reported_where_that_fails(made: list[FakeProducer], *, fails: bool) -> None:
    async def play() -> None:
        log = KafkaRecordLog(SETTINGS, "payments", "account")
        before = LogPosition("payments-3", 7)
        try:
            made[0].silent = True
            held = asyncio.create_task(log.append([record(1)]))
            await asyncio.sleep(0)
            log.know("t1", before)
            made[0].error = KafkaError(KafkaError._MSG_TIMED_OUT) if fails else None
            made[0].silent = False
            if fails:
                with pytest.raises(RetryableError):
                    await held
            else:
                assert await held == [LogPosition("payments-0", 0)]
            made[0].error = None
            assert await log.append([record(1)]) == [before if fails else LogPosition("payments-0", 0)]
        finally:
            await log.close()

    asyncio.run(asyncio.wait_for(play(), 30))


def test_the_last_ones_are_known(made: list[FakeProducer], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(of_topics, "KNOWN_MAX", 2)

    async def play() -> None:
        log = KafkaRecordLog(SETTINGS, "payments", "account")
        places = [LogPosition("payments-3", number) for number in range(4)]
        try:
            for number, place in enumerate(places):
                log.know(f"t{number}", place)
            assert await log.append([record(2), record(3)]) == places[2:]
            assert await log.append([record(1)]) == [LogPosition("payments-0", 0)], "it is forgotten"
            assert len(made) == 1
        finally:
            await log.close()

    asyncio.run(asyncio.wait_for(play(), 30))
