"""Batches of records that topics have deleted behind the last batch, from a store of records: the lake.

A checkpoint that was restored from the lake is older than what its pipeline had read. Where a topic has deleted the
records behind it, these batches are judged before the query starts, from the lake, and noted in Spark's own logs of
offsets and commits. The query goes on behind them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from crossline.io.files import state_files
from crossline.io.sinks.base import wall_clock_ms
from crossline.logs import get_logger
from crossline.runtime.changes.stored_past import StoredIntake, StoredPast, StoredSlice, StoredTail, stored_frame
from crossline.runtime.snapshot.checkpoint import RESTORED
from crossline.runtime.snapshot.spark_log import began_ms, last_committed, last_planned, offsets_of, query_id
from crossline.runtime.sources.intake import Intake
from crossline.runtime.sources.plan_source import SourcePlan, lacks
from crossline.runtime.spark.flow import union_of
from crossline.runtime.spark.task import as_batch

log = get_logger(__name__)

Offsets = list[dict[str, Any] | None]


@dataclass(frozen=True, slots=True)
class StoredBatches:
    """What a pipeline judges before its query starts.

    Attributes:
        spark: The session.
        checkpoint: The folder of the checkpoint.
        sources: In the order of Spark's offsets.
        stored: The store.
        run: Judges and delivers a batch.
    """

    spark: SparkSession
    checkpoint: str
    sources: Sequence[SourcePlan]
    stored: StoredPast
    run: Callable[[DataFrame, Intake, int], object]

    def judge(self) -> int:
        """Judge what the store has and a topic has not; the number of batches.

        None where the checkpoint was not restored, the topics have all, or the store lacks some: then the sources say
        what is missing.
        """
        restored = Path(self.checkpoint) / RESTORED
        if not restored.exists():
            return 0
        count = self._judged()
        if count is not None:
            restored.unlink()
        return count or 0

    def _judged(self) -> int | None:
        """The number of batches; None: some records are nowhere."""
        batch = last_committed(self.checkpoint)
        begins = offsets_of(self.checkpoint, batch)
        firsts = [
            source.first(dict(mine)) if source.first is not None and mine else {}
            for source, mine in zip(self.sources, begins, strict=True)
        ]
        if not any(lacks(mine, first) for mine, first in zip(begins, firsts, strict=True) if mine):
            return 0
        if any(source.first is None for source in self.sources):
            return None  # the chunks of files that the lake knows are not those of this checkpoint
        tail = self.stored.behind(self._by_stream(begins))
        ends = None if tail is None else self._in_order(tail.ends, begins)
        planned = offsets_of(self.checkpoint, batch + 1) if last_planned(self.checkpoint) > batch else None
        wanted: list[Sequence[Mapping[str, Any] | None]] = [firsts, *([planned] if planned is not None else [])]
        if tail is None or ends is None or any(_short(ends, each) for each in wanted):
            return None
        log.warning("topics have deleted records behind the checkpoint: they are judged from the lake", after=batch)
        return self._judge(tail, batch, begins, planned)

    def _judge(self, tail: StoredTail, batch: int, begins: Offsets, planned: Offsets | None) -> int:
        count = 0
        if planned is not None:  # it comes again under its number, with its records
            mine = list(tail.slices(self._by_stream(begins), self._by_stream(planned)))
            count += 1
            self._run(_together(mine), batch + count)
            begins = planned
        for each in tail.slices(self._by_stream(begins), tail.ends):
            begins, count = self._in_order(each.ends, begins), count + 1
            self._plan(batch + count, begins)
            self._run(each.rows, batch + count)
        return count

    def _run(self, rows: Mapping[str, Sequence[pa.RecordBatch]], batch: int) -> None:
        inputs = [
            (stored_frame(self.spark, rows.get(source.stream, ())), StoredIntake(self.stored.intake(source.stream)))
            for source in self.sources
        ]
        with as_batch(self.spark, query_id(self.checkpoint), batch, began_ms(self.checkpoint, batch)):
            self.run(*union_of(inputs), batch)
        logs = Path(self.checkpoint) / "spark" / "commits"
        state_files.put(logs / str(batch), (logs / str(batch - 1)).read_bytes())

    def _plan(self, batch: int, ends: Offsets) -> None:
        """Note where a batch ends, as Spark does before it runs."""
        logs = Path(self.checkpoint) / "spark" / "offsets"
        version, metadata, *_ = (logs / str(batch - 1)).read_text().splitlines()
        now = orjson.dumps({**orjson.loads(metadata), "batchTimestampMs": wall_clock_ms()}).decode()
        lines = ["-" if each is None else orjson.dumps(each).decode() for each in ends]
        state_files.put(logs / str(batch), "\n".join([version, now, *lines]).encode())

    def _by_stream(self, offsets: Offsets) -> dict[str, Mapping[str, Any]]:
        return {source.stream: each or {} for source, each in zip(self.sources, offsets, strict=True)}

    def _in_order(self, ends: Mapping[str, Mapping[str, Any]], before: Offsets) -> Offsets:
        """``ends`` by source; a source that gave nothing stands where it stood."""
        found = (ends.get(source.stream) or mine for source, mine in zip(self.sources, before, strict=True))
        return [None if each is None else dict(each) for each in found]


def _short(ends: Offsets, wanted: Sequence[Mapping[str, Any] | None]) -> bool:
    """Whether ``ends`` do not reach ``wanted``."""
    return any(lacks(mine, each) for mine, each in zip(ends, wanted, strict=True) if each)


def _together(slices: Sequence[StoredSlice]) -> dict[str, list[pa.RecordBatch]]:
    found: dict[str, list[pa.RecordBatch]] = {}
    for each in slices:
        for stream, rows in each.rows.items():
            found.setdefault(stream, []).extend(rows)
    return found
