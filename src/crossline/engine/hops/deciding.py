"""The last hop where a policy is configured: the hits on each record, wherever they were judged, to its decision.

Judging knows a shard of keys, and the hits on one record come from as many shards as rules have keys. So what is
decided by travels to the shard of the record's id: the hits that count, and which records the reporter found to be
copies; where every record is decided about, the records. A copy is no second record to decide about, also where a rule
of another key takes it for a new one.

Where rules judge again, what was decided by is kept for as long as a correction may come, by the shards of ids: their
states are those of level 0. A correction that changes a record's decision makes a revision of it.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import groupby
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import xxhash

from crossline.core.alerts.hits import Hit, Place, told_at
from crossline.core.alerts.standing import RETRACTED
from crossline.core.basics import wire
from crossline.core.basics.errors import SinkError
from crossline.core.basics.values import I64
from crossline.core.decide.decision import RulesInForce, decide
from crossline.core.decide.hits import DecidedRecord, DecidingHit, hit_of
from crossline.core.decide.revise import Change, Known, deciding_hit, revise, revision_json
from crossline.core.judge.changes import cause_of
from crossline.core.judge.decided import DecidedStore, Which
from crossline.core.judge.order import take_bytes
from crossline.core.judge.output import LayerDelta, Reported, ShardOutput
from crossline.core.judge.shard import ShardState, evict, store_of
from crossline.core.plan.compose import known_later
from crossline.core.windows.memory.hashing import xxh64_many
from crossline.engine.book.book import Book, BookSource
from crossline.engine.hops.aside import body_of
from crossline.engine.hops.holding import Counted, held_hits
from crossline.engine.hops.rows import OUT, ArrowBatches, rows_of
from crossline.engine.hops.written import Decided, Telling
from crossline.engine.state.cache import Sent
from crossline.engine.work.stopwatch import Stopwatch
from crossline.engine.work.task import Task
from crossline.logs import get_logger

PAUSE_S, PAUSE_S_MAX = 0.2, 5.0

log = get_logger(__name__)

# The kinds of what goes to the hop.
_HITS, _RECORDS = "hits", "records"
_IN_ROWS = ("place_ms", "chunk", "offsets", "event_ms")

# Judges, at a level of plans, what a batch has for each shard; what comes of each of them.
Judge = Callable[[Task, int, Mapping[int, Sequence[memoryview]], Stopwatch], Iterator[Sent]]


def decides_at(book: Book) -> int:
    """The number of the hop: after all that judge."""
    return book.depth + 1


def deciding_rows(
    book: Book,
    output: ShardOutput,
    alerts: Sequence[Mapping[str, Any]],
    clocks: Mapping[str, Mapping[str, int]],
    held: Sequence[Hit] = (),
) -> Sent:
    """What is decided by of what a shard judged; ``alerts``: of its hits, in their order; ``held``: hits of holds.

    A hit on hits is one on the record that they are about. Absences, and what rests on them, decide nothing.
    ``clocks``: by stream, where each of its logs stands.
    """
    to: defaultdict[int, dict[str, Any]] = defaultdict(lambda: {"hits": [], "copies": []})
    lateness, later = {plan.stream: plan.lateness for plan in book.plans()}, known_later(book.plans())
    streams = next((plan.order for plan in book.plans()), ())
    if book.revises_ms is not None:
        for shard in range(book.shards):
            to[shard] |= {"changes": [], "clocks": clocks}
    for hit, counted, because, stands in (*_counted(output.hits, alerts, later), *held_hits(book.rules, held)):
        stream = hit.place[1]
        _, allowed_ms = lateness[stream].at(np.array([hit.ingest_ms]))
        if hit.ingest_ms - hit.event_ms <= _bound_ms(book, allowed_ms):
            record = DecidedRecord(stream, hit.record_id, hit.event_ms, hit.ingest_ms)
            mine, said = to[_shard(book, hit.record_id)], [hit.place, asdict(record), asdict(counted)]
            if hit.correction is None and hit.cause is None:
                mine["hits"].append(said)
            else:
                order = [told_at(hit), cause_of(hit, streams).order]
                mine["changes"].append([order, because, stands, *said])
    for each in output.duplicates:
        to[_shard(book, each.record_id)]["copies"].append([each.stream, each.partition, each.offset])
    at = decides_at(book)
    rows: Sent = [(at, shard, _HITS, orjson.dumps(said)) for shard, said in sorted(to.items())]
    if book.deciding is not None and book.deciding.every:
        rows += [(at, shard, _RECORDS, body) for each in output.reported for shard, body in _record_rows(book, each)]
    return rows


def _counted(hits: Sequence[Hit], alerts: Sequence[Mapping[str, Any]], later: Collection[str]) -> Iterator[Counted]:
    """The ``hits`` that count; not those known long after their record was decided about, as of the rules ``later``."""
    for hit, alert in zip(hits, alerts, strict=True):
        counted = hit_of(alert)
        if counted is not None and hit.known_ms is None and hit.version.rule.rule_id not in later:
            stands = hit.correction is None or hit.correction.outcome != RETRACTED
            yield Counted(hit, counted, alert["alert_id"], stands)


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


@dataclass(slots=True)
class _Given:
    """What is given to decide by: records, the hits on them, and which of them are copies."""

    records: dict[Which, tuple[Place, DecidedRecord]] = field(default_factory=dict)
    hits: defaultdict[Which, list[DecidingHit]] = field(default_factory=lambda: defaultdict(list))
    copies: set[Which] = field(default_factory=set)
    changes: list[tuple[list[Any], Which, DecidedRecord, Change]] = field(default_factory=list)
    clocks: dict[str, dict[str, int]] = field(default_factory=dict)

    def take(self, body: bytes | memoryview) -> None:
        """Take records, which are packed, or else what is said of hits."""
        if bytes(body[:1]) != b"{":
            self._take_records(body)
            return
        said = orjson.loads(body)
        for at, record, hit in said["hits"]:
            place: Place = tuple(at)
            which = place[1], place[5], place[4]
            self.records[which] = place, DecidedRecord(**record)
            self.hits[which].append(deciding_hit(hit))
        for order, because, stands, at, record, told in said.get("changes", ()):
            hit = deciding_hit(told)
            change = Change(hit.known_by, because, hit if stands else None)
            self.changes.append((order, (at[1], at[5], at[4]), DecidedRecord(**record), change))
        for stream, logs in said.get("clocks", {}).items():
            known = self.clocks.setdefault(stream, {})
            known |= {log: max(ms, known.get(log, ms)) for log, ms in logs.items()}
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
    """The hits on records to the records' decisions.

    ``judge``: decides where states are, which is where these may be revised, and where clients of a topic stay.
    ``patient``: wait for a topic that takes nothing, else say so at once.
    """

    source: BookSource
    at: int
    judge: Judge | None = None
    patient: bool = True
    clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000

    def __call__(self, task: Task, batches: ArrowBatches) -> ArrowBatches:
        """The decisions of the records of this task's shards, and what is meant for others."""
        book, watch = self.source.current(), Stopwatch()
        given: defaultdict[int, list[memoryview]] = defaultdict(list)
        if self.judge is not None:  # the log of each shard must have no gap
            given |= {shard: [] for shard in range(task.partition, book.shards, task.partitions)}
        for batch in batches:
            meant, shard = batch.column(0).to_numpy() == self.at, batch.column(1).to_numpy()
            for row in meant.nonzero()[0].tolist():
                given[int(shard[row])].append(memoryview(batch.column(3)[row].as_buffer()))
            if not meant.all():
                yield batch.filter(pa.array(~meant))
        if self.judge is not None:
            for sent in self._judged(self.judge, task, given, watch):
                yield rows_of(sent)
        else:
            for number, bodies in sorted(given.items()):
                yield rows_of(plainly_decided(book, Telling(task, number), bodies, watch, self.clock_ms()))
        yield rows_of([(OUT, 0, "spent", watch.to_json())])

    def _judged(
        self, judge: Judge, task: Task, given: Mapping[int, Sequence[memoryview]], watch: Stopwatch
    ) -> list[Sent]:
        """Nobody can tell a task to stop waiting, but Spark ends it where the pipeline is stopped."""
        pause_s = PAUSE_S
        while True:
            try:
                return list(judge(task, 0, given, watch))
            except SinkError as error:
                if not self.patient:
                    raise
                log.warning("decisions cannot be told; holding the batch", batch_id=task.batch_id, error=str(error))
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, PAUSE_S_MAX)


def _given(bodies: Sequence[bytes | memoryview]) -> _Given:
    found = _Given()
    for body in bodies:
        found.take(body_of(body))
    return found


def plainly_decided(
    book: Book, telling: Telling, bodies: Sequence[bytes | memoryview], watch: Stopwatch, now_ms: int
) -> Sent:
    """What is decided of what a batch has for a shard of ids, where nothing is revised."""
    watch.start()
    decided = _decided(book, _given(bodies), now_ms)
    watch.lap("decide")
    told = telling.tell(book, decided)
    watch.lap("write")
    return [(OUT, 0, "decisions", orjson.dumps(told))] if told else []


def decided_shard(
    book: Book, state: ShardState, telling: Telling, bodies: Sequence[bytes | memoryview], watch: Stopwatch
) -> tuple[Sent, list[LayerDelta]]:
    """What is decided, and revised, of what a batch has for a shard of ids.

    ``state`` is moved on in place; what was added to it is returned too.
    """
    watch.start()
    given, now_ms = _given(bodies), time.time_ns() // 1_000_000
    decided = _decided(book, given, now_ms)
    for stream, logs in given.clocks.items():
        known = state.log_clock.setdefault(stream, {})
        known |= {log: max(ms, known.get(log, ms)) for log, ms in logs.items()}
    deltas = []
    for plan in book.kept_at(0):
        store = store_of(state, plan.layers[0])
        if not isinstance(store, DecidedStore):
            raise TypeError(f"{plan.stream}: found {type(store).__name__} where decided records are kept")
        revised, changed = _revised(book, store, plan.stream, given, now_ms)
        decided += revised
        if changed:
            deltas.append(LayerDelta(plan.layers[0].layer.name, store.delta_of(changed), ()))
        horizon_ms = state.horizon_ms(plan.stream, book.bounds)
        if horizon_ms is not None:
            evict([plan.layers[0].layer], state, horizon_ms)
    watch.lap("decide")
    told = telling.tell(book, decided)
    watch.lap("write")
    return ([(OUT, 0, "decisions", orjson.dumps(told))] if told else []), deltas


def _revised(book: Book, store: DecidedStore, stream: str, given: _Given, now_ms: int) -> tuple[Decided, list[Which]]:
    """The revisions of decisions on records of ``stream``, and the records of which something new is known."""
    deciding, in_force = book.deciding, RulesInForce(book.rules, stream)
    if deciding is None:
        raise ValueError("there is nothing to decide by: the book has no policy")
    changed: dict[Which, None] = {}
    for which, (_, record) in given.records.items():
        hits = {hit.known_by: hit for hit in given.hits.get(which, ())}
        if which[0] == stream and (hits or which in given.copies):
            store.put(
                which, None if which in given.copies else Known(record, deciding.policy.version, hits), record.event_ms
            )
            changed[which] = None
    found: Decided = []
    # In the order in which the records came that brought them about, whatever the order in which they are told.
    mine = [each for each in given.changes if each[1][0] == stream]
    mine.sort(key=lambda each: (each[0][1], each[0][0], each[3].because))
    for (_, which), group in groupby(mine, key=lambda each: (each[0][1], each[1])):
        changes = list(group)
        order = changes[0][0][0][:6]
        record = changes[0][2]
        if which not in store.known:
            store.put(which, Known(record, deciding.policy.version), record.event_ms)
        known = store.known[which]
        revised = None if known is None else revise(deciding.policy, known, [change for *_, change in changes])
        changed[which] = None
        if known is not None and revised is not None:
            said = revision_json(known, *revised, in_force.digest(record.ingest_ms), now_ms)
            told = said if deciding.sink_topic is None else {**said, "sink_topic": deciding.sink_topic}
            found.append(([*order, which[2], which[1]], told))
    return found, list(changed)


def _decided(book: Book, given: _Given, decided_ms: int) -> Decided:
    """The decision of each record, with the record's place."""
    deciding = book.deciding
    if deciding is None:
        raise ValueError("there is nothing to decide by: the book has no policy")
    rules: dict[str, RulesInForce] = {}
    found: Decided = []
    for place, record, hits in given.decidable():
        in_force = rules.get(record.stream)
        if in_force is None:
            in_force = rules[record.stream] = RulesInForce(book.rules, record.stream)
        decision = decide(deciding.policy, record, hits)
        said = decision.to_json(in_force.digest(record.ingest_ms), decided_ms)
        found.append((place, said if deciding.sink_topic is None else {**said, "sink_topic": deciding.sink_topic}))
    return found
