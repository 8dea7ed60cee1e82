"""Writes an open loop of ``tx`` records to a topic: ``python -m bench.load_ahead BROKERS TOPIC --rate … --records …``.

The records are made before the first is due, and the client takes all that are due in one call, so that the load
leaves the processors to what is measured. Prints a line of JSON when the first record is due, and one when all are
acknowledged. Record ``start + i`` is due ``i / rate`` seconds after the first; its event time is up to
``--disorder-ms`` earlier.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import orjson
from confluent_kafka import Producer

from bench.priority import raise_priority
from crossline.generate.avro import AvroTarget, avro_schema
from crossline.generate.kafka import SETTINGS
from crossline.generate.text import json_lines
from crossline.generate.tx import BLOCK, TxWorkload
from crossline.io.registry.client import register_at

MANY_PER_S = 10_000  # from here on the client waits for some records, so that a request has more than a few
TICK_S, MANY_TICK_S = 0.001, 0.01
MANY_LINGER_MS = 10
MADE_PER_S = {"json": 200_000, "avro": 40_000}  # at least; on a slower machine event times are behind
FLUSH_S_MAX = 60.0


@dataclass(frozen=True, slots=True)
class Block:
    """n records as the client takes them: values one after the other, where each begins and the last ends, and keys."""

    data: bytes
    bounds: list[int]
    keys: list[bytes]

    def messages(self, low: int, high: int) -> list[dict[str, Any]]:
        """Records low to high."""
        cuts = zip(pairwise(self.bounds[low : high + 1]), self.keys[low:high], strict=True)
        return [{"value": self.data[start:end], "key": key} for (start, end), key in cuts]


def made(workload: TxWorkload, first: int, count: int, value: Callable[[bytes], bytes] | None) -> list[Block]:
    """Records [first, first + count) in blocks; ``value`` makes what is sent of a line of JSON."""
    blocks = []
    for at in range(first, first + count, BLOCK):
        table = workload.records(at, min(BLOCK, first + count - at))
        lines = json_lines(table).splitlines()
        values = lines if value is None else [value(line) for line in lines]
        bounds = [0, *accumulate(map(len, values))]
        keys = [account.encode() for account in table["account_id"].to_pylist()]
        blocks.append(Block(b"".join(values), bounds, keys))
    return blocks


def send(producer: Producer, topic: str, blocks: list[Block], rate: int, began_s: float) -> float:
    """Send all when they are due; the seconds by which a record was sent late, at most."""
    behind_s, done, tick_s = 0.0, 0, MANY_TICK_S if rate >= MANY_PER_S else TICK_S
    for block in blocks:
        low, count = 0, len(block.keys)
        while low < count:
            now_s = time.time()
            high = min(count, int((now_s - began_s) * rate) + 1 - done)
            if high <= low:  # not at the first records of a block
                time.sleep(tick_s)
                continue
            behind_s = max(behind_s, now_s - began_s - (done + low) / rate)
            messages = block.messages(low, high)
            if producer.produce_batch(topic, messages) < len(messages):
                raise SystemExit(f"the client did not take: {next(each for each in messages if '_error' in each)}")
            low = high
            if low < count:
                time.sleep(tick_s)
        done += count
        producer.poll(0)
    return behind_s


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("brokers")
    parser.add_argument("topic")
    parser.add_argument("--rate", type=int, required=True, help="records a second")
    parser.add_argument("--records", type=int, required=True)
    parser.add_argument("--start", type=int, default=0, help="number of the first record")
    parser.add_argument("--disorder-ms", type=int, default=2_000)
    parser.add_argument("--registry", help="records are Avro, with a schema there")
    parser.add_argument("--raise-priority", action="store_true", help="as if it ran on a machine of its own")
    options = parser.parse_args()
    if options.raise_priority:
        raise_priority()
    form = "json" if options.registry is None else "avro"
    begin_s = time.time() + options.records / MADE_PER_S[form] + 1.0
    base_ms = int((begin_s - options.start / options.rate) * 1e3) - options.disorder_ms
    workload = TxWorkload(rate_per_s=options.rate, disorder_ms=options.disorder_ms, base_ms=base_ms)
    value = None
    if options.registry is not None:
        schema = avro_schema(workload)
        number = register_at(options.registry, options.topic, schema)
        value = AvroTarget(options.brokers, options.topic, schema, number).value
    blocks = made(workload, options.start, options.records, value)
    settings = {**SETTINGS, "bootstrap.servers": options.brokers, "delivery.report.only.error": True}
    if options.rate >= MANY_PER_S:
        settings["linger.ms"] = MANY_LINGER_MS
    producer = Producer(settings)
    producer.list_topics(options.topic, timeout=FLUSH_S_MAX)
    gc.disable()  # nothing that it makes from here on is in circles
    time.sleep(max(0.0, begin_s - time.time()))
    began_s = time.time()
    print(orjson.dumps({"began_us": began_s * 1e6}).decode(), flush=True)
    behind_s = send(producer, options.topic, blocks, options.rate, began_s)
    if left := producer.flush(FLUSH_S_MAX):
        raise SystemExit(f"{left} records were not acknowledged")
    print(orjson.dumps({"behind_ms_max": round(behind_s * 1e3, 1)}).decode(), flush=True)


if __name__ == "__main__":
    main()
