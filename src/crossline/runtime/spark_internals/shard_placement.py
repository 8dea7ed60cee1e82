"""Shard placement on a cluster: the executor on which Spark shall run the tasks of a part of the shards.

Partitions of an RDD have preferred locations; the DataFrame API does not set them. But a ``CoalescedRDD`` takes the
preferred location of each partition from that partition, and its partitions are an array that anybody may write to. So
the rows of a shuffle pass through a ``CoalescedRDD`` of as many partitions, which have preferred locations.

From Python that takes some hundred calls to Java a batch, a third of a millisecond each. So one call runs a Java
method, which Spark's own compiler (Janino) compiles from the text below. It runs in the driver only.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession

from crossline.logs import get_logger
from crossline.runtime.spark_internals.joining_executors import JoiningExecutors, TaskFunction, Warmup
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
        self._joining = JoiningExecutors(self._run_on)
        self._listed = ""
        self._found: Mapping[str, tuple[str, int]] = {}  # host and cores, by executor
        self._warm = frozenset[str]()
        self._executor_of_part: tuple[str, ...] = ()
        self.standby_of: tuple[int, ...] = ()
        self._most = self._most_warm = 0  # executors at a time
        self._places, self._hosts, self._turns = "", "", ""

    @property
    def available(self) -> bool:
        """Whether shards are placed on executors now."""
        return bool(self._executor_of_part)

    @property
    def several(self) -> bool:
        """Whether there was ever more than one executor."""
        return self._most > 1

    @property
    def warm(self) -> frozenset[str] | None:
        """The executors that were warm at the last refresh; None where there was never more than one."""
        return self._joining.warm if self._most_warm > 1 else None

    def job(self) -> AbstractContextManager[Callable[[], bool]]:
        """Jobs of this thread in this context end once the last warm executor is lost; it gives whether it is."""
        return self._lost.job_of(self._joining.warm)

    def refresh(self, warmup: Warmup | None = None) -> None:
        """Between two batches: read the executors, move the parts of lost ones, and give new ones their share.

        ``warmup``: what new ones do before (see ``JoiningExecutors``); None: no new one begins with it now.
        """
        self._lost.placed()
        listed = self._executors(self._spark.sparkContext._jsc.sc())  # noqa: SLF001 - PySpark has no other way
        if listed != self._listed:
            lines = (line.split(" ") for line in listed.splitlines())
            self._found = {name: (host, max(1, int(count))) for name, host, count in lines}
            self._most = max(self._most, len(self._found))
        warm = self._joining.warm_of(self._found, warmup, self._parts_of)
        self._most_warm = max(self._most_warm, len(self._joining.warm))
        if (listed, warm) == (self._listed, self._warm):
            return
        self._listed, self._warm = listed, warm
        before = self._executor_of_part
        self._executor_of_part, self.standby_of = self._assigned(warm)
        self._places = "\n".join(map(self._place, self._executor_of_part))
        turns = round_robin(self._executor_of_part)
        self._turns = "\n".join(map(self._place, turns))
        self._hosts = "\n".join(self._found[name][0] for name in turns)
        moved = sum(
            now != then for now, then in zip(self._executor_of_part, before or self._executor_of_part, strict=False)
        )
        joining = len(self._found) - len(warm)
        log.info("shard placement", executors=len(warm), joining=joining, parts=self._parts, moved=moved)

    def _assigned(self, names: Collection[str]) -> tuple[tuple[str, ...], tuple[int, ...]]:
        """The executor and the standby of each part, were the parts assigned to ``names`` now."""
        before = self._executor_of_part
        found = {name: each for name, each in self._found.items() if name in names}
        followers = [before[part] for part in self.standby_of]
        cores = {name: count for name, (_, count) in found.items()}
        assigned = assign_parts(self._parts, cores, before, followers)
        return assigned, assign_standbys(assigned, {name: host for name, (host, _) in found.items()})

    def _parts_of(self, joining: str) -> tuple[Collection[int], Collection[int]]:
        """The parts that ``joining`` will judge, and those that it will follow, once it is warm."""
        assigned, standby_of = self._assigned({*self._executor_of_part, joining})
        judged = [part for part, name in enumerate(assigned) if name == joining]
        return judged, [part for part, standby in enumerate(standby_of) if standby in judged]

    def _run_on(self, name: str, function: TaskFunction) -> None:
        cores = self._found[name][1]
        frame = self._placed(self._spark.range(0, cores, 1, cores), self._place(name))
        frame.mapInArrow(function, "id long").collect()

    def _place(self, name: str) -> str:
        """An executor as Spark has it in preferred locations."""
        return f"executor_{self._found[name][0]}_{name}"

    def by_shard(self, frame: DataFrame) -> DataFrame:
        """``frame``, whose partition p has the shards of part p, with each task on the executor of its part."""
        return self._placed(frame, self._places)

    def taking_in(self, frame: DataFrame, *, topics: bool) -> DataFrame:
        """``frame`` as tasks of whichever executor is free. Where one is missing, of those that are warm.

        In place of one that is lost another comes, in the midst of a batch, and a task that it got would wait for its
        Python.

        The source of topics would have each partition read by one executor, chosen by a hash, and tasks would wait for
        it. A machine as a place is not waited for, and while it has room, what a consumer there has read ahead is used.
        """
        if len(self._warm) < self._most:
            return self._placed(frame, self._turns)
        return self._placed(frame, self._hosts) if topics else frame

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
