"""Writes a background load to a topic: ``python -m bench.topic_load BROKERS TOPIC RATE SECONDS``.

The records are encoded before the first is due, and the client batches them, so the load itself uses little of the
machine. They are keyed by account, as the API keys them.
"""

from __future__ import annotations

import sys
import time

import orjson
from confluent_kafka import Producer

from bench.priority import raise_priority
from crossline.generate.tx import TxWorkload

EVERY_S = 0.01
LINGER_MS = 10


def send(brokers: str, topic: str, rate: int, seconds: float) -> None:
    """Send at ``rate`` a second, whatever becomes of it; the event time of each is when it is due."""
    producer = Producer({"bootstrap.servers": brokers, "linger.ms": LINGER_MS, "partitioner": "murmur2_random"})
    begin_s = time.time() + 1.0
    load = TxWorkload(rate_per_s=rate, disorder_ms=0, base_ms=int(begin_s * 1e3))
    lines = load.lines(0, int(rate * seconds)).splitlines()
    keys = [orjson.loads(line)["account_id"].encode() for line in lines]
    begin_s = max(begin_s, time.time())
    sent = 0
    while sent < len(lines):
        due = min(len(lines), int((time.time() - begin_s) * rate))
        for number in range(sent, due):
            producer.produce(topic, lines[number], key=keys[number])
        sent = max(sent, due)
        producer.poll(0)
        time.sleep(EVERY_S)
    producer.flush(30)


if __name__ == "__main__":
    raise_priority()
    send(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))
