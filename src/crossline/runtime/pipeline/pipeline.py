"""The life of a pipeline: one streaming query, started, waited for and stopped, with all that it holds."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from crossline.basics.errors import PermanentError, StoppedError
from crossline.io.outbox.sink import OutboxSink
from crossline.io.sinks.base import CancellableSink, Delivery, Sink, SinkWatch
from crossline.logs import get_logger, of_work
from crossline.runtime.changes.backfill import BackfillReader
from crossline.runtime.changes.rule_changes import RuleChanges
from crossline.runtime.changes.rule_feed import RuleFeed
from crossline.runtime.changes.stored_past import StoredPast
from crossline.runtime.pipeline.batch_series import BatchSeries
from crossline.runtime.pipeline.batches import Batches
from crossline.runtime.pipeline.pipeline_status import PipelineStatus, SourceBacklog, rules_by_kind, source_backlogs
from crossline.runtime.pipeline.planner import PipelineSettings, Planner
from crossline.runtime.pipeline.stored_batches import StoredBatches
from crossline.runtime.snapshot.checkpoint import Checkpoint
from crossline.runtime.snapshot.snapshot import PlanSnapshot
from crossline.runtime.snapshot.spark_log import unfinished
from crossline.runtime.sources.intake import ChunkIntake, Intake
from crossline.runtime.sources.plan_source import SourcePlan
from crossline.runtime.spark.cancel import Cancellable
from crossline.runtime.spark.disk_full import disk_full_line, retry_pauses_s
from crossline.runtime.spark.failure import explained
from crossline.runtime.spark.flow import union_of
from crossline.runtime.spark_internals.batch_fetcher import BatchFetcher, Frame
from crossline.runtime.spark_internals.query_cleanup import QueryCleanup
from crossline.runtime.spark_internals.rate_controller import ReadLimits
from crossline.runtime.spark_internals.shard_placement import shard_placement_of
from crossline.runtime.state_log.offset_history import OffsetHistory
from crossline.runtime.work.totals import IN_PROCESS, Totals

POLL_S = 0.25

log = get_logger(__name__)


class Pipeline:
    """Assembled from parts. ``snapshot`` has no rules yet; ``before`` is the last snapshot of the run before.

    ``start`` it, then ``drain`` or ``wait``, then ``stop``.
    """

    def __init__(
        self,
        spark: SparkSession,
        settings: PipelineSettings,
        snapshot: PlanSnapshot,
        sources: Sequence[SourcePlan],
        feed: RuleFeed,
        sinks: Sequence[Sink],
        on_batch: Callable[[Delivery, Totals], None] | None = None,
        checkpoint: Checkpoint | None = None,
        before: PlanSnapshot | None = None,
        sink_watch: SinkWatch | None = None,
        stored_past: StoredPast | None = None,
    ) -> None:
        self._spark = spark
        self._settings = settings
        self._sources = sources
        self._sinks = sinks
        self._checkpoint = checkpoint
        self._stopping = threading.Event()
        self._jobs = Cancellable(spark, self._stopping)
        self._stored_past = stored_past
        history = self._history = OffsetHistory(settings.checkpoint)
        placement = shard_placement_of(spark, settings.partitions) if settings.placement else None
        planner = Planner(settings, self._stopping, placement)
        places = (settings.state_root, settings.shards_held)
        backfill = BackfillReader(spark, sources, history, *places, planner.backfill, self._jobs.jobs, stored_past)
        backfill_of = backfill if settings.backfill else None
        self._changes = RuleChanges(
            snapshot, before, feed, history, settings.checkpoint, backfill_of, self._stopping, settings.breaker
        )
        self._batches = Batches(
            spark,
            settings,
            planner,
            sources,
            sinks,
            changes=self._changes,
            history=history,
            stopping=self._stopping,
            on_batch=on_batch,
            sink_watch=sink_watch,
            checkpoint=checkpoint,
        )
        rate = self._batches.rate
        self._read_limits = ReadLimits(spark, rate) if rate is not None else None
        self._watcher = threading.Thread(target=self._changes.watch, name="rule-watch", daemon=True)
        self._cleanup = self._new_cleanup()
        self._fetcher = BatchFetcher(spark, self._batches_from, self._stopping)
        self._series = self._new_series()
        self._life = threading.Lock()
        self._closed = False
        self._unclosed: list[str] = []
        self._query: StreamingQuery | None = None
        self._held = ""  # by what, while the query waits to be begun again
        self._frame: DataFrame
        self._intake: Intake
        self._opened: list[Sink] = []

    @property
    def checkpoint_folder(self) -> str:
        """The folder of the checkpoint on this machine."""
        return self._settings.checkpoint

    def start(self) -> Pipeline:
        """Open sinks, write the plan snapshot, start the query.

        Raises StoppedError where it is stopped meanwhile.
        """
        with self._life:
            try:
                self._start()
            except BaseException:
                self._close()
                for each in self._unclosed:
                    log.error("not closed", error=each)  # noqa: TRY400 - what is raised here is reported elsewhere
                raise
        return self

    def _start(self) -> None:
        for sink in self._sinks:
            if isinstance(sink, CancellableSink):
                sink.use_cancel_token(self._stopping)
            sink.open()
            self._opened.append(sink)
        self._changes.start()
        self._judge_stored()
        self._frame, self._intake = union_of([(source.open(self._spark), source.intake) for source in self._sources])
        if self._stopping.is_set():
            raise StoppedError("stopped while it started; nothing was judged")
        self._begin_query()
        self._watcher.start()

    def _judge_stored(self) -> None:
        """Judge what topics have deleted behind a restored checkpoint, from the lake."""
        if self._stored_past is not None:

            def run(frame: DataFrame, intake: Intake, batch_id: int) -> None:
                self._batches.run(lambda: frame, intake, batch_id, stored=True)

            batches = StoredBatches(self._spark, self._settings.checkpoint, self._sources, self._stored_past, run)
            with self._jobs.jobs():
                batches.judge()

    def _begin_query(self) -> None:
        writer = (
            self._frame.writeStream.queryName(self._settings.name)
            .option("checkpointLocation", f"{self._settings.checkpoint}/spark")
            .trigger(processingTime=f"{self._settings.trigger_ms} milliseconds")
        )
        self._query = self._fetcher.attach(writer).start()
        self._fetcher.adopt(self._query)
        if self._checkpoint is not None:
            self._checkpoint.on_lost = self._query.stop
        self._cleanup.watch(self._query)

    def _new_cleanup(self) -> QueryCleanup:
        return QueryCleanup(self._spark, sum(isinstance(source.intake, ChunkIntake) for source in self._sources))

    def _new_series(self) -> BatchSeries | None:
        """What plans batches between those of Spark; None where Spark plans each: it also waits between them."""
        settings, runner = self._settings, self._batches.in_process
        if runner is None or settings.trigger_ms or any(source.client is None for source in self._sources):
            return None
        return BatchSeries(
            self._spark,
            settings.checkpoint,
            self._sources,
            runner,
            self._stopping,
            self._batch,
            self._batches.series_max,
        )

    def _waited(self, wait: Callable[[StreamingQuery], None]) -> None:
        """``wait`` for the query, which is begun again, with the batch that was under way, where a disk was full.

        Raises StreamingQueryException where something else ended it.
        """
        pauses, reached = retry_pauses_s(), -1
        while True:
            try:
                wait(self._running())
            except Exception as failure:
                reason = disk_full_line(failure)
                if reason is None or self._stopping.is_set():
                    raise
                if self._batches.done != reached:  # it went on meanwhile: this is another time
                    pauses, reached = retry_pauses_s(), self._batches.done
                self._begin_again(reason, pauses)
                if self._stopping.is_set():
                    raise
            else:
                return

    def _begin_again(self, text: str, pauses: Iterator[float]) -> None:
        """Hold the batch until the disk takes what there is to write, or it is stopped."""
        self._held = text
        for pause_s in pauses:
            log.warning("a disk takes nothing; holding the batch", error=text, retry_in_ms=round(pause_s * 1_000))
            if self._stopping.wait(pause_s):
                return
            with self._life:
                if self._closed or self._stopping.is_set():
                    return
                self._fetcher.end()
                self._cleanup.drop()
                self._cleanup = self._new_cleanup()
                self._changes.hold_unfinished()
                try:
                    self._begin_query()
                except Exception as failure:
                    more = disk_full_line(failure)
                    if more is None:
                        raise
                    text = self._held = more
                    continue
                if not unfinished(self._settings.checkpoint):
                    self._held = ""  # no batch was under way that would say so
            return

    def _batches_from(self, frame: Frame, batch_id: int) -> int:
        """Run a batch of Spark's, and those that can be planned after it; the last one."""
        last = batch_id
        if self._batch(frame, batch_id) and self._series is not None and self._fetcher.adopted:
            last = self._series.follow(batch_id)
        if self._read_limits is not None and self._query is not None:
            self._read_limits.set(self._query)
        return last

    def _batch(self, frame: Frame, batch_id: int) -> bool:
        """Run a batch; whether the one after it may be planned without Spark."""
        with of_work(batch_id=batch_id):
            self._batches.run(frame, self._intake, batch_id)
        self._held = ""
        return self._batches.way == IN_PROCESS and not self._batches.reached.is_set()

    @property
    def totals(self) -> Totals:
        """The totals of the run so far."""
        return self._batches.totals

    def drain(self) -> Totals:
        """Process all available records, then stop. Raises StoppedError where it is stopped before its end."""
        with self._translated_errors():
            self._waited(lambda query: query.processAllAvailable())
        totals = self._done()
        totals.left = [text for source in self._sources for text in source.left()]
        return totals

    def run_until(self, records: int) -> Totals:
        """Until that many records were judged or refused, then stop. Raises StoppedError as ``drain``."""
        self._batches.enough = records

        def until_reached(query: StreamingQuery) -> None:
            while query.isActive and not self._batches.reached.wait(POLL_S):
                pass
            failure = query.exception()
            if failure is not None:
                raise failure

        with self._translated_errors():
            self._waited(until_reached)
        return self._done()

    def wait(self) -> Totals:
        """Until the query is stopped or fails."""
        with self._translated_errors():
            self._waited(lambda query: query.awaitTermination())
        if self._checkpoint is not None and self._checkpoint.lost is not None:
            self.stop()
            raise self._checkpoint.lost
        self._see_end()
        return self.totals

    def _see_end(self) -> None:
        """Note what is refused at the end, and what waits in topics, as far as their brokers say."""
        self.totals.refused = self._changes.refusals()
        found = (each for each in self.waiting() if each.unit == "records" and each.amount is not None)
        self.totals.waiting = {each.stream: each.amount or 0 for each in found}

    def _done(self) -> Totals:
        early = self._stopping.is_set()
        self._see_end()
        try:
            for sink in self._opened:
                if isinstance(sink, OutboxSink):
                    sink.catch_up(self._stopping)
        finally:
            self.stop()
        if early:
            raise StoppedError("stopped before all was judged; the next run goes on from there")
        return self.totals

    @contextmanager
    def _translated_errors(self) -> Iterator[None]:
        """A failure of the query becomes one of our errors after sinks were closed; one caused by a stop does not."""
        try:
            yield
        except StreamingQueryException as failure:
            if self._stopping.is_set():
                return
            # Whatever met it first: a file of Spark's, of a source, of the state.
            missing = None if self._checkpoint is None else self._checkpoint.missing()
            try:
                self.stop()
            except PermanentError as more:
                log.error("not stopped cleanly", error=str(more))  # noqa: TRY400 - the failure is what is raised
            raise missing or explained(failure) from failure

    @property
    def snapshot(self) -> PlanSnapshot:
        """The plan snapshot in force."""
        return self._changes.snapshot

    @property
    def sinks(self) -> Sequence[Sink]:
        """Where its alerts go."""
        return self._sinks

    def standing(self) -> PipelineStatus:
        """The current status; from any thread, without I/O."""
        started = self._query is not None
        rules = rules_by_kind(self._changes.snapshot.rules) if started else {}
        logged = dict(self._changes.logged)
        refused = len(self._changes.refusals()) if started else 0
        held = self._held
        return PipelineStatus(started, self._batches.began_s, rules, logged, self._settings.state_root, refused, held)

    def waiting(self) -> list[SourceBacklog]:
        """What waits in its sources; from any thread. Requests to brokers have two seconds."""
        return source_backlogs(self._sources, self._history)

    @property
    def alive(self) -> bool:
        """Whether its query runs, or is held until a disk has space; a call into Java."""
        return self._query is not None and (bool(self._held) or bool(self._query.isActive))

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

        May be called from any thread and repeatedly; returns when all is closed. A start or a rule change in progress
        is cancelled. Raises PermanentError where something could not be closed; all else is closed then.
        """
        self._stopping.set()
        with self._jobs.cancelling(self._query), self._life:
            if not self._closed:
                if self._query is not None:
                    self._tried(self._query.stop)
                    self._cleanup.drop()
                    self._watcher.join()
                self._close()
        if self._unclosed:
            raise PermanentError(f"not stopped cleanly: {'; '.join(self._unclosed)}")

    def _close(self) -> None:
        """Close all there is, whatever becomes of each."""
        self._fetcher.end()
        for sink in self._opened:
            self._tried(sink.close)
        for source in self._sources:
            self._tried(source.close)
        self._tried(self._batches.close)
        self._tried(self._changes.close)
        if self._checkpoint is not None:
            self._tried(self._checkpoint.release)
        self._closed = True

    def _tried(self, close: Callable[[], None]) -> None:
        try:
            close()
        except Exception as error:  # noqa: BLE001 - raised when all is closed
            self._unclosed.append(str(error).strip() or repr(error))
