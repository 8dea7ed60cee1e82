"""Lag and latency while faults come: what was acknowledged and is not committed, and when alerts could be read."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

import orjson
from confluent_kafka import Consumer, TopicPartition

from chaos.load.log import record_of
from chaos.load.producer import Load
from chaos.pipeline import ALERTS, PARTITIONS

SAMPLE_S = 0.25
QUIET = {"log_level": 0, "reconnect.backoff.max.ms": 500, "group.id": "chaos", "enable.auto.commit": False}


@dataclass(slots=True)
class Watching:
    """``lags``: (seconds, records); ``latencies``: (seconds, milliseconds) of each alert as a consumer read it."""

    brokers: str
    load: Load
    done: Callable[[], int]
    began_s: float = field(default_factory=time.time)
    lags: list[tuple[float, int]] = field(default_factory=list)
    latencies: list[tuple[float, float]] = field(default_factory=list)
    _ending: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)
    committed: int = 0

    def start(self) -> None:
        """Begin, in threads of its own."""
        for what in (self._sample, self._read):
            self._threads.append(threading.Thread(target=what, name="watching", daemon=True))
            self._threads[-1].start()

    def stop(self) -> None:
        """Look no more."""
        self._ending.set()
        for each in self._threads:
            each.join()

    def lag(self) -> int:
        """Records acknowledged to the sender and not committed; all of them before the first batch."""
        self.committed = max(self.committed, self.done())
        return self.load.acknowledged - self.committed

    def now_s(self) -> float:
        """Seconds since the drill began."""
        return time.time() - self.began_s

    def _sample(self) -> None:
        while not self._ending.wait(SAMPLE_S):
            self.lags.append((self.now_s(), max(0, self.lag())))

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
