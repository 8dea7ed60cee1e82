"""A pipeline's life without Spark: batches, publications, backfills, restarts, each by the code that runs them.

Records become JSON lines in chunks of one log; routing, judging, the log of segments on disk, the plan snapshot, the
taking up of rules and the reading of backfills are the real ones. Spark's part, which is to hand chunks out and to
write offsets and commits, is played here.
"""

from __future__ import annotations

import math
import shutil
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import orjson

from crossline.basics.streams.schema import StreamSpec
from crossline.basics.times import FOREVER_MS
from crossline.evaluate.alerts.alert_json import read_alerts
from crossline.evaluate.bounds import Bounds
from crossline.evaluate.output import Position, StreamClocks
from crossline.ingest.decode import decode_lines, make_layout
from crossline.ingest.enrich.versions import Tables
from crossline.ingest.route.part_codec import pack
from crossline.ingest.route.partitioner import Chunk
from crossline.rule_registry.directory import PREVIEW_MS
from crossline.rule_registry.list_log import ListLog, ListVersion
from crossline.rule_registry.table_log import TableLog
from crossline.rules.base import Defaults
from crossline.rules.policy.policy import Deciding
from crossline.rules.rule_reader import read_rule
from crossline.rules.ruleset import RuleSet
from crossline.runtime.changes.backfill import BackfillReader
from crossline.runtime.changes.rule_changes import RuleChanges
from crossline.runtime.changes.rule_feed import LoggedTimes
from crossline.runtime.changes.stored_past import StoredIntake, StoredPast
from crossline.runtime.snapshot import snapshot as snapshots
from crossline.runtime.snapshot.snapshot import PlanSnapshot, SnapshotFile, SnapshotSource
from crossline.runtime.snapshot.spark_log import offsets_of
from crossline.runtime.sources.intake import DecodedRows
from crossline.runtime.sources.plan_source import SourcePlan
from crossline.runtime.stages.outcome import collect_outcome
from crossline.runtime.stages.rows import DECIDED, DECISIONS
from crossline.runtime.stages.shard_judge import ShardJudge
from crossline.runtime.stages.stages import OUT, parts_of
from crossline.runtime.state_log import cache as caching
from crossline.runtime.state_log.cache import ShardCache
from crossline.runtime.state_log.offset_history import OffsetHistory
from crossline.runtime.work.stopwatch import Stopwatch
from crossline.runtime.work.task import Task

from .conditions import Timed
from .strategies import LISTS, STREAM, Body, Record, wire_record
from .tables import Content as Rows
from .tables import NaiveTable, Row

BatchOutput = tuple[list[dict[str, Any]], list[Position], list[Position]]
Piece = tuple[str, int]  # a chunk, by its stream and number


Entries = Sequence[tuple[Any, float | None]]  # each value with its end
Content = tuple[float, Entries]  # from when it holds


def _first(values: Iterable[Any]) -> Content:
    return -math.inf, [(value, None) for value in values]


def _log_of(lists: Mapping[str, Sequence[Content]]) -> ListLog:
    """The log that the pipeline has of these contents, each known by its number."""

    def read(source: str, digest: str) -> list[tuple[Any, int]]:
        entries = lists[source][int(digest)][1]
        return [(value, FOREVER_MS if until_ms is None else int(until_ms)) for value, until_ms in entries]

    log = ListLog(read)
    for name, contents in lists.items():
        for number, (from_ms, _) in enumerate(contents):
            begins = {} if from_ms == -math.inf else {STREAM: int(from_ms)}
            log = log.then(name, ListVersion(name, str(number), begins))
    return log


@dataclass
class Feed:
    """Bodies as they are published; the log gives each the instant from which it holds."""

    logged: list[Body] = field(default_factory=list)
    waiting: list[Body] = field(default_factory=list)
    lists: dict[str, list[Content]] = field(default_factory=lambda: {name: [_first(v)] for name, v in LISTS.items()})
    waiting_lists: dict[str, Entries] = field(default_factory=dict)
    noted: list[str] = field(default_factory=list)
    tables: list[NaiveTable] = field(default_factory=list)
    waiting_tables: dict[str, Sequence[Row]] = field(default_factory=dict)
    log_tables: Callable[[Sequence[NaiveTable]], TableLog] | None = None
    prune: Callable[[Collection[str]], None] | None = None

    def twin_lists(self) -> dict[str, Timed]:
        """The lists as the twin takes them."""
        return {name: Timed(contents) for name, contents in self.lists.items()}

    def logged_lists(self) -> ListLog:
        return _log_of(self.lists)

    def _with_waiting(self, from_ms: float) -> dict[str, list[Content]]:
        lists = dict(self.lists)
        for name, entries in self.waiting_lists.items():
            there = lists.get(name, [])
            lists[name] = [*there, (from_ms if there else -math.inf, entries)]
        return lists

    def _tables_with_waiting(self, from_ms: int | None) -> list[NaiveTable]:
        tables = [replace(each, contents=list(each.contents)) for each in self.tables]
        for each in tables:
            if each.name in self.waiting_tables:
                each.contents.append(Rows(from_ms, self.waiting_tables[each.name]))
        return tables

    def _times(self, lists: ListLog, tables: Sequence[NaiveTable]) -> LoggedTimes:
        return LoggedTimes(lists, self.log_tables(tables) if self.log_tables is not None else None)

    def _set(self, bodies: Sequence[Body]) -> RuleSet:
        made = [read_rule(body)[0] for body in bodies]
        return RuleSet.from_rules(rule for rule in made if rule is not None)

    def start(self) -> tuple[RuleSet, LoggedTimes]:
        return self._set(self.logged), self._times(self.logged_lists(), self.tables)

    def events(self) -> list[dict[str, Any]]:
        return []

    def changed(self) -> bool:
        return bool(self.waiting or self.waiting_lists or self.waiting_tables)

    def refusals(self) -> list[dict[str, Any]]:
        return []

    @property
    def tables_alone(self) -> bool:
        return not (self.waiting or self.waiting_lists)

    def preview(self) -> tuple[RuleSet, LoggedTimes]:
        rules = self._set([*self.logged, *({**body, "effective_from": PREVIEW_MS} for body in self.waiting)])
        lists = _log_of(self._with_waiting(PREVIEW_MS))
        return rules, self._times(lists, self._tables_with_waiting(PREVIEW_MS))

    def note(self, event: str, text: str) -> dict[str, Any]:
        self.noted.append(text)
        return {"event": event, "text": text}

    def take_up(self, highest_ingest_ms: Mapping[str, int]) -> tuple[RuleSet, LoggedTimes, list[dict[str, Any]]]:
        at = {"effective_from": highest_ingest_ms[STREAM] + 1} if STREAM in highest_ingest_ms else {}
        self.logged += [{**body, **at} for body in self.waiting]
        self.waiting = []
        self.lists = self._with_waiting(highest_ingest_ms[STREAM] + 1 if STREAM in highest_ingest_ms else -math.inf)
        self.waiting_lists = {}
        self.tables = self._tables_with_waiting(at.get("effective_from"))
        self.waiting_tables = {}
        return *self.start(), []

    def in_force(self, tables: Tables) -> None:
        if self.prune is not None:
            self.prune({each.path for versions in tables.values() for each in versions})

    def close(self) -> None:
        pass


class _Context:
    """The job properties by which threads pass values to tasks through Spark."""

    def __init__(self) -> None:
        self.sparkContext, self.local = self, dict[str, str | None]()

    def getLocalProperty(self, name: str) -> str | None:  # noqa: N802 - Spark's name
        return self.local.get(name)

    def setLocalProperty(self, name: str, value: str | None) -> None:  # noqa: N802 - as above
        self.local[name] = value


@dataclass
class Life:
    """One stream judged in ``folder``, beside ``others``: a record names one of these as ``_stream``.

    ``killed``: what a batch gave that was run and not delivered.
    """

    folder: Path
    spec: StreamSpec
    defaults: Defaults
    shards: int
    lag_ms: int
    feed: Feed
    others: Mapping[str, StreamSpec] = field(default_factory=dict)
    logs: dict[str, list[tuple[int, bytes]]] = field(default_factory=dict)  # by stream: first byte, lines
    batches: int = 0
    alerts: list[dict[str, Any]] = field(default_factory=list)
    duplicates: list[Position] = field(default_factory=list)
    late: list[Position] = field(default_factory=list)
    deciding: Deciding | None = None
    decided: list[dict[str, Any]] = field(default_factory=list)  # of the batch that was judged last
    stored: StoredPast | None = None
    first: Callable[[dict[str, Any]], dict[str, Any]] | None = None  # the first chunk that the source still has

    @property
    def streams(self) -> dict[str, StreamSpec]:
        return {STREAM: self.spec, **self.others}

    @property
    def chunks(self) -> list[tuple[int, bytes]]:
        """Those of the stream itself."""
        return self.logs.setdefault(STREAM, [])

    def start(self) -> None:
        """As a process starts on what is on disk."""
        caching._CACHE.clear()
        snapshots._READ.clear()
        self.spark = _Context()
        self.history = OffsetHistory(str(self.folder))
        sources = [
            SourcePlan(stream, None, None, None, partial(self._rows, stream), slice_max=1, first=self.first)  # type: ignore[arg-type]
            for stream in self.streams
        ]
        root = str(self.folder / "state")
        backfill = BackfillReader(self.spark, sources, self.history, root, 2 * self.shards, self._plan)  # type: ignore[arg-type]
        backfill.stored, backfill.stored_frame = self.stored, lambda _, batches: batches  # type: ignore[assignment,return-value]
        snapshot = PlanSnapshot(
            RuleSet(), self.streams, self.defaults, self.shards, Bounds(self.lag_ms), deciding=self.deciding
        )
        known = SnapshotFile(str(self.folder / "snapshot.json"))
        before = known.current() if Path(known.path).exists() else None
        self.cache = ShardCache(root, per_query=False, held_max=self.shards)
        self.changes = RuleChanges(
            snapshot, before, self.feed, self.history, str(self.folder), backfill, threading.Event()
        )
        self.changes.start()

    def _rows(self, stream: str, _: Any, start: dict[str, Any] | None, end: dict[str, Any]) -> list[Piece]:
        return [(stream, number) for number in range(start["chunk"] if start else 0, end["chunk"])]

    def _plan(self, raw: Sequence[tuple[list[Piece], Any]], source: SnapshotSource, cache: ShardCache) -> Any:
        life = self

        class Planned:
            def count(self) -> None:
                query, batch = life.spark.local["sql.streaming.queryId"], life.spark.local["streaming.sql.batchId"]
                pieces = [(piece, intake) for rows, intake in raw for piece in rows]
                decoded = life._decoded(source.current(), pieces)
                list(life._judged(decoded, source, cache, str(query), int(str(batch))))

        return Planned()

    def _decoded(self, snapshot: PlanSnapshot, pieces: Iterable[tuple[Any, Any]]) -> DecodedRows:
        """Chunks of the log, and batches of rows of a store."""
        for piece, intake in pieces:
            if isinstance(intake, StoredIntake):
                yield from intake.inner.decode(snapshot, piece, Task(0, 0, 1), 0)
                continue
            stream, number = piece
            start, data = self.logs[stream][number]
            partition = "log" if stream == STREAM else stream
            decoded = decode_lines(make_layout(stream, self.streams[stream]), data, partition, start)
            assert not decoded.dead
            yield decoded, Chunk(stream, number, partition)

    def _judged(
        self, chunks: DecodedRows, source: SnapshotSource, cache: ShardCache, query: str, batch: int
    ) -> Iterator[tuple[str, bytes]]:
        snapshot = source.current()
        given: dict[tuple[int, int], list[bytes]] = {}
        for decoded, chunk in chunks:
            for at, part in parts_of(snapshot, decoded.records, chunk):
                given.setdefault((at, part.shard), []).append(pack([part]))
        for depth in range(1, snapshot.depth + 1):
            work = ShardJudge(source, cache, query, batch, depth)
            for shard in range(snapshot.shards):
                for stage, to, kind, body in work.shard(shard, given.get((depth, shard), []), Stopwatch()):
                    if stage == OUT:
                        yield kind, body
                    else:
                        given.setdefault((stage, to), []).append(body)
        if snapshot.deciding is not None and cache is self.cache:
            yield from self._decisions(snapshot, ShardJudge(source, cache, query, batch, 0), given)

    @staticmethod
    def _decisions(
        snapshot: PlanSnapshot, work: ShardJudge, given: Mapping[tuple[int, int], list[bytes]]
    ) -> Iterator[tuple[str, bytes]]:
        work = work if snapshot.revises_ms is not None else replace(work, cache=None)
        for shard in range(snapshot.shards):
            for _, _, kind, body in work.shard(shard, given.get((snapshot.depth + 1, shard), []), Stopwatch()):
                yield kind, body

    def take_in(self, records: Sequence[Record], pieces: int) -> None:
        """The next records stand in the log, in chunks."""
        for stream in self.streams:
            of = [each for each in records if each.get("_stream", STREAM) == stream]
            log = self.logs.setdefault(stream, [])
            for piece in range(pieces if of else 0):
                mine = of[len(of) * piece // pieces : len(of) * (piece + 1) // pieces]
                start = sum(len(data) for _, data in log)
                log.append((start, b"".join(orjson.dumps(wire_record(each)) + b"\n" for each in mine)))

    def plan_batch(self) -> list[Piece]:
        """Spark plans the next batch: all chunks that none has."""
        done = offsets_of(str(self.folder), self.batches - 1) if self.batches else [None] * len(self.streams)
        ends = [len(self.logs.get(stream, ())) for stream in self.streams]
        self._write("offsets", "\n".join(["v1", "{}", *(f'{{"chunk":{end}}}' if end else "-" for end in ends)]))
        offsets = zip(self.streams, done, ends, strict=True)
        return [piece for name, start, end in offsets for piece in self._rows(name, None, start, {"chunk": end})]

    def _write(self, log: str, text: str) -> None:
        path = self.folder / "spark" / log / str(self.batches)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def judge(self, chunks: Sequence[Piece]) -> BatchOutput:
        """As a batch is judged, up to what its sinks would get."""
        alerts: list[dict[str, Any]] = []
        found: dict[str, list[Position]] = {"duplicates": [], "late": []}
        decisions = []
        with self.changes.judging():
            decoded = self._decoded(self.changes.file.current(), [(piece, None) for piece in chunks])
            for kind, body in self._judged(decoded, self.changes.file, self.cache, "query", self.batches):
                if kind == "alerts":
                    alerts += read_alerts(body)
                elif kind == "figures":
                    clocks = orjson.loads(body)["clocks"]
                    self.changes.judged({name: StreamClocks(**each) for name, each in clocks.items()})
                elif kind in {DECISIONS, DECIDED}:
                    decisions.append((kind, body))
                elif kind in found:
                    found[kind] += [Position(**each) for each in orjson.loads(body)]
        self.decided = [dict(each) for each in collect_outcome(decisions, None).decisions]
        return alerts, found["duplicates"], found["late"]

    def deliver(self, reported: BatchOutput) -> None:
        """The sinks have it, and the mark is written."""
        alerts, duplicates, late = reported
        self.alerts += alerts
        self.duplicates += duplicates
        self.late += late
        self.history.add(self.batches, self.changes.clocks)
        self.changes.delivered(self.batches)

    def commit(self) -> None:
        """Spark is done with the batch."""
        self._write("commits", "v1\n{}")
        self.batches += 1

    def side_input(self) -> None:
        """As the thread does that watches for rules, while no batch runs or one is held."""
        self.changes._look()

    def between(self) -> None:
        """As the same thread does when no batch runs."""
        self.changes._between()

    def read_ahead(self) -> None:
        """The past of what waits is read up to here; batches go on before it is logged."""
        if self.feed.waiting:
            assert self.changes._backfill is not None
            rules, lists = self.feed.preview()
            self.changes._backfill.read(self.changes._snapshot, self.changes._next(rules, lists), lists)

    def lose(self, shard: int) -> None:
        """The process that held a shard is gone."""
        for key in [key for key in caching._CACHE if key[2] == shard]:
            del caching._CACHE[key]

    def end(self) -> None:
        """Let go of the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)
