"""What an executor that is lost was to judge begins elsewhere at once.

A task waits some seconds for the executor of its shards (``spark.locality.wait.process``). Spark waits for one that is
lost, too, as long as any other that the stage has tasks for lives: a batch in whose midst one died stood for five
seconds. So a listener in Java, compiled by Spark's own compiler (Janino), has the stages under way wait no longer. A
task whose executor is free is still offered to it first.
"""

from __future__ import annotations

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

    public void begin(Object context) {
        org.apache.spark.SparkContext spark = (org.apache.spark.SparkContext) context;
        this.scheduler = (org.apache.spark.scheduler.TaskSchedulerImpl) spark.taskScheduler();
        spark.addSparkListener(this);
    }

    public void placed() { LostExecutors.lost = false; }

    public void onExecutorRemoved(org.apache.spark.scheduler.SparkListenerExecutorRemoved event) {
        LostExecutors.lost = true;
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
