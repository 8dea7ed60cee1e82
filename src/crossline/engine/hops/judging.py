"""The judging of one batch of one shard, from packed parts to outcome rows: where the shard's state is."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import orjson

from crossline.core.alerts.alert import alerts_of
from crossline.core.alerts.alertjson import json_bytes
from crossline.core.judge.shard import ShardOutput, judge
from crossline.engine.book.book import Book, BookSource
from crossline.engine.hops.aside import parts_of
from crossline.engine.hops.deciding import deciding_rows
from crossline.engine.state.cache import Rows, ShardCache
from crossline.engine.work.stopwatch import Stopwatch


@dataclass(frozen=True, slots=True)
class Judging:
    """By what, and for which batch of which query, shards are judged: plain values that travel between processes.

    ``cache`` None: a batch job, whose state ends with it.
    """

    source: BookSource
    cache: ShardCache | None
    query_id: str
    batch_id: int

    def shard(self, shard: int, blobs: Sequence[bytes | memoryview], watch: Stopwatch) -> Rows:
        """Judge what the batch has for ``shard``; rows (kind, body) of what came of it."""
        book = self.source.current()
        if self.cache is not None:
            known = self.cache.answer(book, self.query_id, shard, self.batch_id)
            if known is not None:
                return known
        watch.start()
        parts = list(parts_of(blobs, f"parts of batch {self.batch_id} for shard {shard}"))
        watch.lap("unpack")
        if self.cache is None:
            output = judge(book.plans(), book.new_state(), parts, book.bounds)
            watch.lap("judge")
            return outcome_of(book, output)
        with self.cache.shard(book, self.query_id, shard, self.batch_id) as held:
            watch.lap("state")
            output = judge(book.plans(), held.state, parts, book.bounds)
            rows = outcome_of(book, output)
            watch.lap("judge")
            held.commit(output.deltas, rows)
            watch.lap("log")
        return rows


def outcome_of(book: Book, output: ShardOutput) -> Rows:
    """What came of a batch of a shard, as rows (kind, body); hits become alerts here, detected now."""
    rows: Rows = []
    alerts = alerts_of(book.plans(), output.hits, time.time_ns() // 1_000_000) if output.hits else []
    if alerts:
        rows += [("alerts", json_bytes(alerts)), ("places", orjson.dumps([hit.place for hit in output.hits]))]
    if book.deciding is not None:
        rows += deciding_rows(book, output, alerts)
    for kind, positions in (("duplicates", output.duplicates), ("late", output.late)):
        if positions:
            rows.append((kind, orjson.dumps([asdict(p) for p in positions])))
    figures = {"records": output.records, "clocks": output.clocks, "retained": output.retained}
    rows.append(("figures", orjson.dumps(figures, option=orjson.OPT_SERIALIZE_NUMPY)))
    return rows
