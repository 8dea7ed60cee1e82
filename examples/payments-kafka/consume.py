"""Shows what comes on a topic of the example: alerts, one a line, or with ``--topic`` decisions or dead letters."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from confluent_kafka import Consumer


def main() -> None:
    """Show what is there and what comes, until Ctrl-C."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--topic", default="payments-alerts", help="payments-alerts, payments-decisions, payments-dead")
    parser.add_argument("--brokers", default="127.0.0.1:19092", help="of Kafka")
    options = parser.parse_args()
    # No group is kept: each start shows all that is there.
    settings = {"group.id": "examples", "enable.auto.commit": False, "auto.offset.reset": "earliest"}
    consumer = Consumer({"bootstrap.servers": options.brokers, **settings})
    consumer.subscribe([options.topic])
    try:
        while True:
            message = consumer.poll(1.0)
            if message is not None and message.error():
                sys.stderr.write(f"{message.error().str()}\n")
            elif message is not None:
                sys.stdout.write(f"{told(message.value())}\n")
                sys.stdout.flush()
    except KeyboardInterrupt:
        consumer.close()


def told(value: bytes) -> str:
    """A line: what a person wants to know of an alert or a decision; of a dead letter its bytes."""
    try:
        body: dict[str, Any] = json.loads(value)
        if "alert_id" in body:
            return f"{body['event_time']}  {body['severity']:<8}  {body['message']}"
        return f"{body['event_time']}  {body['decision']:<8}  {body['record_id']}, score {body['score']}"
    except (ValueError, KeyError, TypeError):
        return repr(value)


if __name__ == "__main__":
    main()
