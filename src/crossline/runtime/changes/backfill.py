"""The past of a rule that comes while the pipeline runs.

A new state store starts with the records that its windows could reach, read again from the source up to where
the pipeline stands. Without that, a rule published now would differ for a while from the same rule in a backtest.

The past is read in slices that end where batches ended, each judged on the state of the slices before, as batches are:
the log that this writes is the past, and no more than a slice is held beside the windows. Slices are read while
batches go on; the last step reads the records of these batches and runs between two batches.

What a topic has deleted is read from a store of records, the lake, where there is one.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import blake2b
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from crossline.basics.errors import CrosslineError, StoppedError
from crossline.basics.streams.inputs import rule_of
from crossline.evaluate.shard import evict_before
from crossline.io.objects.file_stores import StoreUnavailableError, file_store, retry_until_available
from crossline.io.sinks.base import wall_clock_ms
from crossline.logs import get_logger
from crossline.plan.compile import StreamPlan
from crossline.plan.state_stores import StateStore
from crossline.rules.holds.hold import HoldRule
from crossline.runtime.changes.rule_feed import ListTimes
from crossline.runtime.changes.stored_past import (
    PastStart,
    StoredIntake,
    StoredPast,
    StoredSpan,
    past_start,
    stored_frame,
)
from crossline.runtime.snapshot.snapshot import Backfill, PlanSnapshot, SnapshotSource, StaticSnapshot
from crossline.runtime.sources.plan_source import SourcePlan, lacks
from crossline.runtime.spark.failure import explained
from crossline.runtime.spark.flow import Input
from crossline.runtime.spark.task import as_batch
from crossline.runtime.state_log.cache import ShardCache
from crossline.runtime.state_log.log_folders import BACKFILLS, backfill_root
from crossline.runtime.state_log.offset_history import OffsetHistory, OffsetMark

# A log that gave nothing for so long (of ingest time) keeps no ended version in the plan snapshot; nor is a record in a
# window that is dated as much later than it came.
SLOWEST_MS = 86_400_000
AWAY_S_MAX = 60.0  # how long a store is waited for; a failed read is logged and tried again later

log = get_logger(__name__)

# How a batch is judged: inputs of several streams, plan snapshot, where its state is.
Plan = Callable[[Sequence[Input], SnapshotSource, ShardCache], DataFrame]


def new_state_stores(before: PlanSnapshot, after: PlanSnapshot) -> dict[str, tuple[StateStore, ...]]:
    """By plan, the state stores of ``after`` that ``before`` did not have."""
    known = {lp.state_store.name for plan in before.plans() for lp in plan.state_stores}
    fresh = {
        plan.stream: tuple(lp.state_store for lp in plan.state_stores if lp.state_store.name not in known)
        for plan in after.plans()
    }
    return {stream: state_stores for stream, state_stores in fresh.items() if state_stores}


def starts_empty(before: PlanSnapshot, plan: StreamPlan, state_stores: Sequence[StateStore]) -> bool:
    """Whether ``state_stores`` of ``plan`` have no past: they are of holds without an alert in ``before``."""
    if plan.met is None or not plan.met.reading.holds:
        return False
    alerted = {(v.rule.rule_id, v.rule.version) for v in before.rules.versions if v.kind == "active"}
    fresh = {state_store.name for state_store in state_stores}
    held = (v.rule for lp in plan.state_stores if lp.state_store.name in fresh for each in lp.versions for v in each)
    return all((rule.held.rule_id, rule.version) not in alerted for rule in held if isinstance(rule, HoldRule))


class BackfillError(CrosslineError):
    """Backfills that could not be read; ``found`` are those that could."""

    def __init__(self, text: str, found: dict[str, Backfill]) -> None:
        super().__init__(text)
        self.found = found


@dataclass(slots=True)
class _Reading:
    """New state stores of one plan, and how far their past has been read.

    ``streams``: numbers of the sources whose records enter them. ``stored``: what is still to be read from the store of
    records. ``query``: a name of its own for each reading, so that no process takes a slice of one for that of another.
    """

    streams: tuple[int, ...]
    snapshot: StaticSnapshot
    backfill: Backfill
    reached: OffsetMark | None
    begun: PastStart
    stored: StoredSpan | None
    query: str = field(default_factory=lambda: f"backfill-{secrets.token_hex(8)}")


@dataclass(slots=True)
class BackfillReader:
    """Reads the backfills of new state stores.

    ``held_max``: shards whose state a process may hold. ``jobs``: a context that jobs are done in, so that a stop can
    end them; it raises StoppedError then. ``stored``: has records that topics have deleted. ``stored_frame``: makes a
    DataFrame of its rows.
    """

    spark: SparkSession
    sources: Sequence[SourcePlan]
    history: OffsetHistory
    state_root: str
    held_max: int
    plan: Plan
    jobs: Callable[[], AbstractContextManager[None]] = nullcontext
    stored: StoredPast | None = None
    stored_frame: Callable[[SparkSession, Sequence[pa.RecordBatch]], DataFrame] = stored_frame
    _readings: dict[tuple[StateStore, ...], _Reading] = field(default_factory=dict)

    def read(self, before: PlanSnapshot, after: PlanSnapshot, lists: ListTimes) -> dict[str, Backfill]:
        """The backfills of the stores of ``after`` that ``before`` does not have, up to the newest finished batch.

        Records enter by ``lists`` as they were when they came, of which a plan snapshot has no more than those to come
        need. What was read already, for the same state stores, is not read again. Raises PastError where some could not
        be read.
        """
        end, found, failures = self.history.last(), dict[str, Backfill](), list[str]()
        fresh = new_state_stores(before, after) if end is not None else {}
        for plan in after.plans():
            state_stores, streams = fresh.get(plan.stream, ()), self._read_by(plan)
            if state_stores and starts_empty(before, plan, state_stores):
                continue
            if end is None or not state_stores or (streams is not None and not self._came(end, streams)):
                continue
            names = ", ".join(state_store.name for state_store in state_stores)
            if streams is None:
                failures.append(f"{names}: hits of before are not read again; windows over them begin empty")
                continue
            try:
                reading = self._readings.get(state_stores)
                if reading is None or not self._still_there(reading, end):
                    begin = partial(self._begin, whole=plan.clock is not None)
                    reading = self._readings[state_stores] = begin(after, streams, state_stores, end, lists)
                self._go_on(reading, end)
            except StoppedError:
                self._drop_stored(state_stores)
                raise
            except Exception as error:  # noqa: BLE001 - whatever it is, the other plans' backfills are read
                self._drop_stored(state_stores)
                failures.append(f"{names}: {explained(error)}")
                continue
            found |= {state_store.name: reading.backfill for state_store in state_stores}
            if reading.begun.short:
                failures.append(f"{names}: {reading.begun.short}; windows begin with what is left")
        if failures:
            raise BackfillError("; ".join(failures), found)
        return found

    def forget(self, snapshot: PlanSnapshot) -> None:
        """Let go of what was read for stores that never came, or are gone, once ``snapshot`` is the one in force."""
        self._readings.clear()
        store, used = file_store(self.state_root), {backfill.folder for backfill in snapshot.backfills.values()}
        with suppress(StoreUnavailableError):  # what is left goes with the next plan snapshot
            for name in store.folders(BACKFILLS):
                if name not in used:
                    store.clear(f"{BACKFILLS}/{name}")

    def _still_there(self, reading: _Reading, end: OffsetMark) -> bool:
        """Whether the sources still have what comes next; topics may have deleted it since it was read so far."""
        if reading.reached is None or reading.stored is not None:
            return True
        for number, source, offsets in self._from(reading.streams, reading.reached):
            stands = end.offsets[number]
            if source.first is not None and offsets and stands and lacks(offsets, source.first(stands)):
                return False
        return True

    def _drop_stored(self, state_stores: tuple[StateStore, ...]) -> None:
        """Begin again where the store was not read whole: it may cut the same records into other slices then."""
        reading = self._readings.get(state_stores)
        if reading is not None and reading.stored is not None:
            del self._readings[state_stores]

    def _read_by(self, plan: StreamPlan) -> tuple[int, ...] | None:
        """The numbers of the sources whose records enter ``plan``; None where hits do."""
        read = (
            {plan.stream if plan.clock is None else plan.base}
            if plan.met is None
            else {source for _, source, _ in plan.met.parts}
        )
        if any(rule_of(source) is not None for source in read):
            return None
        return tuple(number for number, source in enumerate(self.sources) if source.stream in read)

    def _came(self, end: OffsetMark, numbers: Sequence[int]) -> bool:
        """Whether one of the sources has given a record."""
        return any(end.offsets[each] is not None and self.sources[each].stream in end.ingest_ms for each in numbers)

    def _begin(
        self,
        snapshot: PlanSnapshot,
        numbers: tuple[int, ...],
        state_stores: tuple[StateStore, ...],
        end: OffsetMark,
        lists: ListTimes,
        *,
        whole: bool = False,
    ) -> _Reading:
        """``whole``: marks say nothing of the clock of these state stores, so that all that there is, is read."""
        names, streams = (
            tuple(state_store.name for state_store in state_stores),
            [self.sources[number].stream for number in numbers],
        )
        log.info("backfill", streams=streams, state_stores=list(names))
        # As live stores are: what no record finds any more by the clock of the stream that is furthest is not kept.
        slowest_ms = (
            max(end.ingest_ms[each] for each in streams if each in end.ingest_ms) - snapshot.bounds.partition_lag_ms
        )
        reach_ms = min(_reach_ms(state_store, slowest_ms) for state_store in state_stores)
        begun = self._begun(numbers, end, reach_ms, snapshot, whole=whole)
        # State stores that are only looked at ahead may be called as those that come instead: of a folder each.
        folder = blake2b(repr(state_stores).encode(), digest_size=8).hexdigest()
        # Of a run that ended before it was used.
        retry_until_available(lambda: file_store(self.state_root).clear(f"{BACKFILLS}/{folder}"), within_s=AWAY_S_MAX)
        start = begun.mark if begun.stored is None else None
        clocks = {each: start.ingest_ms[each] for each in streams if each in start.ingest_ms} if start else {}
        reached_ms = dict.fromkeys(streams, 0 if whole else reach_ms - SLOWEST_MS)
        of_then = replace(
            snapshot, lists=lists.since(reached_ms), tables=lists.tables_since(reached_ms, snapshot.streams)
        )
        alone = replace(of_then, only=names, clocks=clocks, backfills={}, deciding=None, depth_max=1)
        mine = replace(alone, _plans=None, _joins=None)
        judged = StaticSnapshot(mine.to_json())
        return _Reading(numbers, judged, Backfill(folder, 0), begun.mark, begun, begun.stored)

    def _begun(
        self, numbers: Sequence[int], end: OffsetMark, reach_ms: int, snapshot: PlanSnapshot, *, whole: bool
    ) -> PastStart:
        """Where the reading begins: after the newest mark before all that is reached, in the store where a topic ends.

        ``whole``: all that there is, is read.
        """
        mine = [self.sources[number] for number in numbers]
        starts = [] if whole else [self.history.before(source.stream, reach_ms) for source in mine]
        begun = [mark for mark in starts if mark is not None]
        start = min(begun, key=lambda mark: mark.batch) if begun and len(begun) == len(mine) else None
        # A record may be dated that much later than it came.
        ahead_ms = max(snapshot.streams[source.stream].future_bound for source in mine)
        first_read = self.history.first_read(len(self.sources))
        return past_start(
            mine,
            _of_sources(start, numbers) if start is not None else None,
            [first_read[number] for number in numbers],
            _of_sources(end, numbers),
            self.stored,
            (_of_sources(mark, numbers) for mark in self.history.between(None, end)),
            None if whole else reach_ms - ahead_ms,
        )

    def _go_on(self, reading: _Reading, end: OffsetMark) -> None:
        cache = ShardCache(
            backfill_root(self.state_root, reading.backfill.folder), per_query=False, held_max=self.held_max
        )
        if reading.stored is not None:
            self._go_on_stored(reading, reading.stored, cache)
        for mark in self._ends(reading, end):
            inputs = [
                (source.history(self.spark, start, mark.offsets[number] or {}), source.intake)
                for number, source, start in self._from(reading.streams, reading.reached)
                if mark.offsets[number] is not None
            ]
            self._judge(reading, inputs, cache)
            reading.reached = mark

    def _go_on_stored(self, reading: _Reading, span: StoredSpan, cache: ShardCache) -> None:
        """What the source has deleted."""
        assert self.stored is not None  # noqa: S101 - it has given the span
        log.info("backfill from the lake", streams=list(span.ends), up_to_batch=span.batch)
        for rows in self.stored.slices(span):
            inputs = [
                (self.stored_frame(self.spark, batches), StoredIntake(self.stored.intake(stream)))
                for stream, batches in rows.items()
            ]
            self._judge(reading, inputs, cache)
        reading.stored = None

    def _judge(self, reading: _Reading, inputs: Sequence[Input], cache: ShardCache) -> None:
        """Judge the next slice."""
        with self.jobs(), as_batch(self.spark, reading.query, reading.backfill.slices, wall_clock_ms()):
            self.plan(inputs, reading.snapshot, cache).count()
        reading.backfill = Backfill(reading.backfill.folder, reading.backfill.slices + 1)

    def _from(
        self, numbers: Sequence[int], mark: OffsetMark | None
    ) -> Iterator[tuple[int, SourcePlan, dict[str, Any] | None]]:
        """The sources of these numbers, each with its offset at ``mark``."""
        return ((number, self.sources[number], mark.offsets[number] if mark else None) for number in numbers)

    def _ends(self, reading: _Reading, end: OffsetMark) -> Iterator[OffsetMark]:
        """Where the slices end: at the last mark each that keeps them within bounds, or one mark further."""

        def amounts(at: OffsetMark | None) -> list[int]:
            return [source.amount(offsets) for _, source, offsets in self._from(reading.streams, at)]

        most = [self.sources[number].slice_max for number in reading.streams]
        begun, last = amounts(reading.reached), None
        for mark in self.history.between(reading.reached, end):
            if not reading.begun.readable([offsets for *_, offsets in self._from(reading.streams, mark)]):
                continue
            now = amounts(mark)
            if last is not None and any(n - b > m for n, b, m in zip(now, begun, most, strict=True)):
                yield last
                begun = amounts(last)
            last = mark if now != begun else None
        if last is not None:
            yield last


def _of_sources(mark: OffsetMark, numbers: Sequence[int]) -> OffsetMark:
    """``mark`` with the offsets of these sources alone, in their order."""
    return replace(mark, offsets=[mark.offsets[number] for number in numbers])


def _reach_ms(state_store: StateStore, slowest_ms: int) -> int:
    """What happened before is in no window. On the ingest clock, copies are known by those that came before them."""
    before_ms = evict_before(state_store, slowest_ms)
    return before_ms if state_store.time_mode == "event_time" else before_ms - state_store.remembers_ms
