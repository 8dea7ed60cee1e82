"""Sending: every record once and in order, open loop by a clock that the tests hold, to files and to a mock broker."""

from __future__ import annotations

import io
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from crossline.basics.errors import SinkError, UsageError
from crossline.generate.kafka import SENT_HEADER, KafkaTarget
from crossline.generate.send import Clock, DirectoryTarget, RecordBatch, StreamTarget, send
from crossline.generate.tx import TxWorkload

WORKLOAD = TxWorkload(seed=4)


class Hand:
    """A clock that moves with each sleep, or when the test sets it."""

    def __init__(self) -> None:
        self.now_s = 1_000.0
        self.clock = Clock(lambda: self.now_s, self.sleep)

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


class Notes:
    """Notes each call; may take its time."""

    needs_keys = True

    def __init__(self, hand: Hand, slow_s: float = 0.0) -> None:
        self.hand, self.slow_s = hand, slow_s
        self.records: list[tuple[int, bytes, bytes, float, float]] = []
        self.closed = False

    def send(self, batch: RecordBatch, low: int, high: int, due_us: float, step_us: float) -> int:
        for index in range(low, high):
            due_s = (due_us + (index - low) * step_us) / 1e6
            self.records.append((batch.first + index, batch.keys[index], batch.lines[index], due_s, self.hand.now_s))
        self.hand.now_s += self.slow_s
        return len(batch.cut(low, high))

    def close(self) -> None:
        self.closed = True


def test_as_fast_as_it_goes_every_record_comes_once_in_order() -> None:
    stream = io.BytesIO()
    sent = send(WORKLOAD, StreamTarget(stream), range(100, 70_100))
    assert stream.getvalue() == WORKLOAD.lines(100, 70_000)
    assert (sent.records, sent.data_bytes) == (70_000, len(stream.getvalue()))


def test_an_open_loop_sends_each_record_when_it_is_due() -> None:
    hand = Hand()
    notes = Notes(hand)
    progress: list[int] = []
    sent = send(WORKLOAD, notes, range(10, 510), rate_per_s=100, clock=hand.clock, progress=progress.append)
    assert [number for number, *_ in notes.records] == list(range(10, 510))
    assert b"".join(line for _, _, line, _, _ in notes.records) == WORKLOAD.lines(10, 500)
    for place, (_, _, _, due_s, sent_s) in enumerate(notes.records):
        assert due_s == pytest.approx(1_000 + place / 100, abs=1e-4)
        assert 0 <= sent_s - due_s <= 0.011
    assert sent.seconds == pytest.approx(4.99, abs=0.02)
    assert notes.closed
    assert sum(progress) == 500


def test_a_slow_target_does_not_move_the_times_at_which_records_are_due() -> None:
    hand = Hand()
    notes = Notes(hand, slow_s=0.5)
    sent = send(WORKLOAD, notes, range(300), rate_per_s=100, clock=hand.clock)
    for place, (_, _, _, due_s, _) in enumerate(notes.records):
        assert due_s == pytest.approx(1_000 + place / 100, abs=1e-4)
    assert sent.behind_ms_max == pytest.approx(500, abs=20)
    assert sent.seconds == pytest.approx(3.5, abs=0.1)


def test_keys_are_the_accounts_of_the_records() -> None:
    hand = Hand()
    notes = Notes(hand)
    send(WORKLOAD, notes, range(50), clock=hand.clock)
    accounts = WORKLOAD.records(0, 50)["account_id"].to_pylist()
    assert [key.decode() for _, key, *_ in notes.records] == accounts


@pytest.mark.parametrize("rate_per_s", [None, 10_000_000])
def test_a_directory_of_files_is_one_log(tmp_path: Path, rate_per_s: int | None) -> None:
    numbers = range(5, 40_005)
    send(WORKLOAD, DirectoryTarget(tmp_path / "in", 3, numbers), numbers, rate_per_s=rate_per_s)
    files = sorted((tmp_path / "in").iterdir())
    assert [file.name for file in files] == ["part-00000.jsonl", "part-00001.jsonl", "part-00002.jsonl"]
    assert b"".join(file.read_bytes() for file in files) == WORKLOAD.lines(5, 40_000)
    assert [file.read_bytes().count(b"\n") for file in files] == [13_333, 13_333, 13_334]
    with pytest.raises(UsageError, match="already has part-"):
        DirectoryTarget(tmp_path / "in", 3, numbers)


def test_no_records_are_nothing() -> None:
    stream = io.BytesIO()
    assert send(WORKLOAD, StreamTarget(stream), range(5, 5), rate_per_s=10).records == 0
    assert stream.getvalue() == b""


def test_kafka_gets_lines_keys_and_the_time_that_each_was_due() -> None:
    # librdkafka starts a broker of its own in this process; a client of the same process finds it by its address.
    target = KafkaTarget("mock", "payments", {"test.mock.num.brokers": 1})
    metadata = target._producer.list_topics(timeout=120)
    broker = next(iter(metadata.brokers.values()))
    before_us = time.time() * 1e6
    send(WORKLOAD, target, range(40), rate_per_s=1_000)
    consumer = Consumer(
        {"bootstrap.servers": f"{broker.host}:{broker.port}", "group.id": "test", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["payments"])
    messages = consumer.consume(40, timeout=120)
    consumer.close()
    assert sorted(message.value() for message in messages) == sorted(WORKLOAD.lines(0, 40).splitlines())
    assert {message.key().decode() for message in messages} == set(WORKLOAD.records(0, 40)["account_id"].to_pylist())
    times_us = sorted(int(dict(message.headers())[SENT_HEADER]) for message in messages)
    assert before_us <= times_us[0]
    assert [late - times_us[0] for late in times_us] == pytest.approx([place * 1_000 for place in range(40)], abs=2)


def test_kafka_that_does_not_answer_is_an_error_with_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crossline.generate.kafka.ANSWER_S_MAX", 0.5)
    with pytest.raises(SinkError, match=r"no answer from Kafka at 127\.0\.0\.1:1"):
        KafkaTarget("127.0.0.1:1", "payments", {"log_level": 0})
