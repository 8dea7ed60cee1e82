"""The load: an open loop of payments at a rate, and a log of all records sent, which the checks count later.

It also sends late records and duplicates and, on request, poison, a storm of one account, and records with a wrong
clock.
"""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import KafkaError, Message, Producer

from chaos.load.formats import Format
from chaos.load.log import Log, Sent, digest_of, id_of
from chaos.pipeline import ID, TOPIC

NUMBER_HEADER = "number"
STORM_ACCOUNT = "stormy"
SKEW = 1.3  # some accounts send more than others, none of them a storm
KINDS = ("card", "cash", "web", "transfer", "wallet")
TICK_S = 0.01
FLUSH_S_MAX = 300.0
# (share of records, how far the event lies behind the sending, from and to): none is near the 20 s of lateness.
LATENESS = ((0.90, 0, 0), (0.07, 1_000, 4_000), (0.025, 8_000, 12_000), (0.005, 60_000, 120_000))
COPIES = 0.01  # of records are sent again, as a sender does who had no answer


@dataclass(frozen=True, slots=True)
class Made:
    """A record before it is sent."""

    number: int
    due_s: float
    account: str
    record: int | None
    event_ms: int | None
    value: bytes | None
    poison: str | None = None

    def noted(self) -> Sent:
        """For the log."""
        return Sent(self.number, self.due_s, self.record, self.event_ms, digest_of(self.value), self.poison)


@dataclass(slots=True)
class Mood:
    """A current anomaly of the load: until when (monotonic clock), and what."""

    until_s: float = 0.0
    storm: float = 0.0
    clock_ms: int = 0
    poison: float = 0.0


@dataclass(slots=True)
class Load:
    """Sends until it is stopped. ``log``: all that was sent, by number; ``acknowledged``: the numbers that were."""

    brokers: str
    rate_per_s: float
    seed: int
    format: Format
    accounts: int = 300
    log: Log = field(default_factory=Log)
    acknowledged: int = 0
    failed: list[str] = field(default_factory=list)
    _moods: list[Mood] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    _recent: deque[Made] = field(default_factory=lambda: deque(maxlen=200))

    def start(self) -> None:
        """Begin to send, in a thread of its own."""
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Send no more, and wait until all is acknowledged."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(FLUSH_S_MAX + 10)

    def storm(self, seconds: float, times: float) -> None:
        """One account sends ``times`` the whole rate beside the others."""
        self._moods.append(Mood(time.monotonic() + seconds, storm=times))

    def clock(self, seconds: float, by_ms: int) -> None:
        """Senders' clocks are wrong ``by_ms``."""
        self._moods.append(Mood(time.monotonic() + seconds, clock_ms=by_ms))

    def poison(self, seconds: float, share: float) -> None:
        """A share of the records cannot be decoded."""
        self._moods.append(Mood(time.monotonic() + seconds, poison=share))

    def _run(self) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self.brokers,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 2,
                "partitioner": "murmur2_random",
                "message.timeout.ms": int(FLUSH_S_MAX * 1000),
                "reconnect.backoff.max.ms": 500,
                "log_level": 0,
            }
        )
        draw = random.Random(self.seed)
        began_s, numbers = time.monotonic(), itertools.count()
        due, stormy = 0.0, 0.0
        last_s, rate = began_s, self.rate_per_s
        while not self._stop.is_set():
            now_s = time.monotonic()
            passed_s, last_s = now_s - last_s, now_s
            if self.rate_per_s != rate:
                rate, due = self.rate_per_s, 0.0  # what could not be sent at another rate is not owed
            mood = self._mood(now_s)
            due += passed_s * self.rate_per_s
            stormy += passed_s * self.rate_per_s * mood.storm
            while due >= 1 or stormy >= 1:
                storm = stormy >= 1 and (due < 1 or draw.random() < 0.5)
                due, stormy = (due, stormy - 1) if storm else (due - 1, stormy)
                self._send(producer, self._made(next(numbers), draw, mood, storm=storm))
                if self._recent and draw.random() < COPIES:
                    self._send(producer, _copy(draw.choice(self._recent), next(numbers)))
            producer.poll(0)
            self._stop.wait(TICK_S)
        left = producer.flush(FLUSH_S_MAX)
        if left:
            self.failed.append(f"{left} records were not acknowledged within {FLUSH_S_MAX:.0f} s")

    def _mood(self, now_s: float) -> Mood:
        """All current anomalies in one."""
        self._moods = [each for each in self._moods if each.until_s > now_s]
        return Mood(
            storm=sum(each.storm for each in self._moods),
            clock_ms=sum(each.clock_ms for each in self._moods),
            poison=max((each.poison for each in self._moods), default=0.0),
        )

    def _made(self, number: int, draw: random.Random, mood: Mood, *, storm: bool) -> Made:
        now_s = time.time()
        account = STORM_ACCOUNT if storm else f"a{int(self.accounts * draw.random() ** SKEW):05d}"
        event_ms = int(now_s * 1000) - (0 if storm else _lateness_ms(draw)) + mood.clock_ms  # it is one sender
        body: dict[str, Any] = {
            ID: id_of(number),
            "account": account,
            "amount": max(1, round(2_500 * 2.718 ** draw.gauss(0, 1.2))),
            "kind": draw.choice(KINDS),
            "event_time": event_ms,
        }
        if draw.random() < mood.poison:
            reason, value = draw.choice(self.format.poisons(body))
            return Made(number, now_s, account, None, None, value, reason)
        return Made(number, now_s, account, number, event_ms, self.format.encode(body))

    def _send(self, producer: Producer, made: Made) -> None:
        headers = [(NUMBER_HEADER, b"%d" % made.number)]
        self.log.add(made.noted())
        if made.poison is None:
            self._recent.append(made)
        while True:
            try:
                producer.produce(TOPIC, made.value, key=made.account, headers=headers, on_delivery=self._delivered)
            except BufferError:
                producer.poll(0.05)
            else:
                return

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        del message
        if error is None:
            self.acknowledged += 1
        else:
            self.failed.append(error.str())


def _copy(made: Made, number: int) -> Made:
    return Made(number, time.time(), made.account, made.record, made.event_ms, made.value)


def _lateness_ms(draw: random.Random) -> int:
    drawn = draw.random()
    for share, low, high in LATENESS:
        if drawn < share:
            return draw.randint(low, high)
        drawn -= share
    return 0
