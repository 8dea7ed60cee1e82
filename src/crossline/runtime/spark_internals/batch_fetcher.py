"""Batches of a streaming query, fetched from Java by a thread of ours; Java makes no callbacks.

PySpark's ``foreachBatch`` has Python listen on a port, where Java calls for each batch. That server asks nobody who
they are, takes any call of any object that Java may call, and makes a thread of each connection. So Java keeps a queue
in place of a port: the thread of the query puts a batch there and waits, and a thread here takes it, over a connection
that Python opened with Java's token. What Java needs for that is made of the text below by Spark's own compiler.
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
from pyspark.sql.streaming import DataStreamWriter
from pyspark.sql.utils import ForeachBatchFunction

_NAME = "CrosslineBatches"
# ``join`` waits on when the thread is interrupted, as one that reads from a socket does: a batch under way is never
# left alone. ``next`` makes the thread that asks like that of the query, whose jobs are a group and end with it. What a
# call raises names Python's error in the words that Spark knows.
_JAVA = """
import java.util.Properties;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.LinkedBlockingQueue;
import org.apache.spark.api.java.function.VoidFunction2;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;

public class CrosslineBatches implements VoidFunction2 {
    private final LinkedBlockingQueue batches = new LinkedBlockingQueue();

    public void call(Object frame, Object number) throws Exception {
        Batch batch = new Batch((Dataset) frame, ((Long) number).longValue());
        this.batches.add(batch);
        try {
            batch.done.join();
        } catch (CompletionException failed) {
            throw (Exception) failed.getCause();
        }
    }

    public Batch next() throws InterruptedException {
        while (true) {
            Object found = this.batches.take();
            if (!(found instanceof Batch)) return null;
            Batch batch = (Batch) found;
            try {
                SparkSession session = batch.frame.sparkSession();
                session.sparkContext().setLocalProperties(batch.properties);
                SparkSession.setActiveSession(session);
                return batch;
            } catch (RuntimeException failed) {
                batch.done.completeExceptionally(failed);
            }
        }
    }

    public void end() {
        this.batches.add("no more");
    }

    public static class Batch {
        final Dataset frame;
        final long number;
        final Properties properties;
        final CompletableFuture done = new CompletableFuture();

        Batch(Dataset frame, long number) {
            this.frame = frame;
            this.number = number;
            this.properties = frame.sparkSession().sparkContext().getLocalProperties();
        }

        public Dataset frame() { return this.frame; }

        public long number() { return this.number; }

        public void succeeded() { this.done.complete(null); }

        public void stopped() { this.done.completeExceptionally(new InterruptedException("stopped")); }

        public void failed(String text) {
            String message = "An exception was raised by the Python Proxy. Return Message: " + text;
            this.done.completeExceptionally(new py4j.Py4JException(message));
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


EachBatch = Callable[[DataFrame, int], None]


class BatchFetcher:
    """Has ``run`` called with each batch of one query, in one thread. ``attach`` it to the writer, ``end`` it at last.

    ``stopping``: set once the query is being stopped; what fails then is no failure.
    """

    def __init__(self, spark: SparkSession, run: EachBatch, stopping: threading.Event) -> None:
        self._spark = spark
        self._run = ForeachBatchFunction(spark, run)
        self._stopping = stopping
        self._batches: Any = None
        self._thread: threading.Thread | None = None

    def attach(self, writer: DataStreamWriter) -> DataStreamWriter:
        """``writer``, whose query will have its batches fetched here."""
        self._batches = _compiled(self._spark.sparkContext._gateway).newInstance(None)  # noqa: SLF001 - PySpark has no other way
        writer._jwrite.foreachBatch(self._batches)  # noqa: SLF001 - as above
        self._thread = threading.Thread(target=self._serve, name="batches", daemon=True)
        self._thread.start()
        return writer

    def end(self) -> None:
        """The query has ended: there are no more batches."""
        if self._thread is None:
            return
        with suppress(Py4JError, OSError):  # a Java that is gone has ended the thread
            self._batches.end()
        self._thread.join()
        self._thread = self._batches = None

    def _serve(self) -> None:
        # The end of Java is reported once, by the thread that waits for the query.
        with suppress(Py4JError, OSError):
            while (batch := self._batches.next()) is not None:
                try:
                    self._run.call(batch.frame(), batch.number())
                except BaseException:  # noqa: BLE001 - reported by the query
                    if self._stopping.is_set():
                        batch.stopped()
                    else:
                        batch.failed(traceback.format_exc())
                else:
                    batch.succeeded()
                del batch  # Java keeps what is known here
