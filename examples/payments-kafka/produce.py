"""Sends card payments to Kafka as any payment system would: Avro, by a schema that it puts into the registry.

Run with the Python of .venv; ``--help`` says what can be chosen. Of crossline it takes only what the payments are made
of, with frauds among them; how they are written and sent is the business of confluent-kafka and fastavro.
"""

from __future__ import annotations

import argparse
import http.client
import io
import json
import logging
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import fastavro
from confluent_kafka import KafkaException, Producer

from crossline.generate.cards import CardWorkload

SCHEMAS = Path(__file__).parent / "schemas"
HEADER = b"\0"  # then the number of the schema, in four bytes, then the record
BATCH = 500
DISORDER_MS = 2_000
FRAUDS_MAX = 100  # of each of five kinds, in twenty minutes
ANSWER_S_MAX = 30.0
POLL_S_MAX = 0.01
UNKNOWN_SCHEMA = 999_999
# What the client has to say of brokers that are away stands in the error in the end.
SILENT = logging.getLogger("produce")
SILENT.addHandler(logging.NullHandler())
SILENT.propagate = False


def main(given: Sequence[str] | None = None) -> int:
    """Send until all is sent, or Ctrl-C."""
    options = arguments(given)
    text = (SCHEMAS / f"{options.schema}.avsc").read_text(encoding="utf-8")
    try:
        number = register(options.registry, f"{options.topic}-value", text)
        tell(f"schema {options.schema} has the number {number} in the registry")
        sent, refused = send(options, fastavro.parse_schema(json.loads(text)), number)
    except RegistryError as error:
        tell(f"error: {error}")
        return 1
    except (OSError, http.client.HTTPException, KafkaException) as error:
        tell(f"error: {error}; do the services run? `make services-status`")
        return 1
    tell(f"{sent:,} payments sent to {options.topic}; not acknowledged: {refused:,}")
    return 1 if refused else 0


def tell(text: str) -> None:
    """A line for the person who looks on."""
    sys.stderr.write(f"{text}\n")


def arguments(given: Sequence[str] | None) -> argparse.Namespace:
    """What was chosen."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--records", type=int, default=0, help="how many payments; 0: until Ctrl-C")
    parser.add_argument("--rate", type=int, default=500, help="payments a second")
    parser.add_argument("--since", type=int, default=0, help="how many seconds ago the first one was made")
    parser.add_argument("--schema", default="payment-1", help="a file of schemas/, without its .avsc")
    parser.add_argument("--broken", type=int, default=0, help="how many messages that are no payments come first")
    parser.add_argument("--seed", type=int, default=7, help="equal seeds make equal payments, but for their times")
    parser.add_argument("--brokers", default="127.0.0.1:19092", help="of Kafka")
    parser.add_argument("--topic", default="payments", help="where to")
    parser.add_argument("--registry", default="http://127.0.0.1:18081/apis/ccompat/v7", help="address of the registry")
    return parser.parse_args(given)


class RegistryError(Exception):
    """The registry did not take the schema."""


def register(registry: str, subject: str, schema: str) -> int:
    """Put the schema under ``subject``, unless it is there; its number."""
    address = urlsplit(registry)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=ANSWER_S_MAX)
    try:
        body, kind = json.dumps({"schema": schema}), {"Content-Type": "application/vnd.schemaregistry.v1+json"}
        connection.request("POST", f"{address.path}/subjects/{quote(subject)}/versions", body, kind)
        answer = connection.getresponse()
        said = answer.read()
    finally:
        connection.close()
    if answer.status != http.HTTPStatus.OK:
        raise RegistryError(f"the registry answers {answer.status}: {said.decode(errors='replace')[:500]}")
    return int(json.loads(said)["id"])


def send(options: argparse.Namespace, schema: Any, number: int) -> tuple[int, int]:
    """Send the payments, each when it is due; how many, and how many were not acknowledged."""
    producer = Producer(
        {
            "bootstrap.servers": options.brokers,
            "acks": "all",
            "enable.idempotence": True,
            "linger.ms": 2,
            "log_level": 3,
        }
    )
    producer.list_topics(options.topic, timeout=ANSWER_S_MAX)
    refused: list[str] = []

    def acknowledged(error: Any, _: Any) -> None:
        if error is not None:
            refused.append(error.str())

    for value in broken(options.broken):
        producer.produce(options.topic, value, on_delivery=acknowledged)
    sent, head, began_s = 0, HEADER + number.to_bytes(4, "big"), time.time() - options.since
    try:
        for payment in payments(options, began_s):
            while (early_s := began_s + sent / options.rate - time.time()) > 0:
                producer.poll(min(POLL_S_MAX, early_s))  # below zero it would wait for ever
            value = io.BytesIO()
            value.write(head)
            fastavro.schemaless_writer(value, schema, payment)
            while True:
                try:
                    producer.produce(
                        options.topic, value.getvalue(), key=payment["account_id"], on_delivery=acknowledged
                    )
                    break
                except BufferError:
                    producer.poll(0.05)
            sent += 1
    except KeyboardInterrupt:
        tell("")
    left = producer.flush(ANSWER_S_MAX)
    return sent, len(refused) + left


def payments(options: argparse.Namespace, began_s: float) -> Iterator[dict[str, Any]]:
    """Payments of the moments in which they are sent; ids begin with that of this run."""
    workload = CardWorkload(
        seed=options.seed,
        rate_per_s=options.rate,
        disorder_ms=DISORDER_MS,
        base_ms=round(began_s * 1000) - DISORDER_MS,
        frauds_per_epoch=FRAUDS_MAX,
    )
    run, first = f"{round(began_s):x}", 0
    while not options.records or first < options.records:
        count = min(BATCH, options.records - first) if options.records else BATCH
        for payment in workload.records(first, count).to_pylist():
            yield {**payment, "transaction_id": f"{run}-{payment['transaction_id']}", "wallet": "phone"}
        first += count


def broken(count: int) -> Iterator[bytes]:
    """Messages that are no payments: no header, a schema that nobody knows, bytes that end too early."""
    kinds = (b'{"a": "JSON text"}', HEADER + UNKNOWN_SCHEMA.to_bytes(4, "big") + b"\x02a", HEADER + b"\0\0\0\x01\x14")
    for n in range(count):
        yield kinds[n % len(kinds)]


if __name__ == "__main__":
    sys.exit(main())
