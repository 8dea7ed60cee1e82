"""The last hop where a policy is configured: the hits on each record, wherever they were judged, to its decision.

Judging knows a shard of keys, and the hits on one record come from as many shards as rules have keys. So what is
decided by travels to the shard of the record's id: the hits that count, and which records the reporter found to be
duplicates. A duplicate is no second record to decide about, also where a rule of another key does not know it as one.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import xxhash

from crossline.core.alerts.hits import Hit, Place
from crossline.core.decide.decision import RulesInForce, decide
from crossline.core.decide.hits import DecidedRecord, DecidingHit, hit_of
from crossline.core.judge.shard import Position
from crossline.engine.book.book import Book, BookSource
from crossline.engine.hops.aside import body_of
from crossline.engine.hops.rows import OUT, ArrowBatches, rows_of
from crossline.engine.state.cache import Rows
from crossline.engine.work.stopwatch import Stopwatch
from crossline.engine.work.task import Task

_TO = "to-decide/"  # the kind of what goes to the hop, before the number of the shard


def shard_of(kind: str) -> int | None:
    """The shard that a row of ``kind`` is to be decided in; None where it is nothing to decide by."""
    return int(kind.removeprefix(_TO)) if kind.startswith(_TO) else None


def deciding_rows(
    book: Book, hits: Sequence[Hit], alerts: Sequence[Mapping[str, Any]], duplicates: Iterable[Position]
) -> Rows:
    """What is decided by of what a shard judged: ``hits`` and their ``alerts``, and the reporter's ``duplicates``."""
    to: defaultdict[int, dict[str, list[Any]]] = defaultdict(lambda: {"hits": [], "duplicates": []})
    in_time = {plan.stream: plan.lateness for plan in book.plans()}
    for hit, alert in zip(hits, alerts, strict=True):
        counted = hit_of(alert)
        if counted is None:
            continue
        _, taken_ms = in_time[alert["stream"]].at(np.array([hit.ingest_ms]))
        if hit.ingest_ms - hit.event_ms <= min(book.defaults.watermark_delay_ms, int(np.min(taken_ms))):
            record = DecidedRecord(alert["stream"], hit.record_id, hit.event_ms, hit.ingest_ms)
            said = [hit.place, asdict(record), asdict(counted)]
            to[_shard(book, hit.record_id)]["hits"].append(said)
    for each in duplicates:
        to[_shard(book, each.record_id)]["duplicates"].append([each.stream, each.partition, each.offset])
    return [(f"{_TO}{shard}", orjson.dumps(said)) for shard, said in sorted(to.items())]


def _shard(book: Book, record_id: str) -> int:
    return xxhash.xxh64_intdigest(record_id.encode()) % book.shards


@dataclass(slots=True)
class _Given:
    """What one task is given to decide by: records and the hits on them by place, and places of duplicates."""

    records: dict[Place, DecidedRecord] = field(default_factory=dict)
    hits: defaultdict[Place, list[DecidingHit]] = field(default_factory=lambda: defaultdict(list))
    duplicates: set[tuple[str, str, int]] = field(default_factory=set)

    def take(self, body: bytes | memoryview) -> None:
        said = orjson.loads(body)
        for at, record, hit in said["hits"]:
            place: Place = tuple(at)
            self.records[place] = DecidedRecord(**record)
            self.hits[place].append(DecidingHit(**{**hit, "tags": tuple(hit["tags"])}))
        self.duplicates.update((stream, partition, offset) for stream, partition, offset in said["duplicates"])

    def places(self) -> list[Place]:
        """Of the records that are decided about, in their order."""
        return sorted(place for place in self.records if (place[1], place[5], place[4]) not in self.duplicates)


@dataclass(frozen=True, slots=True)
class DecideShards:
    """The hits on records to the records' decisions."""

    source: BookSource
    at: int

    def __call__(self, task: Task, batches: ArrowBatches) -> ArrowBatches:  # noqa: ARG002 - a step's
        """The decisions of the records of this task's shards, and what is meant for others."""
        given, watch = _Given(), Stopwatch()
        for batch in batches:
            meant = batch.column(0).to_numpy() == self.at
            for row in meant.nonzero()[0].tolist():
                given.take(body_of(batch.column(3)[row].as_buffer()))
            if not meant.all():
                yield batch.filter(pa.array(~meant))
        watch.start()
        decided = _decided(self.source.current(), given, time.time_ns() // 1_000_000)
        watch.lap("decide")
        rows = [(OUT, 0, "spent", watch.to_json())]
        yield rows_of([(OUT, 0, "decisions", orjson.dumps(decided)), *rows] if decided else rows)


def _decided(book: Book, given: _Given, decided_ms: int) -> list[tuple[Place, dict[str, Any]]]:
    """The decision of each record, with the record's place."""
    deciding = book.deciding
    if deciding is None:
        raise ValueError("there is nothing to decide by: the book has no policy")
    rules: dict[str, RulesInForce] = {}
    found = []
    for place in given.places():
        record = given.records[place]
        in_force = rules.get(record.stream)
        if in_force is None:
            in_force = rules[record.stream] = RulesInForce(book.rules, record.stream)
        decision = decide(deciding.policy, record, given.hits[place])
        said = decision.to_json(in_force.digest(record.ingest_ms), decided_ms)
        found.append((place, said if deciding.sink_topic is None else {**said, "sink_topic": deciding.sink_topic}))
    return found
