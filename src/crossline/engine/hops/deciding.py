"""The last hop where a policy is configured: the hits on each record, wherever they were judged, to its decision.

Judging knows a shard of keys, and the hits on one record come from as many shards as rules have keys. So what is
decided by travels to the shard of the record's id: the hits that count, and which records the reporter found to be
copies; where every record is decided about, the records. A copy is no second record to decide about, also where a rule
of another key takes it for a new one.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import xxhash

from crossline.core.alerts.hits import Place
from crossline.core.basics import wire
from crossline.core.basics.values import I64
from crossline.core.decide.decision import RulesInForce, decide
from crossline.core.decide.hits import DecidedRecord, DecidingHit, hit_of
from crossline.core.judge.order import take_bytes
from crossline.core.judge.shard import Reported, ShardOutput
from crossline.core.windows.memory.hashing import xxh64_many
from crossline.engine.book.book import Book, BookSource
from crossline.engine.hops.aside import body_of
from crossline.engine.hops.rows import OUT, ArrowBatches, rows_of
from crossline.engine.hops.written import write_decisions
from crossline.engine.state.cache import Sent
from crossline.engine.work.stopwatch import Stopwatch
from crossline.engine.work.task import Task

# The kinds of what goes to the hop.
_HITS, _RECORDS = "hits", "records"
_IN_ROWS = ("place_ms", "chunk", "offsets", "event_ms")

Decided = list[tuple[Place, dict[str, Any]]]


def decides_at(book: Book) -> int:
    """The number of the hop: after all that judge."""
    return book.depth + 1


def deciding_rows(book: Book, output: ShardOutput, alerts: Sequence[Mapping[str, Any]]) -> Sent:
    """What is decided by of what a shard judged; ``alerts``: of its hits, in their order.

    A hit on hits is one on the record that they are about.
    """
    to: defaultdict[int, dict[str, list[Any]]] = defaultdict(lambda: {"hits": [], "copies": []})
    lateness = {plan.stream: plan.lateness for plan in book.plans()}
    for hit, alert in zip(output.hits, alerts, strict=True):
        counted = hit_of(alert)
        if counted is None:
            continue
        stream = hit.place[1]
        _, allowed_ms = lateness[stream].at(np.array([hit.ingest_ms]))
        if hit.ingest_ms - hit.event_ms <= _bound_ms(book, allowed_ms):
            record = DecidedRecord(stream, hit.record_id, hit.event_ms, hit.ingest_ms)
            to[_shard(book, hit.record_id)]["hits"].append([hit.place, asdict(record), asdict(counted)])
    for each in output.duplicates:
        to[_shard(book, each.record_id)]["copies"].append([each.stream, each.partition, each.offset])
    at = decides_at(book)
    rows: Sent = [(at, shard, _HITS, orjson.dumps(said)) for shard, said in sorted(to.items())]
    if book.deciding is not None and book.deciding.every:
        rows += [(at, shard, _RECORDS, body) for each in output.reported for shard, body in _record_rows(book, each)]
    return rows


def _bound_ms(book: Book, allowed_ms: I64 | int) -> Any:
    """The lateness up to which a record is decided about: on time, and not past what every rule takes."""
    return np.minimum(allowed_ms, book.defaults.watermark_delay_ms)


def _shard(book: Book, record_id: str) -> int:
    return xxhash.xxh64_intdigest(record_id.encode()) % book.shards


def _record_rows(book: Book, reported: Reported) -> Iterator[tuple[int, bytes]]:
    """The records that are decided about, as one body for each shard of their ids."""
    judged, batch = reported.judged, reported.judged.batch
    wanted = ~reported.duplicates & (batch.lateness_ms <= _bound_ms(book, reported.allowed_ms))
    shards = xxh64_many(batch.id_bytes, batch.id_offsets) % np.uint64(book.shards)
    meta = {"stream": judged.plan.stream, "chunks": judged.chunks}
    for shard in range(book.shards):
        mine = np.flatnonzero(wanted & (shards == np.uint64(shard)))
        if len(mine):
            arrays = {name: judged.rows[name][mine] for name in _IN_ROWS}
            arrays["ingest_ms"] = batch.ingest_ms[mine]
            arrays["id_bytes"], arrays["id_offsets"] = take_bytes(batch.id_bytes, batch.id_offsets, mine)
            yield shard, wire.encode(meta, arrays)


# Which record it is: stream, partition, offset.
_Which = tuple[str, str, int]


@dataclass(slots=True)
class _Given:
    """What is given to decide by: records, the hits on them, and which of them are copies."""

    records: dict[_Which, tuple[Place, DecidedRecord]] = field(default_factory=dict)
    hits: defaultdict[_Which, list[DecidingHit]] = field(default_factory=lambda: defaultdict(list))
    copies: set[_Which] = field(default_factory=set)

    def take(self, kind: str, body: bytes | memoryview) -> None:
        if kind == _RECORDS:
            self._take_records(body)
            return
        said = orjson.loads(body)
        for at, record, hit in said["hits"]:
            place: Place = tuple(at)
            which = place[1], place[5], place[4]
            self.records[which] = place, DecidedRecord(**record)
            self.hits[which].append(DecidingHit(**{**hit, "tags": tuple(hit["tags"])}))
        self.copies.update((stream, partition, offset) for stream, partition, offset in said["copies"])

    def _take_records(self, body: bytes | memoryview) -> None:
        meta, arrays = wire.decode(body, "records to decide about")
        stream, chunks, texts = meta["stream"], meta["chunks"], arrays["id_bytes"].tobytes()
        ends = arrays["id_offsets"].tolist()
        columns = (arrays[name].tolist() for name in (*_IN_ROWS, "ingest_ms"))
        for row, (place_ms, chunk, offset, event_ms, ingest_ms) in enumerate(zip(*columns, strict=True)):
            log, sequence, partition = chunks[chunk]
            record = DecidedRecord(stream, texts[ends[row] : ends[row + 1]].decode(), event_ms, ingest_ms)
            self.records[stream, partition, offset] = (place_ms, stream, log, sequence, offset, partition), record

    def decidable(self) -> Iterator[tuple[Place, DecidedRecord, Sequence[DecidingHit]]]:
        """The records that are decided about, in their order."""
        wanted = [which for which in self.records if which not in self.copies]
        for which in sorted(wanted, key=lambda each: self.records[each][0]):
            yield *self.records[which], self.hits.get(which, ())


@dataclass(frozen=True, slots=True)
class DecideShards:
    """The hits on records to the records' decisions."""

    source: BookSource
    at: int
    clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000

    def __call__(self, task: Task, batches: ArrowBatches) -> ArrowBatches:
        """The decisions of the records of this task's shards, and what is meant for others."""
        given, watch = defaultdict[int, _Given](_Given), Stopwatch()
        for batch in batches:
            meant, shard = batch.column(0).to_numpy() == self.at, batch.column(1).to_numpy()
            for row in meant.nonzero()[0].tolist():
                given[int(shard[row])].take(batch.column(2)[row].as_py(), body_of(batch.column(3)[row].as_buffer()))
            if not meant.all():
                yield batch.filter(pa.array(~meant))
        watch.start()
        book, told = self.source.current(), Decided()
        for number, mine in sorted(given.items()):
            decided = _decided(book, mine, self.clock_ms())
            watch.lap("decide")
            told += write_decisions(book, task.batch_id, number, decided)
            watch.lap("write")
        rows = [(OUT, 0, "spent", watch.to_json())]
        yield rows_of([(OUT, 0, "decisions", orjson.dumps(told)), *rows] if told else rows)


def _decided(book: Book, given: _Given, decided_ms: int) -> Decided:
    """The decision of each record, with the record's place."""
    deciding = book.deciding
    if deciding is None:
        raise ValueError("there is nothing to decide by: the book has no policy")
    rules: dict[str, RulesInForce] = {}
    found = []
    for place, record, hits in given.decidable():
        in_force = rules.get(record.stream)
        if in_force is None:
            in_force = rules[record.stream] = RulesInForce(book.rules, record.stream)
        decision = decide(deciding.policy, record, hits)
        said = decision.to_json(in_force.digest(record.ingest_ms), decided_ms)
        found.append((place, said if deciding.sink_topic is None else {**said, "sink_topic": deciding.sink_topic}))
    return found
