"""A pipeline's life without Spark: batches, publications, pasts, restarts, each by the code that runs them.

Records become JSON lines in chunks of one log; routing, judging, the log of segments on disk, the book, the taking up
of rules and the reading of pasts are the real ones. Spark's part, which is to hand chunks out and to write offsets and
commits, is played here.
"""

from __future__ import annotations

import math
import shutil
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from crossline.core.alerts.alertjson import read_alerts
from crossline.core.basics.times import FOREVER_MS
from crossline.core.decode import decode_lines, make_layout
from crossline.core.judge.shard import Bounds, Position, StreamClocks
from crossline.core.route.pack import pack
from crossline.core.route.parts import Chunk, route
from crossline.core.rules.base import Defaults
from crossline.core.rules.ruleset import RuleSet, read_rule
from crossline.core.streams.schema import StreamSpec
from crossline.engine.book import book as books
from crossline.engine.book.book import Book, BookFile, BookSource
from crossline.engine.changes.changes import RuleChanges
from crossline.engine.changes.past import PastReader
from crossline.engine.hops.hops import OUT
from crossline.engine.hops.judging import Judging
from crossline.engine.source.plan_source import SourcePlan
from crossline.engine.state import cache as caching
from crossline.engine.state.cache import ShardCache
from crossline.engine.state.history import HistoryLog
from crossline.engine.work.stopwatch import Stopwatch
from crossline.rulelog.directory import PREVIEW_MS
from crossline.rulelog.listlog import ListLog, ListVersion

from .conditions import Timed
from .strategies import LISTS, STREAM, Body, Record, wire_record

Told = tuple[list[dict[str, Any]], list[Position], list[Position]]


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

    def told_lists(self) -> dict[str, Timed]:
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

    def _set(self, bodies: Sequence[Body]) -> RuleSet:
        made = [read_rule(body)[0] for body in bodies]
        return RuleSet.from_rules(rule for rule in made if rule is not None)

    def start(self) -> tuple[RuleSet, ListLog]:
        return self._set(self.logged), self.logged_lists()

    def events(self) -> list[dict[str, Any]]:
        return []

    def changed(self) -> bool:
        return bool(self.waiting or self.waiting_lists)

    def preview(self) -> tuple[RuleSet, ListLog]:
        rules = self._set([*self.logged, *({**body, "effective_from": PREVIEW_MS} for body in self.waiting)])
        return rules, _log_of(self._with_waiting(PREVIEW_MS))

    def note(self, event: str, text: str) -> dict[str, Any]:
        self.noted.append(text)
        return {"event": event, "text": text}

    def take_up(self, highest_ingest_ms: Mapping[str, int]) -> tuple[RuleSet, ListLog, list[dict[str, Any]]]:
        at = {"effective_from": highest_ingest_ms[STREAM] + 1} if STREAM in highest_ingest_ms else {}
        self.logged += [{**body, **at} for body in self.waiting]
        self.waiting = []
        self.lists = self._with_waiting(highest_ingest_ms[STREAM] + 1 if STREAM in highest_ingest_ms else -math.inf)
        self.waiting_lists = {}
        return self._set(self.logged), self.logged_lists(), []

    def close(self) -> None:
        pass


class _Context:
    """What threads tell tasks through Spark."""

    def __init__(self) -> None:
        self.sparkContext, self.local = self, dict[str, str | None]()

    def getLocalProperty(self, name: str) -> str | None:  # noqa: N802 - Spark's name
        return self.local.get(name)

    def setLocalProperty(self, name: str, value: str | None) -> None:  # noqa: N802 - as above
        self.local[name] = value


@dataclass
class Life:
    """One stream judged in ``folder``. ``killed``: what a batch gave that was run and not delivered."""

    folder: Path
    spec: StreamSpec
    defaults: Defaults
    shards: int
    lag_ms: int
    feed: Feed
    chunks: list[tuple[int, bytes]] = field(default_factory=list)  # first byte, lines
    batches: int = 0
    alerts: list[dict[str, Any]] = field(default_factory=list)
    duplicates: list[Position] = field(default_factory=list)
    late: list[Position] = field(default_factory=list)

    def start(self) -> None:
        """As a process starts on what is on disk."""
        caching._CACHE.clear()
        books._READ.clear()
        self.spark = _Context()
        self.history = HistoryLog(str(self.folder))
        source = SourcePlan(STREAM, None, None, None, self._rows, slice_max=1)  # type: ignore[arg-type]
        root = str(self.folder / "state")
        past = PastReader(self.spark, [source], self.history, root, 2 * self.shards, self._plan)  # type: ignore[arg-type]
        book = Book(RuleSet(), {STREAM: self.spec}, self.defaults, self.shards, Bounds(self.lag_ms))
        known = BookFile(str(self.folder / "book.json"))
        before = known.current() if Path(known.path).exists() else None
        self.cache = ShardCache(root, per_query=False, held_max=self.shards)
        self.changes = RuleChanges(book, before, self.feed, self.history, str(self.folder), past, threading.Event())
        self.changes.start()

    @staticmethod
    def _rows(_: Any, start: dict[str, Any] | None, end: dict[str, Any]) -> list[int]:
        return list(range(start["chunk"] if start else 0, end["chunk"]))

    def _plan(self, raw: tuple[list[int], Any], source: BookSource, cache: ShardCache) -> Any:
        life = self

        class Planned:
            def count(self) -> None:
                query, batch = life.spark.local["sql.streaming.queryId"], life.spark.local["streaming.sql.batchId"]
                list(life._judged(raw[0], source, cache, str(query), int(str(batch))))

        return Planned()

    def _judged(
        self, chunks: Sequence[int], source: BookSource, cache: ShardCache, query: str, batch: int
    ) -> Iterator[tuple[str, bytes]]:
        book = source.current()
        blobs: list[list[bytes]] = [[] for _ in range(book.shards)]
        for number in chunks:
            start, data = self.chunks[number]
            decoded = decode_lines(make_layout(STREAM, self.spec), data, "log", start)
            assert not decoded.dead
            parts = route(book.plan(STREAM), decoded.records, Chunk(STREAM, number, "log"), book.shards, book.lists)
            for shard, mine in enumerate(blobs):
                mine.append(pack(part for part in parts if part.shard == shard))
        for level in range(1, book.depth + 1):
            work, further = Judging(source, cache, query, batch, level), [list[bytes]() for _ in range(book.shards)]
            for shard, mine in enumerate(blobs):
                for hop, to, kind, body in work.shard(shard, mine, Stopwatch()):
                    if hop == OUT:
                        yield kind, body
                    else:
                        further[to].append(body)
            blobs = further

    def take_in(self, records: Sequence[Record], pieces: int) -> None:
        """The next records stand in the log, in chunks."""
        for piece in range(pieces):
            mine = records[len(records) * piece // pieces : len(records) * (piece + 1) // pieces]
            start = sum(len(data) for _, data in self.chunks)
            self.chunks.append((start, b"".join(orjson.dumps(wire_record(each)) + b"\n" for each in mine)))

    def plan_batch(self) -> list[int]:
        """Spark plans the next batch: all chunks that none has."""
        done = self._planned(self.batches - 1)["chunk"] if self.batches else 0
        self._write("offsets", f'v1\n{{}}\n{{"chunk":{len(self.chunks)}}}')
        return list(range(done, len(self.chunks)))

    def _planned(self, batch: int) -> dict[str, int]:
        lines = (self.folder / "spark" / "offsets" / str(batch)).read_text().splitlines()
        return dict(orjson.loads(lines[2]))

    def _write(self, log: str, text: str) -> None:
        path = self.folder / "spark" / log / str(self.batches)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def judge(self, chunks: Sequence[int]) -> Told:
        """As a batch is judged, up to what its sinks would get."""
        alerts: list[dict[str, Any]] = []
        found: dict[str, list[Position]] = {"duplicates": [], "late": []}
        with self.changes.judging():
            for kind, body in self._judged(chunks, self.changes.file, self.cache, "query", self.batches):
                if kind == "alerts":
                    alerts += read_alerts(body)
                elif kind == "figures":
                    clocks = orjson.loads(body)["clocks"]
                    self.changes.judged({name: StreamClocks(**each) for name, each in clocks.items()})
                elif kind in found:
                    found[kind] += [Position(**each) for each in orjson.loads(body)]
        return alerts, found["duplicates"], found["late"]

    def deliver(self, told: Told) -> None:
        """The sinks have it, and the mark is written."""
        alerts, duplicates, late = told
        self.alerts += alerts
        self.duplicates += duplicates
        self.late += late
        self.history.add(self.batches, self.changes.clocks)
        self.changes.delivered(self.batches)

    def commit(self) -> None:
        """Spark is done with the batch."""
        self._write("commits", "v1\n{}")
        self.batches += 1

    def look(self) -> None:
        """As the thread does that watches for rules, while no batch runs or one is held."""
        self.changes._look()

    def between(self) -> None:
        """As the same thread does when no batch runs."""
        self.changes._between()

    def read_ahead(self) -> None:
        """The past of what waits is read up to here; batches go on before it is logged."""
        if self.feed.waiting:
            assert self.changes._past is not None
            rules, lists = self.feed.preview()
            self.changes._past.read(self.changes._book, self.changes._next(rules, lists), lists)

    def lose(self, shard: int) -> None:
        """The process that held a shard is gone."""
        for key in [key for key in caching._CACHE if key[2] == shard]:
            del caching._CACHE[key]

    def end(self) -> None:
        """Let go of the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)
