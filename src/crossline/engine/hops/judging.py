"""The judging of one batch of one shard, from packed parts to outcome rows: where the shard's state is."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import orjson

from crossline.core.alerts.alert import alerts_of
from crossline.core.alerts.alertjson import json_bytes
from crossline.core.judge.onward import onward
from crossline.core.judge.shard import ShardOutput, ShardState, judge
from crossline.core.route.pack import pack
from crossline.core.route.parts import Part
from crossline.engine.book.book import Book, BookSource
from crossline.engine.hops.aside import parts_of
from crossline.engine.hops.deciding import deciding_rows
from crossline.engine.hops.rows import OUT
from crossline.engine.state.cache import Rows, Sent, ShardCache
from crossline.engine.work.stopwatch import Stopwatch


@dataclass(frozen=True, slots=True)
class Judging:
    """By what, and for which batch of which query, shards are judged: plain values that travel between processes.

    ``cache`` None: a batch job, whose state ends with it. ``level``: of the plans that they are judged by.
    """

    source: BookSource
    cache: ShardCache | None
    query_id: str
    batch_id: int
    level: int = 1

    def shard(self, shard: int, blobs: Sequence[bytes | memoryview], watch: Stopwatch) -> Sent:
        """Judge what the batch has for ``shard``; rows (hop, shard, kind, body) of what came of it."""
        book = self.source.current()
        if self.cache is not None:
            known = self.cache.answer(book, self.query_id, shard, self.batch_id, self.level)
            if known is not None:
                return known
        watch.start()
        parts = list(parts_of(blobs, f"parts of batch {self.batch_id} for shard {shard}"))
        watch.lap("unpack")
        if self.cache is None:
            state = book.new_state()
            output = judge(book.plans_at(self.level), state, parts, book.bounds)
            watch.lap("judge")
            return sent(book, self.level, output, state)
        with self.cache.shard(book, self.query_id, shard, self.batch_id, self.level) as held:
            watch.lap("state")
            output = judge(book.plans_at(self.level), held.state, parts, book.bounds)
            rows = sent(book, self.level, output, held.state)
            watch.lap("judge")
            held.commit(output.deltas, rows)
            watch.lap("log")
        return rows


def sent(book: Book, level: int, output: ShardOutput, state: ShardState) -> Sent:
    """What came of a batch of a shard: its outcome, which is for nobody in here, and hits for those who read them.

    Hits become alerts here, detected now.
    """
    alerts = alerts_of(book.plans(), output.hits, time.time_ns() // 1_000_000) if output.hits else []
    rows: Sent = [(OUT, 0, *row) for row in outcome_of(output, alerts)]
    if book.deciding is not None:
        rows += deciding_rows(book, output, alerts)
    by_shard: dict[int, list[Part]] = {}
    for part in onward(book.plans(), level, output.hits, state.log_clock, book.shards, book.lists):
        by_shard.setdefault(part.shard, []).append(part)
    return [*rows, *((level + 1, shard, "parts", pack(mine)) for shard, mine in by_shard.items())]


def outcome_of(output: ShardOutput, alerts: Sequence[Mapping[str, Any]]) -> Rows:
    """What came of a batch of a shard, as rows (kind, body); ``alerts``: of its hits."""
    rows: Rows = []
    if alerts:
        rows += [("alerts", json_bytes(alerts)), ("places", orjson.dumps([hit.place for hit in output.hits]))]
    for kind, positions in (("duplicates", output.duplicates), ("late", output.late)):
        if positions:
            rows.append((kind, orjson.dumps([asdict(p) for p in positions])))
    figures: dict[str, Any] = {"records": output.records, "clocks": output.clocks, "retained": output.retained}
    if output.failed:
        figures["failed"] = [[*failure, records] for failure, records in output.failed.items()]
    rows.append(("figures", orjson.dumps(figures, option=orjson.OPT_SERIALIZE_NUMPY)))
    return rows
