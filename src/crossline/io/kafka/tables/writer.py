"""Sends rows of a table to its topic, many at once, each acknowledged by all replicas."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from crossline.basics.errors import PermanentError, SinkError
from crossline.io.kafka.client import SILENT

_SENT_S_MAX = 60.0  # without any answer
_LOOK_S = 0.2
_SETTINGS = {
    "linger.ms": 5,
    "compression.type": "lz4",
    # As clients in Java do: else a row that those sent too would stand in another partition, and no order be between.
    "partitioner": "murmur2_random",
}
_DURABLE = {"acks": "all", "enable.idempotence": True}


def send_rows(
    settings: Mapping[str, str],
    topic: str,
    rows: Iterable[tuple[bytes, bytes | None]],
    headers: Mapping[str, str],
) -> int:
    """Send key and value of each row (None: a tombstone), wait for the acknowledgements, and return the number of rows.

    Raises SinkError where they are not acknowledged in time, PermanentError where the topic rejects one.
    """
    producer = Producer({**_SETTINGS, **settings, **_DURABLE}, logger=SILENT)
    errors: list[str] = []
    answered_s = time.monotonic()
    count = answers = 0
    named = [(name, text.encode()) for name, text in headers.items()]

    def answered(error: KafkaError | None, message: Message) -> None:
        nonlocal answers, answered_s
        answers, answered_s = answers + 1, time.monotonic()
        if error is not None:
            key = (message.key() or b"").decode(errors="backslashreplace")
            errors.append(f"topic {topic} does not take {key}: {error.str()}")

    def patient() -> None:
        if time.monotonic() > answered_s + _SENT_S_MAX:
            producer.purge()
            raise SinkError(
                f"topic {topic} has acknowledged {answers:,} of {count:,} rows, none in {_SENT_S_MAX:.0f} s: see that "
                "its brokers are up, and send them again"
            )

    for key, value in rows:
        while not errors:
            try:
                producer.produce(topic, key=key, value=value, headers=named, on_delivery=answered)
                count += 1
                break
            except BufferError:
                producer.poll(_LOOK_S)
                patient()
            except KafkaException as error:
                errors.append(f"{key.decode(errors='backslashreplace')} cannot be sent to topic {topic}: {error}")
        producer.poll(0)
    while producer.flush(_LOOK_S):
        patient()
    if errors:
        raise PermanentError(f"{errors[0]}; {answers - len(errors):,} rows are there")
    return count
