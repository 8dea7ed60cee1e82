"""What an executor that is lost was to judge begins elsewhere at once.

A task waits some seconds for the executor of its shards (``spark.locality.wait.process``). Spark waits for one that is
lost, too, as long as any other that the stage has tasks for lives: a batch in whose midst one died stood for five
seconds. So a listener in Java, compiled by Spark's own compiler (Janino), has the stages under way wait no longer. A
task whose executor is free is still offered to it first.

Where something else can judge once all warm executors are lost, their job ends with the last of them: it would wait for
one that comes in its place.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from crossline.logs import get_logger

log = get_logger(__name__)

_NAME = "crossline.LostExecutors"
# The loss may be known after a batch was placed, and before its stage began: tasks of it that start are looked at. An
# executor that joins has the waits of all stages under way computed anew. A loss is known to all listeners of a Java
# alike: one whose pipeline has ended hears no more of placements.
_JAVA = """
package crossline;

public class LostExecutors extends org.apache.spark.scheduler.SparkListener {
    private org.apache.spark.scheduler.TaskSchedulerImpl scheduler;
    private static volatile boolean lost = false;
    private final java.util.Set removed = new java.util.HashSet();
    private java.util.List warm = java.util.Collections.emptyList();
    private String tag = "";

    public void begin(Object context) {
        org.apache.spark.SparkContext spark = (org.apache.spark.SparkContext) context;
        this.scheduler = (org.apache.spark.scheduler.TaskSchedulerImpl) spark.taskScheduler();
        spark.addSparkListener(this);
    }

    public void placed() { LostExecutors.lost = false; }

    public synchronized void endsWith(String warm, String tag) {
        this.warm = java.util.Arrays.asList(warm.split(" "));
        this.tag = tag;
    }

    public synchronized boolean ended() { return !this.tag.isEmpty() && this.removed.containsAll(this.warm); }

    private synchronized void endJob() {
        if (this.ended()) this.scheduler.sc().cancelJobsWithTag(this.tag);
    }

    public void onJobStart(org.apache.spark.scheduler.SparkListenerJobStart event) { this.endJob(); }

    public void onExecutorRemoved(org.apache.spark.scheduler.SparkListenerExecutorRemoved event) {
        LostExecutors.lost = true;
        synchronized (this) { this.removed.add(event.executorId()); }
        this.endJob();
        this.release();
    }

    public void onExecutorAdded(org.apache.spark.scheduler.SparkListenerExecutorAdded event) {
        if (LostExecutors.lost) this.release();
    }

    public void onTaskStart(org.apache.spark.scheduler.SparkListenerTaskStart event) {
        if (LostExecutors.lost) this.release();
    }

    private void release() {
        synchronized (this.scheduler) {
            scala.collection.mutable.ArrayBuffer stages = this.scheduler.rootPool().getSortedTaskSetQueue();
            for (int i = 0; i < stages.length(); i++) {
                Object stage = stages.apply(i);
                java.util.Arrays.fill(((org.apache.spark.scheduler.TaskSetManager) stage).localityWaits(), 0L);
            }
        }
        this.scheduler.backend().reviveOffers();
    }
}
"""


@cache
def _compiled(gateway: Any) -> Any:
    """The constructor, of one class for all pipelines: py4j takes two of one name for the same."""
    compiler = gateway.jvm.org.codehaus.janino.SimpleCompiler()
    compiler.cook(_JAVA)
    return compiler.getClassLoader().loadClass(_NAME).getDeclaredConstructors()[0]


class LostExecutors:
    """Has the tasks of lost executors run elsewhere, from now on; None of it where this Spark lacks what it needs."""

    def __init__(self, spark: SparkSession) -> None:
        self._context = spark.sparkContext
        self._tag = f"crossline-judged-{uuid.uuid4().hex}"
        self._listener: Any = None
        try:
            listener = _compiled(spark.sparkContext._gateway).newInstance(None)  # noqa: SLF001 - PySpark has no other way
            listener.begin(spark.sparkContext._jsc.sc())  # noqa: SLF001 - as above
            self._listener = listener
        except (Py4JError, TypeError) as error:
            why = " ".join(str(error).partition("\n\t")[0].split())  # without the lines of Java's stack
            log.warning("tasks of an executor that is lost will wait for it", why=why)

    def placed(self) -> None:
        """Executors are listed anew after this: nothing will be placed on one that is known to be lost by now."""
        if self._listener is not None:
            self._listener.placed()

    @contextmanager
    def job_of(self, warm: Collection[str]) -> Iterator[Callable[[], bool]]:
        """Jobs of this thread in here end with the last of ``warm``; gives whether it is lost, while this lasts."""
        if self._listener is None:
            yield lambda: False
            return
        self._context.addJobTag(self._tag)
        try:
            self._listener.endsWith(" ".join(warm), self._tag)
            yield lambda: bool(self._listener.ended())
        finally:
            self._listener.endsWith("", "")
            self._context.removeJobTag(self._tag)
