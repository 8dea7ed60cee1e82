"""Shard placement on a cluster: the executor on which Spark shall run the tasks of a part of the shards.

Partitions of an RDD have preferred locations; the DataFrame API does not set them. But a ``CoalescedRDD`` takes the
preferred location of each partition from that partition, and its partitions are an array that anybody may write to. So
the rows of a shuffle pass through a ``CoalescedRDD`` of as many partitions, which have preferred locations.

From Python that takes some hundred calls to Java a batch, a third of a millisecond each. So one call runs a Java
method, which Spark's own compiler (Janino) compiles from the text below. It runs in the driver only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession

from crossline.logs import get_logger
from crossline.runtime.spark_internals.lost_executors import LostExecutors
from crossline.runtime.spark_internals.shard_assignment import assign_parts, assign_standbys, round_robin

log = get_logger(__name__)

# Lines of "id host cores" of the executors that take tasks. What became of one a moment ago the store may not know yet.
_EXECUTORS = """
org.apache.spark.SparkContext context = (org.apache.spark.SparkContext) given;
StringBuilder found = new StringBuilder();
if (context.schedulerBackend() instanceof org.apache.spark.scheduler.cluster.CoarseGrainedSchedulerBackend) {
    org.apache.spark.scheduler.cluster.CoarseGrainedSchedulerBackend backend =
        (org.apache.spark.scheduler.cluster.CoarseGrainedSchedulerBackend) context.schedulerBackend();
    scala.collection.Iterator ids = backend.getExecutorIds().iterator();
    while (ids.hasNext()) {
        String id = (String) ids.next();
        if (!backend.isExecutorActive(id)) continue;
        try {
            org.apache.spark.status.api.v1.ExecutorSummary known = context.statusStore().executorSummary(id);
            String host = known.hostPort().replaceFirst(":[0-9]+$", "");
            found.append(id + " " + host + " " + known.totalCores() + "\\n");
        } catch (java.util.NoSuchElementException tooEarly) {
        }
    }
}
return found.toString();
"""

# ``frame`` with its partitions at ``places``, a line each, from the first one again where these are fewer.
_AT = """
org.apache.spark.sql.classic.Dataset rows = (org.apache.spark.sql.classic.Dataset) frame;
String[] at = ((String) places).split("\\n");
org.apache.spark.rdd.RDD from = rows.queryExecution().toRdd();
int count = from.getNumPartitions();
if (count == 0) return frame;
org.apache.spark.rdd.RDD housed = from.coalesce(count, false, scala.Option.empty(), null);
org.apache.spark.Partition[] parts = housed.partitions();
if (parts.length != count) return frame;
for (int i = 0; i < count; i++) {
    scala.Option place = scala.Option.apply(at[i % at.length]);
    parts[i] = new org.apache.spark.rdd.CoalescedRDDPartition(i, from, new int[] {i}, place);
}
return rows.sparkSession().internalCreateDataFrame(housed, rows.schema(), false);
"""


class ShardPlacement:
    """Where the tasks of a pipeline run on a cluster; ``parts``: of the shards, each of which is a task.

    ``available``: whether any executor has a part. ``standby_of``: by part, another one, whose executor follows it;
    none where there is one executor. Made by ``shard_placement_of``.
    """

    def __init__(self, spark: SparkSession, parts: int, executors: Callable[[Any], str], at: Any) -> None:
        self._spark = spark
        self._parts = parts
        self._executors = executors
        self._at = at
        self._lost = LostExecutors(spark)
        self._listed = ""
        self._executor_of_part: tuple[str, ...] = ()
        self.standby_of: tuple[int, ...] = ()
        self._places, self._hosts = "", ""

    @property
    def available(self) -> bool:
        """Whether shards are placed on executors now."""
        return bool(self._executor_of_part)

    def refresh(self) -> None:
        """Between two batches: read the executors, move the parts of lost ones, and give new ones their share."""
        self._lost.placed()
        listed = self._executors(self._spark.sparkContext._jsc.sc())  # noqa: SLF001 - PySpark has no other way
        if listed == self._listed:
            return
        self._listed = listed
        lines = (line.split(" ") for line in listed.splitlines())
        found = {name: (host, max(1, int(count))) for name, host, count in lines}
        before = self._executor_of_part
        followers = [before[part] for part in self.standby_of]
        cores = {name: count for name, (_, count) in found.items()}
        self._executor_of_part = assign_parts(self._parts, cores, before, followers)
        self.standby_of = assign_standbys(self._executor_of_part, {name: host for name, (host, _) in found.items()})
        self._places = "\n".join(f"executor_{found[name][0]}_{name}" for name in self._executor_of_part)
        self._hosts = "\n".join(found[name][0] for name in round_robin(self._executor_of_part))
        moved = sum(
            now != then for now, then in zip(self._executor_of_part, before or self._executor_of_part, strict=False)
        )
        log.info("shard placement", executors=len(found), parts=self._parts, moved=moved)

    def by_shard(self, frame: DataFrame) -> DataFrame:
        """``frame``, whose partition p has the shards of part p, with each task on the executor of its part."""
        return self._placed(frame, self._places)

    def by_host(self, frame: DataFrame) -> DataFrame:
        """``frame`` as tasks of whichever executor is free.

        The source of topics would have each partition read by one executor, chosen by a hash, and tasks would wait for
        it. A machine as a place is not waited for, and while it has room, what a consumer there has read ahead is used.
        """
        return self._placed(frame, self._hosts)

    def _placed(self, frame: DataFrame, places: str) -> DataFrame:
        if not places:
            return frame
        return DataFrame(self._at.call(frame._jdf, places), self._spark)  # noqa: SLF001 - as above


def shard_placement_of(spark: SparkSession, parts: int) -> ShardPlacement | None:
    """The placement of ``parts`` of the shards; None, and a warning, where this Spark lacks what it needs."""
    java, gateway = spark.sparkContext._jvm, spark.sparkContext._gateway  # noqa: SLF001 - as above
    if java is None or gateway is None:
        return None

    def compiled(text: str, kind: str, *names: str) -> Any:
        given = gateway.new_array(java.String, len(names))
        for place, name in enumerate(names):
            given[place] = name
        kind_of = java.java.lang.Class.forName(f"org.apache.spark.api.java.function.{kind}")
        return java.org.codehaus.janino.ScriptEvaluator().createFastEvaluator(text, kind_of, given)

    try:
        executors = compiled(_EXECUTORS, "Function", "given")
        return ShardPlacement(spark, parts, executors.call, compiled(_AT, "Function2", "frame", "places"))
    except (Py4JError, TypeError) as error:
        why = " ".join(str(error).partition("\n\t")[0].split())  # without the lines of Java's stack
        log.warning("no shard placement: executors will read the state of shards that others judged", why=why)
        return None
