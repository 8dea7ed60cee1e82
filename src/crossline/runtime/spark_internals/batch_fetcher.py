"""Batches of a streaming query, fetched from Java by a thread of ours; Java makes no callbacks.

PySpark's ``foreachBatch`` has Python listen on a port, where Java calls for each batch. That server asks nobody who
they are, takes any call of any object that Java may call, and makes a thread of each connection. So Java keeps a queue
in place of a port: the thread of the query puts a batch there and waits, and a thread here takes it, over a connection
that Python opened with Java's token. What Java needs for that is made of the text below by Spark's own compiler.

A call to Java takes a third of a millisecond, and several where both processors are busy. So one call says how a batch
ended and waits for the next, and the frame of a batch is fetched where Spark is to run it, which few small batches are.
"""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

from crossline.logs import get_logger

log = get_logger(__name__)

_NAME = "CrosslineBatches"
# ``join`` waits on when the thread is interrupted, as one that reads from a socket does: a batch under way is never
# left alone. ``next`` makes the thread that asks like that of the query, whose jobs are a group and end with it. What a
# call raises names Python's error in the words that Spark knows.
#
# As a sink, which ``adopt`` makes it, it keeps a batch from Spark's own sink until the frame is asked for: that sink
# plans each batch a second time, and generates its code, which is half of what Spark does for a small one. A failure
# passes through Spark's sink, too, and is what it would be there. ``planQuickly`` leaves out what Spark would look for
# in the plan of a batch, which is a source and its columns. ``succeeded`` names the last batch that is done: where
# batches follow that Spark did not plan, the context of its own gets the number and the end of the last one, as its log
# has them. Spark commits that one, and the next context is made of this one.
_JAVA = """
import java.util.Properties;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.LinkedBlockingQueue;
import org.apache.spark.api.java.function.VoidFunction2;
import org.apache.spark.sql.catalyst.optimizer.Optimizer;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.rules.RuleExecutor;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.streaming.Sink;
import org.apache.spark.sql.execution.streaming.checkpointing.OffsetSeq;
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution;
import org.apache.spark.sql.execution.streaming.runtime.StreamExecutionContext;

public class CrosslineBatches implements VoidFunction2, Sink {
    private static final String EXCLUDED = "spark.sql.optimizer.excludedRules";
    private final LinkedBlockingQueue batches = new LinkedBlockingQueue();
    private StreamExecution execution;
    private Sink sparks;
    private Batch planned;
    private Batch batch;

    public void adopt(StreamExecution execution) throws Exception {
        java.lang.reflect.Field field = StreamExecution.class.getDeclaredField("sink");
        field.setAccessible(true);
        this.sparks = (Sink) execution.sink();
        this.execution = execution;
        field.set(execution, this);
    }

    public void planQuickly(StreamExecution execution) {
        SparkSession session = execution.sparkSessionForStream();
        Optimizer optimizer = session.sessionState().optimizer();
        StringBuilder rules = new StringBuilder(session.conf().get(EXCLUDED, ""));
        scala.collection.Iterator groups = optimizer.defaultBatches().iterator();
        while (groups.hasNext()) {
            scala.collection.Iterator mine = ((RuleExecutor.Batch) groups.next()).rules().iterator();
            while (mine.hasNext()) {
                String name = ((Rule) mine.next()).ruleName();
                if (!optimizer.nonExcludableRules().contains(name)) rules.append(",").append(name);
            }
        }
        session.conf().set(EXCLUDED, rules.toString());
    }

    public String toString() { return String.valueOf(this.sparks); }

    public void addBatch(long number, org.apache.spark.sql.Dataset data) {
        Batch found = new Batch((Dataset) data, number);
        this.batches.add(found);
        if (!((Boolean) found.sparks.join()).booleanValue()) return;
        this.planned = found;
        try {
            this.sparks.addBatch(number, data);
        } catch (Throwable failed) {
            found.frame.completeExceptionally(failed);
            CrosslineBatches.sneak(failed);
        } finally {
            this.planned = null;
        }
    }

    public void call(Object frame, Object number) throws Exception {
        Batch found = this.planned;
        if (found == null) {
            found = new Batch((Dataset) frame, ((Long) number).longValue());
            this.batches.add(found);
        }
        found.frame.complete(frame);
        try {
            found.done.join();
        } catch (CompletionException failed) {
            throw (Exception) failed.getCause();
        }
    }

    public long next() throws InterruptedException {
        while (true) {
            Object found = this.batches.take();
            if (!(found instanceof Batch)) return -1L;
            this.batch = (Batch) found;
            try {
                SparkSession session = this.batch.data.sparkSession();
                session.sparkContext().setLocalProperties(this.batch.properties);
                SparkSession.setActiveSession(session);
                return this.batch.number;
            } catch (RuntimeException failed) {
                this.ended(failed);
            }
        }
    }

    public Dataset frame() {
        this.batch.sparks.complete(Boolean.TRUE);
        return (Dataset) this.batch.frame.join();
    }

    public long succeeded(long last) throws InterruptedException {
        Exception failed = null;
        try {
            if (last > this.batch.number) this.goOnAfter(last);
        } catch (Throwable unexpected) {  // Scala also asserts; without this the query would wait for ever
            failed = new RuntimeException(unexpected);
        }
        this.ended(failed);
        return this.next();
    }

    private void goOnAfter(long last) {
        StreamExecutionContext context = this.execution.getLatestExecutionContext();
        OffsetSeq offsets = (OffsetSeq) this.execution.offsetLog().get(last).get();
        context.batchId_$eq(last);
        context.endOffsets_$eq(offsets.toStreamProgress(this.execution.sources()));
    }

    public long stopped() throws InterruptedException {
        this.ended(new InterruptedException("stopped"));
        return this.next();
    }

    public long failed(String text) throws InterruptedException {
        this.ended(new py4j.Py4JException("An exception was raised by the Python Proxy. Return Message: " + text));
        return this.next();
    }

    private void ended(Exception failed) {
        Batch found = this.batch;
        this.batch = null;
        if (failed == null) {
            found.done.complete(null);
        } else {
            found.done.completeExceptionally(failed);
        }
        found.sparks.complete(Boolean.valueOf(failed != null));
    }

    public void end() {
        this.batches.add("no more");
    }

    private static void sneak(Throwable failed) {
        org.apache.spark.unsafe.Platform.throwException(failed);
    }

    public static class Batch {
        final Dataset data;
        final long number;
        final Properties properties;
        final CompletableFuture sparks = new CompletableFuture();
        final CompletableFuture frame = new CompletableFuture();
        final CompletableFuture done = new CompletableFuture();

        Batch(Dataset data, long number) {
            this.data = data;
            this.number = number;
            this.properties = data.sparkSession().sparkContext().getLocalProperties();
        }
    }
}
"""


@cache
def _compiled(gateway: Any) -> Any:
    """The constructor, of one class for all queries: py4j takes two of one name for the same."""
    compiler = gateway.jvm.org.codehaus.janino.SimpleCompiler()
    compiler.cook(_JAVA)
    return compiler.getClassLoader().loadClass(_NAME).getDeclaredConstructors()[0]


Frame = Callable[[], DataFrame]  # fetches the frame of a batch
EachBatch = Callable[[Frame, int], int]  # the last batch that is done: this one, or one of those after it


class BatchFetcher:
    """Has ``run`` called with each batch of one query, in one thread. ``attach`` it to the writer, ``end`` it at last.

    ``adopted``: batches come before Spark's sink has them. Then ``run`` may plan and run batches that follow, if it
    logs their offsets and all commits but the last: Spark commits the last one, and goes on from there.
    ``stopping``: set once the query is being stopped; what fails then is no failure.
    """

    def __init__(self, spark: SparkSession, run: EachBatch, stopping: threading.Event) -> None:
        self._spark = spark
        self._run = run
        self._stopping = stopping
        self.adopted = False
        self._batches: Any = None
        self._thread: threading.Thread | None = None

    def attach(self, writer: DataStreamWriter) -> DataStreamWriter:
        """``writer``, whose query will have its batches fetched here."""
        self._batches = _compiled(self._spark.sparkContext._gateway).newInstance(None)  # noqa: SLF001 - PySpark has no other way
        writer._jwrite.foreachBatch(self._batches)  # noqa: SLF001 - as above
        self._thread = threading.Thread(target=self._serve, name="batches", daemon=True)
        self._thread.start()
        return writer

    def adopt(self, query: StreamingQuery) -> None:
        """Have ``query``, which was begun by the writer, leave its batches here before it plans them for Spark's sink.

        What sink a query has is a field of Spark's own. In a version without it each batch is planned twice, as before.
        """
        try:
            execution = query._jsq.streamingQuery()  # noqa: SLF001 - as above
            self._batches.adopt(execution)
            self._batches.planQuickly(execution)
            self.adopted = True
        except Exception as error:  # noqa: BLE001 - whatever it is, Spark's sink hands the batches over
            log.warning("batches are handed over by Spark's own sink", error=repr(error))

    def end(self) -> None:
        """The query has ended: there are no more batches."""
        if self._thread is None:
            return
        with suppress(Py4JError, OSError):  # a Java that is gone has ended the thread
            self._batches.end()
        self._thread.join()
        self._thread = self._batches = None
        self.adopted = False

    def _serve(self) -> None:
        # The end of Java is reported once, by the thread that waits for the query.
        with suppress(Py4JError, OSError):
            number = self._batches.next()
            while number >= 0:
                try:
                    last = self._run(self._frame, number)
                except BaseException:  # noqa: BLE001 - reported by the query
                    if self._stopping.is_set():
                        number = self._batches.stopped()
                    else:
                        number = self._batches.failed(traceback.format_exc())
                else:
                    number = self._batches.succeeded(last)

    def _frame(self) -> DataFrame:
        """The batch under way, in the session of its query."""
        frame = self._batches.frame()
        return DataFrame(frame, SparkSession(self._spark.sparkContext, frame.sparkSession()))
