"""Reads a topic of alerts and records when each arrives: ``python -m bench.alert_listener BROKERS TOPIC OUT``.

It runs until SIGTERM.
"""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path
from types import FrameType

import orjson
from confluent_kafka import Consumer, TopicPartition

NAMES = ("record_id", "rule_id", "ingest_time", "detected_at", "delivered_at")


def main() -> None:
    brokers, topic, out = sys.argv[1:]
    stopped: list[int] = []

    def stop(number: int, _: FrameType | None) -> None:
        stopped.append(number)

    signal.signal(signal.SIGTERM, stop)
    consumer = Consumer({"bootstrap.servers": brokers, "group.id": "bench", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    with Path(out).open("wb") as file:
        while not stopped:
            message = consumer.poll(0.1)
            received_us = time.time_ns() // 1_000
            if message is None or message.error():
                file.flush()
                continue
            alert = orjson.loads(message.value())
            file.write(orjson.dumps({"received_us": received_us, **{name: alert[name] for name in NAMES}}) + b"\n")
    consumer.close()


if __name__ == "__main__":
    main()
