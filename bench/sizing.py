"""The cost of a record, of a shard and of a batch: ``python -m bench.sizing [--sets R1,R5] [--records N]``.

The stages of a batch run in one process, without Spark; times are processor time. Stages: take in (decode, route,
pack), judge, write the segment, and the driver's work on the outcome. Several numbers of shards and sizes of batches
separate the cost of a record from the cost of a shard per batch. An empty batch shows the latter alone. ``load`` is the
time to read a state again from its segments, as a machine does that gets a shard for the first time.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from bench.memory import snapshot_of
from bench.report import Report, say
from bench.workload import STREAM, rule_set
from crossline.basics import wire
from crossline.evaluate.resharding import resharded
from crossline.evaluate.shard import ShardState, judge
from crossline.evaluate.state_log import apply_delta, encode_delta
from crossline.generate.tx import TxWorkload
from crossline.ingest.decode import decode_lines
from crossline.ingest.route.part_codec import unpack
from crossline.ingest.route.partitioner import Chunk
from crossline.plan.costs import UNMEASURED
from crossline.runtime.snapshot.snapshot import PlanSnapshot
from crossline.runtime.stages.outcome import collect_outcome
from crossline.runtime.stages.shard_judge import part_rows, result_rows
from crossline.runtime.stages.stages import parts_of
from crossline.runtime.work.stopwatch import measuring

SHARDS = (2, 16, 128)
BATCHES = (2_000, 20_000, 200_000)
RATE_PER_S = 50_000
EMPTY = 20  # empty batches

Result = TypeVar("Result")


@dataclass(slots=True)
class Spent:
    """Seconds of processor time by step, and bytes."""

    seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    bytes: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))

    def timed(self, step: str, work: Callable[[], Result]) -> Result:
        """What ``work`` gives; it counts as ``step``."""
        begun = time.process_time()
        result = work()
        self.seconds[step] += time.process_time() - begun
        return result


class Shards:
    """All shards of a plan snapshot, judged one after the other; segments are kept to be read again."""

    def __init__(self, snapshot: PlanSnapshot) -> None:
        self.snapshot = snapshot
        self.states = [ShardState() for _ in range(snapshot.shards)]
        self.segments: list[list[bytes]] = [[] for _ in range(snapshot.shards)]
        self.batch_id = 0

    def batch(self, lines: bytes, offset: int, spent: Spent) -> None:
        """One batch of one chunk."""
        snapshot = self.snapshot
        decoder = snapshot.decoder(STREAM)
        records = spent.timed("decode", lambda: decode_lines(decoder, lines, "bench", offset).records)
        chunk = Chunk(STREAM, self.batch_id, "bench")
        rows = spent.timed("route", lambda: part_rows(parts_of(snapshot, records, chunk, UNMEASURED)))
        given = {shard: body for _, shard, _, body in rows}
        spent.bytes["input"] += len(lines)
        spent.bytes["shuffle"] += sum(map(len, given.values()))
        reported: list[tuple[str, bytes]] = []
        for shard, state in enumerate(self.states):
            reported += spent.timed("judge", partial(self._judge, shard, state, given.get(shard)))
            spent.bytes["segment"] += len(self.segments[shard][-1])
        spent.bytes["outcome"] += sum(len(body) for _, body in reported)
        spent.timed("driver", lambda: collect_outcome(reported, None))
        self.batch_id += 1

    def _judge(self, shard: int, state: ShardState, body: Any) -> list[tuple[str, bytes]]:
        parts = list(unpack(body, "bench")) if body else []
        output = judge(self.snapshot.plans(), state, parts, self.snapshot.bounds, measuring())
        rows = result_rows(self.snapshot, 1, shard, output, state)
        self.segments[shard].append(encode_delta(self.batch_id, state, output.deltas))
        return [(kind, each) for _, _, kind, each in rows]

    def load(self, shard: int) -> int:
        """Read a shard's state again from its segments; how many records that are."""
        state = self.snapshot.new_state()
        for blob in self.segments[shard]:
            apply_delta(self.snapshot.plans(), state, *wire.decode(blob, "bench"), self.snapshot.bounds)
        return sum(store.records for store in state.stores.values())

    def cut(self, shards: int) -> None:
        """The segments of the first batch as those of another number of shards."""
        resharded([wire.decode(each[0], "bench") for each in self.segments], shards, 0)


def batches(workload: TxWorkload, records: int, batch: int) -> Iterator[tuple[bytes, int]]:
    """Lines, and the offset of the first."""
    offset = 0
    for start in range(0, records, batch):
        lines = workload.lines(start, min(batch, records - start))
        yield lines, offset
        offset += len(lines)


def measure(report: Report, name: str, shards: int, batch: int, records: int) -> None:
    """One row: of a rule set, a number of shards and a size of batches."""
    workload = TxWorkload(rate_per_s=RATE_PER_S)
    all_of = Shards(snapshot_of(rule_set(name), shards=shards))
    spent, warm = Spent(), Spent()
    count = 0
    for number, (lines, offset) in enumerate(batches(workload, records, batch)):
        all_of.batch(lines, offset, spent if number else warm)
        count += 0 if not number else min(batch, records - number * batch)
    empty = Spent()
    for _ in range(EMPTY):
        all_of.batch(b"", 0, empty)
    begun = time.process_time()
    loaded = all_of.load(0)
    load_s = time.process_time() - begun
    begun = time.process_time()
    all_of.cut(2 * shards)
    cut_s = time.process_time() - begun
    us = {step: 1e6 * seconds / count for step, seconds in spent.seconds.items()}
    nothing = {step: 1e6 * seconds / EMPTY / shards for step, seconds in empty.seconds.items()}
    report.add(
        rules=name,
        shards=shards,
        batch=batch,
        take_in_us=round(us["decode"] + us["route"], 2),
        judge_us=round(us["judge"], 2),
        driver_us=round(us["driver"], 3),
        input_bytes=round(spent.bytes["input"] / count, 1),
        shuffle_bytes=round(spent.bytes["shuffle"] / count, 1),
        segment_bytes=round(spent.bytes["segment"] / count, 1),
        shard_us=round(nothing["judge"]),
        shard_driver_us=round(nothing["driver"], 1),
        shard_segment_bytes=round(empty.bytes["segment"] / EMPTY / shards),
        load_us=round(1e6 * load_s / loaded, 2) if loaded else None,
        reshard_us=round(1e6 * cut_s / batch, 2),
    )
    say(f"{name}, {shards} shards, {batch:,} a batch: {us['decode'] + us['route'] + us['judge']:.2f} us a record")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", default="R1,R5", help="rule sets, separated by commas")
    parser.add_argument(
        "--records", type=int, default=1_000_000, help="records of every row; small batches have a tenth"
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of the records")
    options = parser.parse_args()
    report = Report("sizing", "What a record, a shard and a batch cost; one process, processor time")
    records = options.records // 10 if options.quick else options.records
    for name in options.sets.split(","):
        for shards in SHARDS:
            for batch in BATCHES:
                measure(report, name, shards, batch, max(2 * batch, records if batch == BATCHES[-1] else records // 10))
    report.notes += [
        "take_in: decode, route and pack; judge: with hits, alerts and the segment's bytes; both a record",
        "shard_...: what one shard costs in a batch that brings it nothing",
        "load: a record of a shard's state, in one key space, read again from its segments",
        "reshard: a record, as its segments are cut into those of twice as many shards",
    ]
    report.finish()


if __name__ == "__main__":
    main()
