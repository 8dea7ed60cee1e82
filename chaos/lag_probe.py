"""Lag and latency during faults: records acknowledged and not committed, and the time at which alerts could be read."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

import orjson
from confluent_kafka import Consumer, KafkaException, TopicPartition

from chaos.load.log import record_of
from chaos.load.producer import Load
from chaos.pipeline import ALERTS, PARTITIONS, TOPIC

SAMPLE_S = 0.25
ENDS_S_MAX = 2.0
RENEW_S_MAX = 30.0
QUIET = {"log_level": 0, "reconnect.backoff.max.ms": 500, "group.id": "chaos", "enable.auto.commit": False}


@dataclass(slots=True)
class Watching:
    """``lags``: (seconds, records); ``latencies``: (seconds, milliseconds) of each alert as a consumer read it.

    ``others``: the load is not all that comes to the topic. How much there is, the broker is asked then.
    """

    brokers: str
    load: Load
    done: Callable[[], int]
    others: bool = False
    began_s: float = field(default_factory=time.time)
    lags: list[tuple[float, int]] = field(default_factory=list)
    latencies: list[tuple[float, float]] = field(default_factory=list)
    _ending: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)
    committed: int = 0
    _end: int = 0
    _asked: int = 0

    def start(self) -> None:
        """Begin, in threads of its own."""
        for what in (self._sample, self._read, *([self._ask_ends] if self.others else [])):
            self._threads.append(threading.Thread(target=what, name="watching", daemon=True))
            self._threads[-1].start()

    def stop(self) -> None:
        """Stop the threads."""
        self._ending.set()
        for each in self._threads:
            each.join()

    def lag(self) -> int:
        """Records acknowledged to the sender and not committed; all of them before the first batch."""
        self.committed = max(self.committed, self.done())
        return self.acknowledged() - self.committed

    def acknowledged(self) -> int:
        """Records at the broker, of all producers, as of a moment ago."""
        return max(self._end, self.load.acknowledged)

    def renew(self) -> None:
        """Wait, up to a limit, until the current end of the topic is known."""
        asked, ends_s = self._asked, time.monotonic() + RENEW_S_MAX
        while self.others and self._asked < asked + 2 and time.monotonic() < ends_s:
            time.sleep(SAMPLE_S / 5)

    def now_s(self) -> float:
        """Seconds since the drill began."""
        return time.time() - self.began_s

    def _sample(self) -> None:
        while not self._ending.wait(SAMPLE_S):
            self.lags.append((self.now_s(), max(0, self.lag())))

    def _ask_ends(self) -> None:
        """Read the ends of the topic from the broker: only the load reports what it sent."""
        consumer = Consumer({**QUIET, "bootstrap.servers": self.brokers})
        try:
            while not self._ending.wait(SAMPLE_S):
                with suppress(KafkaException):
                    places = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
                    self._end = sum(consumer.get_watermark_offsets(each, timeout=ENDS_S_MAX)[1] for each in places)
                    self._asked += 1
        finally:
            consumer.close()

    def _read(self) -> None:
        consumer = Consumer({**QUIET, "bootstrap.servers": self.brokers})
        consumer.assign([TopicPartition(ALERTS, number, 0) for number in range(PARTITIONS)])
        try:
            while not self._ending.is_set():
                message = consumer.poll(0.1)
                if message is None or message.error():
                    continue
                read_s = time.time()
                alert = orjson.loads(message.value())
                if alert["kind"] == "alert":
                    with suppress(IndexError):
                        sent = self.load.log[record_of(alert["record_id"])]
                        self.latencies.append((read_s - self.began_s, (read_s - sent.due_s) * 1e3))
        finally:
            consumer.close()
