"""A running pipeline: one streaming query, its deliveries, and rules taken up between batches."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import structlog
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from crossline.connectors.base import Delivery, Sink, deliver_all
from crossline.connectors.chunks import READY
from crossline.core.basics.errors import PermanentError, StoppedError
from crossline.engine.book.book import Book, BookSource
from crossline.engine.book.changes import RuleChanges
from crossline.engine.book.checkpoint import Checkpoint
from crossline.engine.book.rulefeed import RuleFeed
from crossline.engine.hops.hops import hops_of
from crossline.engine.hops.outcome import collect
from crossline.engine.hops.stopwatch import Stopwatch
from crossline.engine.hops.totals import Totals
from crossline.engine.runtime.leftovers import Leftovers
from crossline.engine.source.intake import ChunkIntake, Intake
from crossline.engine.source.plan_source import FetchRaw, SourcePlan
from crossline.engine.spark.cancel import Cancellable
from crossline.engine.spark.failure import explained
from crossline.engine.spark.flow import Input, narrow, together, wide
from crossline.engine.spark.progress import began_ms
from crossline.engine.spark.task import tell_began
from crossline.engine.state.cache import ShardCache
from crossline.engine.state.history import HistoryLog
from crossline.engine.state.keepers import KeptJudge
from crossline.engine.state.past import PastReader

POLL_S = 0.25
# Up to here one task is done before two stages would be: a shuffle and a second stage take some 40 ms.
NARROW_RECORDS = 8_000

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class PipelineSettings:
    """Plain values.

    ``partitions``: tasks of the detecting stage. ``trigger_ms`` 0: a batch as soon as the one before is done.
    ``shards_held``: shards whose state a process may hold. ``narrow``: small batches may be done by one task.
    """

    name: str
    checkpoint: str
    partitions: int
    trigger_ms: int
    shards_held: int
    backfill: bool = True
    narrow: bool = False

    @property
    def state_root(self) -> str:
        """Where shards log their state."""
        return f"{self.checkpoint}/state"


class Pipeline:
    """Assembled from parts; ``book`` is one without rules, ``before`` that of the run before, as it stood there.

    ``start`` it, then ``drain`` or ``wait``, then ``stop``.
    """

    def __init__(
        self,
        spark: SparkSession,
        settings: PipelineSettings,
        book: Book,
        sources: Sequence[SourcePlan],
        feed: RuleFeed,
        sinks: Sequence[Sink],
        on_batch: Callable[[Delivery, Totals], None] | None = None,
        checkpoint: Checkpoint | None = None,
        before: Book | None = None,
    ) -> None:
        self._spark = spark
        self._settings = settings
        self._sources = sources
        self._sinks = sinks
        self._on_batch = on_batch
        self._checkpoint = checkpoint
        self._stopping = threading.Event()
        self._jobs = Cancellable(spark, self._stopping)
        self._history = HistoryLog(settings.checkpoint)
        past = PastReader(
            spark, sources, self._history, settings.state_root, settings.shards_held, self._plan, self._jobs.jobs
        )
        self._changes = RuleChanges(
            book, before, feed, self._history, settings.checkpoint, past if settings.backfill else None, self._stopping
        )
        self._watcher = threading.Thread(target=self._changes.watch, name="rule-watch", daemon=True)
        self._leftovers = Leftovers(spark, sum(isinstance(source.intake, ChunkIntake) for source in sources))
        self._life = threading.Lock()
        self._closed = False
        self._unclosed: list[str] = []
        self._query: StreamingQuery | None = None
        self._intake: Intake
        self._cache = ShardCache(settings.state_root, per_query=False, held_max=settings.shards_held)
        self._last_records = NARROW_RECORDS + 1
        self._opened: list[Sink] = []
        self._enough: int | None = None
        self._reached = threading.Event()
        self.totals = Totals()

    def start(self) -> Pipeline:
        """Open sinks, write the book, start the query.

        Raises StoppedError where it is stopped meanwhile.
        """
        with self._life:
            try:
                self._start()
            except BaseException:
                self._close()
                for each in self._unclosed:
                    log.error("not closed", error=each)  # noqa: TRY400 - of what is raised here others tell
                raise
        return self

    def _start(self) -> None:
        for sink in self._sinks:
            sink.open()
            self._opened.append(sink)
        self._changes.start()
        frame, self._intake = together([(source.open(self._spark), source.intake) for source in self._sources])
        writer = (
            frame.writeStream.queryName(self._settings.name)
            .option("checkpointLocation", f"{self._settings.checkpoint}/spark")
            .trigger(processingTime=f"{self._settings.trigger_ms} milliseconds")
            .foreachBatch(self._deliver)
        )
        if self._stopping.is_set():
            raise StoppedError("stopped while it started; nothing was judged")
        self._query = writer.start()
        self._leftovers.watch(self._query)
        self._watcher.start()

    def _plan(self, raw: Input, book: BookSource, cache: ShardCache) -> DataFrame:
        """How a batch is judged; Spark does not say how large it is before it is read, so the last one tells."""
        frame, intake = raw
        partitions = self._settings.partitions
        hops = hops_of(book, intake, KeptJudge(book, cache, partitions))
        if self._settings.narrow and self._last_records <= NARROW_RECORDS:
            return narrow(frame, hops)
        return wide(frame, hops, partitions)

    def _deliver(self, frame: DataFrame, batch_id: int) -> None:
        self._leftovers.calls_back()
        with self._changes.between_batches:
            begun, begun_ms = time.monotonic(), time.time() * 1e3
            self.totals.first_s = self.totals.first_s or begun
            tell_began(self._spark, began_ms(self._settings.checkpoint, batch_id))
            with self._changes.judging():
                plan = self._plan((frame, self._intake), self._changes.file, self._cache)
                outcome = collect(plan, self._fetchers())
                verified = [source.verify() for source in self._sources]
                self._changes.judged(outcome.clocks)
            events = self._changes.events()
            wall_ms = outcome.spent.wall_ms(begun_ms, time.time() * 1e3)
            delivery = Delivery(
                pipeline=self._settings.name,
                batch_id=batch_id,
                alerts=outcome.alerts,
                positions=outcome.positions,
                dead=outcome.dead,
                late=outcome.late,
                figures={
                    **outcome.figures,
                    "detect_ms": round((time.monotonic() - begun) * 1000),
                    "wall_ms": wall_ms,
                    "spent_ms": outcome.spent.spent_ms,
                },
                rule_events=events,
            )
            after = Stopwatch()
            deliver_all(self._sinks, delivery, stop=self._stopping)
            after.lap("deliver")
            for settle in verified:
                settle()
            self._changes.told(events)
            self._total(delivery)
            self._advance(batch_id)
            after.lap("mark")
            self.totals.after_ms = after.spent_ms
        if self._on_batch is not None:
            self._on_batch(delivery, self.totals)

    def _fetchers(self) -> Mapping[str, FetchRaw]:
        return {source.stream: source.fetch for source in self._sources}

    def _advance(self, batch_id: int) -> None:
        if self.totals.batches == 1:
            ready = Path(self._settings.checkpoint) / "sources" / READY
            ready.parent.mkdir(parents=True, exist_ok=True)
            ready.touch()
        self._history.add(batch_id, self._changes.clocks)
        self._changes.delivered(batch_id)

    def _total(self, delivery: Delivery) -> None:
        self.totals.add(delivery)
        self._last_records = delivery.figures["records"] + len(delivery.dead)
        if self._enough is not None and self.totals.taken >= self._enough:
            self._reached.set()

    def drain(self) -> Totals:
        """Process what is there, then stop. Raises StoppedError where it is stopped before its end."""
        with self._told():
            self._running().processAllAvailable()
        totals = self._done()
        totals.left = [text for source in self._sources for text in source.left()]
        return totals

    def run_until(self, records: int) -> Totals:
        """Until that many records were judged or refused, then stop. Raises StoppedError as ``drain``."""
        self._enough = records
        query = self._running()
        while query.isActive and not self._reached.wait(POLL_S):
            pass
        with self._told():
            failure = query.exception()
            if failure is not None:
                raise failure
        return self._done()

    def wait(self) -> Totals:
        """Until the query is stopped or fails."""
        with self._told():
            self._running().awaitTermination()
        return self.totals

    def _done(self) -> Totals:
        early = self._stopping.is_set()
        self.stop()
        if early:
            raise StoppedError("stopped before all was judged; the next run goes on from there")
        return self.totals

    @contextmanager
    def _told(self) -> Iterator[None]:
        """A failure of the query becomes one of our errors, after sinks were closed; what a stop brought is none."""
        try:
            yield
        except StreamingQueryException as failure:
            if self._stopping.is_set():
                return
            try:
                self.stop()
            except PermanentError as more:
                log.error("not stopped cleanly", error=str(more))  # noqa: TRY400 - the failure is what is raised
            raise explained(failure) from failure

    @property
    def running(self) -> bool:
        """Whether its query was started."""
        return self._query is not None

    def _running(self) -> StreamingQuery:
        if self._query is None:
            raise RuntimeError("the pipeline is not started")
        return self._query

    def stop(self) -> None:
        """Stop the query and close the sinks; a batch that was under way is run again at the next start.

        From any thread, again and again; returns when all is closed. What is being done for a start or for new rules is
        given up. Raises PermanentError where something could not be closed; all else is closed then.
        """
        self._stopping.set()
        with self._jobs.cancelling(), self._life:
            if not self._closed:
                if self._query is not None:
                    self._tried(self._query.stop)
                    self._leftovers.drop()
                    self._watcher.join()
                self._close()
        if self._unclosed:
            raise PermanentError(f"not stopped cleanly: {'; '.join(self._unclosed)}")

    def _close(self) -> None:
        """Close all there is, whatever becomes of each."""
        for sink in self._opened:
            self._tried(sink.close)
        for source in self._sources:
            self._tried(source.close)
        self._tried(self._changes.close)
        if self._checkpoint is not None:
            self._tried(self._checkpoint.release)
        self._closed = True

    def _tried(self, close: Callable[[], None]) -> None:
        try:
            close()
        except Exception as error:  # noqa: BLE001 - told when all is closed
            self._unclosed.append(str(error).strip() or repr(error))
