"""Pipelines that start and stop within one session: what stays open, what is given up, what is closed."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from crossline.basics.errors import PermanentError, SinkError, StateError, StoppedError
from crossline.io.sinks.jsonl import JsonlSink
from crossline.io.sqlite.sink import SqliteSink
from crossline.runtime.changes.backfill import BackfillReader
from crossline.runtime.pipeline import pipeline as pipelines

from .project import WAIT_S, Project, figures, from_twin
from .test_hot_rules import PAIR, SINKS, Feeder, as_published, history, plain
from .traffic import expected, lines, records, velocity

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
STARTS = 6
ENDLESS_S = 3_600  # who waited for that would wait for longer than a test may take


def open_files(pid: int) -> Counter[str]:
    """Descriptors by kind; jars and the like, which Java opens as it needs them, are one file each."""
    kinds: Counter[str] = Counter()
    for name in os.listdir(f"/proc/{pid}/fd"):  # noqa: PTH208 - numbers, not paths
        try:
            kinds[os.readlink(f"/proc/{pid}/fd/{name}").partition(":")[0]] += 1  # noqa: PTH115 - no path to join
        except FileNotFoundError:
            continue  # that of the listing itself
    return Counter({kind: count for kind, count in kinds.items() if kind in {"socket", "pipe", "anon_inode"}})


def watchers(spark: SparkSession) -> int:
    """Threads of Java that watch Python workers."""
    stacks: Any = spark.sparkContext._jvm
    threads = stacks.java.lang.Thread.getAllStackTraces().keySet()
    return sum(each.getName().startswith("Idle Worker Monitor") for each in threads if each.isAlive())


def end_idle_workers(spark: SparkSession) -> None:
    """End the Python workers that have nothing to do, as Spark does after a minute: each has descriptors of Java.

    How many there are depends on how tasks met. What calls this has no task at work.
    """
    java: Any = spark.sparkContext._jvm
    environment = java.org.apache.spark.SparkEnv.get()
    field = environment.getClass().getDeclaredField("pythonWorkers")
    field.setAccessible(True)
    factories = field.get(environment).values().toSeq()
    for number in range(factories.size()):
        getattr(factories.apply(number), "org$apache$spark$api$python$PythonWorkerFactory$$cleanupIdleWorkers")()


def settled(measure: Callable[[], Any], wanted: Any) -> Any:
    """What is measured, once it is what it should be, or for the last time: closing takes a moment."""
    deadline_s = time.monotonic() + WAIT_S
    while (found := measure()) != wanted and time.monotonic() < deadline_s:
        threading.Event().wait(0.05)
    return found


def test_starts_and_stops_leave_nothing_open(spark: SparkSession, tmp_path: Path) -> None:
    project = Project(tmp_path, [PAIR])
    java = next(each.pid for each in psutil.Process().children(recursive=True) if each.name() == "java")

    def measure() -> Counter[str]:
        end_idle_workers(spark)
        here, there = open_files(os.getpid()), open_files(java)
        open_now = {f"driver {kind}": count for kind, count in here.items()}
        open_now |= {f"java {kind}": count for kind, count in there.items()}
        return Counter({**open_now, "threads": threading.active_count(), "watchers": watchers(spark)})

    log = records(10 * (STARTS + 1), seed=1)
    before: Counter[str] = Counter()
    for number in range(STARTS + 1):
        project.give(f"{number}.jsonl", lines(log[10 * number : 10 * number + 10]))
        with project.start(spark) as running:
            running.until_read(10)
        if not before:  # the first start opens what stays: daemons, the server for calls back
            threading.Event().wait(1)
            before = measure()
    # What tests before this one left may go meanwhile.
    assert settled(lambda: measure() - before, Counter()) == Counter()


def test_a_stop_gives_up_the_past_of_a_new_rule_and_the_next_start_reads_it(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_work = threading.Event()

    def endless(self: BackfillReader, *_: Any) -> None:
        at_work.set()
        with self.jobs():
            spark.sparkContext.parallelize([1], 1).map(lambda _: time.sleep(ENDLESS_S)).collect()

    project, log = Project(tmp_path, [PAIR]), [plain(n, "a1") for n in range(12)]
    with project.start(spark) as running:
        Feeder(project, running, log[:6], "0-").give(6)
        with monkeypatch.context() as patch:
            patch.setattr(BackfillReader, "read", endless)
            project.publish("sum.yaml", [velocity("sum", "sum", 4, aggregation_field="amount", emit="every")])
            assert at_work.wait(WAIT_S)
            running.pipeline.stop()
    with project.start(spark) as running:
        Feeder(project, running, log[6:], "1-").give(6)
    assert figures(project.alerts()) == from_twin(expected(as_published(project), log))
    assert "without_past" not in [event["event"] for event in history(project)]


def test_a_stop_gives_up_a_start(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at_work = threading.Event()

    def endless(self: BackfillReader, *_: Any) -> None:
        at_work.set()
        with self.jobs():
            spark.sparkContext.parallelize([1], 1).map(lambda _: time.sleep(ENDLESS_S)).collect()

    project = Project(tmp_path, [PAIR])
    project.give("0.jsonl", lines(records(10, seed=1)))
    project.drain(spark)
    project.publish("sum.yaml", [velocity("sum", "sum", 4, aggregation_field="amount")])
    made: list[pipelines.Pipeline] = []
    keep = pipelines.Pipeline.__init__

    def kept(self: pipelines.Pipeline, *arguments: Any, **named: Any) -> None:
        keep(self, *arguments, **named)
        made.append(self)

    monkeypatch.setattr(pipelines.Pipeline, "__init__", kept)
    monkeypatch.setattr(BackfillReader, "read", endless)
    stopper = threading.Thread(target=lambda: (at_work.wait(WAIT_S), made[0].stop()))
    stopper.start()
    with pytest.raises(StoppedError, match="stopped while the past of new rules was read"):
        project.start(spark)
    stopper.join(WAIT_S)
    assert not stopper.is_alive()
    monkeypatch.undo()
    project.drain(spark)


def test_all_is_closed_whatever_becomes_of_one(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[str] = []

    def full(_: SqliteSink) -> None:
        raise SinkError("the disk is full")

    def noted(sink: JsonlSink) -> None:
        close(sink)
        closed.append("jsonl")

    close = JsonlSink.close
    project = Project(tmp_path, [PAIR], sinks=SINKS)
    with monkeypatch.context() as patch:
        patch.setattr(SqliteSink, "close", full)
        patch.setattr(JsonlSink, "close", noted)
        running = project.start(spark)
        for _ in range(2):  # every waiter gets the error
            with pytest.raises(PermanentError, match=r"^not stopped cleanly: the disk is full$"):
                running.pipeline.stop()
    assert closed == ["jsonl"]
    project.start(spark).pipeline.stop()  # the rule log and the checkpoint were let go


def test_a_drain_that_is_stopped_says_so(spark: SparkSession, tmp_path: Path) -> None:
    source = {"kind": "files", "path": "in", "max_batch_bytes": 1_000}
    project = Project(tmp_path, [PAIR], sources={"payments": source})
    project.give("0.jsonl", lines(records(500, seed=1)))
    running = project.start(spark, complete=True, hold_after=2)

    def stop() -> None:
        running.until_held()
        running.pipeline.stop()

    stopper = threading.Thread(target=stop)
    stopper.start()
    with pytest.raises(StoppedError, match="stopped before all was judged; the next run goes on from there"):
        running.pipeline.drain()
    stopper.join()
    assert project.drain(spark).batches > 2


def test_a_second_start_in_the_same_process_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    project = Project(tmp_path, [PAIR])
    with project.start(spark), pytest.raises(StateError, match=rf"held by another run .*process {os.getpid()}"):
        project.start(spark)
    with pytest.raises(StateError, match=r"is the checkpoint of pipeline shop, found kiosk"):
        Project(tmp_path, [], name="kiosk").start(spark)


def test_sources_in_another_order_go_on_where_they_were(spark: SparkSession, tmp_path: Path) -> None:
    streams = {name: Project(tmp_path, []).settings["streams"]["payments"] for name in ("payments", "refunds")}
    of = {name: {"kind": "files", "path": f"in-{name}"} for name in streams}
    rules = [velocity(f"pair-{name}", threshold=2, source_topic=name) for name in streams]
    log, more = records(30, seed=1), records(40, seed=2)
    for name, given in (("payments", log), ("refunds", more)):
        (tmp_path / f"in-{name}").mkdir()
        (tmp_path / f"in-{name}" / "0.jsonl").write_bytes(lines(given))
    first = Project(tmp_path, rules, streams=streams, sources=of)
    assert first.drain(spark).records > 0
    again = Project(tmp_path, [], streams=streams, sources=dict(reversed(of.items())))
    assert again.drain(spark).records == 0, "all was read before"
    (tmp_path / "in-refunds" / "1.jsonl").write_bytes(lines([plain(99, "a1")]))
    assert again.drain(spark).records == 1
