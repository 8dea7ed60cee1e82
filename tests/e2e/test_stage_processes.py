"""Batches of files in processes beside Spark: what these leave, Spark runs, and the answer is one."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from crossline.runtime.pipeline import stage_processes
from crossline.runtime.pipeline.stage_processes import StageProcesses
from crossline.runtime.work.totals import IN_PROCESS, RAN
from crossline.runtime.workers.stage_worker import TITLE

from .project import Project, figures, from_twin
from .traffic import RULES, expected, lines, records

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from pyspark.sql import SparkSession

    from crossline.runtime.work.rows import StageRows

pytestmark = pytest.mark.spark
COUNT = 240


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """Some ten batches that wait."""
    engine = {"trigger": "0s", "shards": 3, "max_batch_bytes": 3_000, "checkpoint": "out/checkpoint"}
    project = Project(tmp_path, RULES, engine={**engine, "master": "local[2]"})
    project.give("all.jsonl", lines(records(COUNT, seed=1)))
    return project


def drained(project: Project, spark: SparkSession) -> list[bool]:
    """Of each batch whether it ran beside Spark; its answer is that of the naive twin."""
    with project.start(spark, complete=True) as running:
        running.pipeline.drain()
    log = records(COUNT, seed=1)
    twin = expected(RULES, log)
    assert figures(project.alerts()) == from_twin(twin)
    assert project.dead() == sorted(("duplicate_id", log[n]["id"]) for n in twin.duplicates)
    assert project.late() == sorted(log[n]["id"] for n in twin.late)
    assert len(running.deliveries) > 5, "there were to be more"
    return [each.figures[RAN] == IN_PROCESS for each in running.deliveries]


def workers() -> list[psutil.Process]:
    """Those of this process, which tests beside it do not share."""
    return [each for each in psutil.Process().children(recursive=True) if each.name() == TITLE]


def before_answer(monkeypatch: pytest.MonkeyPatch, number: int, act: Any) -> None:
    """``act`` once, when answer ``number`` is waited for: all have their requests then, and may be at work."""
    answer, asked = StageProcesses._answer, list[int]()

    def and_act(self: StageProcesses, connection: Connection) -> StageRows | None:
        asked.append(1)
        if len(asked) == number:
            act()
        return answer(self, connection)

    monkeypatch.setattr(StageProcesses, "_answer", and_act)


def test_all_but_the_first_run_beside_spark(spark: SparkSession, project: Project) -> None:
    first, *others = drained(project, spark)
    assert not first
    assert all(others)


# Two processes, two stages: four answers a batch.
@pytest.mark.parametrize("number", [5, 6, 7, 8])
def test_what_a_killed_process_had_is_sparks(
    spark: SparkSession, project: Project, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def kill() -> None:
        psutil.wait_procs([one for one in workers()[:1] if one.kill() is None])

    before_answer(monkeypatch, number, kill)
    beside = drained(project, spark)
    assert beside.count(False) == 3, "the first, that one, and the one after it"
    assert beside[-1], "processes are forked anew"


def test_a_process_that_stands_still_is_waited_for_so_long(
    spark: SparkSession, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped: list[psutil.Process] = []

    def stop() -> None:
        stopped.append(workers()[0])
        stopped[0].send_signal(signal.SIGSTOP)

    monkeypatch.setattr(stage_processes, "ANSWER_S_MAX", 2.0)
    before_answer(monkeypatch, 7, stop)
    beside = drained(project, spark)
    for each in stopped:
        each.send_signal(signal.SIGCONT)
        each.wait(60)  # whoever asked it is gone
    assert not all(beside[1:])
    assert any(beside)


def test_without_state_servers_all_is_sparks(
    spark: SparkSession, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stage_processes, "announced_folder", lambda _: None)
    assert not any(drained(project, spark))


def test_a_killed_state_server_is_forked_again(
    spark: SparkSession, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    def kill() -> None:
        for each in psutil.Process().children(recursive=True):
            if each.name() == "cl-state-server":
                each.kill()

    before_answer(monkeypatch, 11, kill)
    drained(project, spark)


def test_a_batch_that_fails_there_fails_in_spark_with_its_reason(
    spark: SparkSession, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that was replaced meanwhile is named by who reports it."""

    def replace() -> None:
        (project.root / "in" / "all.jsonl").write_bytes(b"{}\n")

    before_answer(monkeypatch, 8, replace)
    with pytest.raises(Exception, match=r"all\.jsonl"), project.start(spark, complete=True) as running:
        running.pipeline.drain()


def test_processes_end_with_their_pipeline(spark: SparkSession, project: Project) -> None:
    drained(project, spark)
    psutil.wait_procs(workers(), 60)
    assert not workers()
