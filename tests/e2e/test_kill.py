"""Processes die at random moments under load; out comes what an undisturbed run gives: none lost, none twice."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from .project import Alerts, Project, read_jsonl
from .traffic import Body, lines, records

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

COUNT = 6_000
DRIVER_KILLS = 10
WORKER_KILLS = 5
WAIT_S = 400.0
SEED = 20_261_121

RULES: list[Body] = [
    {
        "rule_id": "burst",
        "version": 1,
        "rule_type": "velocity",
        "source_topic": "payments",
        "group_by": "account",
        "aggregation_type": "count",
        "window": "30s",
        "aggregation_threshold": 5,
    },
    {
        "rule_id": "spend",
        "version": 1,
        "rule_type": "velocity",
        "source_topic": "payments",
        "group_by": ["account", "kind"],
        "aggregation_type": "sum",
        "aggregation_field": "price",
        "window": "5m",
        "operator": ">",
        "aggregation_threshold": 20,
        "cooldown": "1m",
    },
    {
        "rule_id": "dear",
        "version": 1,
        "rule_type": "threshold",
        "source_topic": "payments",
        "conditions": [{"field": "amount", "operator": ">=", "value": 250}],
    },
]


def project_at(root: Path, master: str = "local[2]") -> Project:
    """A log of 6,000 records, taken in batches of about 60."""
    project = Project(
        root,
        RULES,
        sources={"payments": {"kind": "files", "path": "in", "max_batch_bytes": 8_000}},
        sinks=[{"kind": "sqlite", "path": "out/alerts.db"}, {"kind": "jsonl", "path": "out/alerts.jsonl"}],
        engine={"trigger": "0s", "shards": 2, "checkpoint": "out/checkpoint", "master": master},
    )
    project.give("a.jsonl", lines(records(COUNT, SEED)))
    return project


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Alerts:
    project = project_at(tmp_path_factory.mktemp("undisturbed"))
    project.drain(spark)
    alerts = project.alerts()
    assert {alert["rule_id"] for alert in alerts.values()} == {"burst", "spend", "dear"}
    return alerts


@contextmanager
def running(project: Project, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """``crossline run`` in a session of its own, killed whole at the end."""
    command = [sys.executable, "-m", "crossline.cli.main", "run", str(project.pipeline), *arguments]
    with (project.root / "run.log").open("ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        try:
            yield process
        finally:
            for child in family(process):
                child.kill()
            process.wait()


def family(process: subprocess.Popen[bytes]) -> list[psutil.Process]:
    try:
        root = psutil.Process(process.pid)
        return [*root.children(recursive=True), root]
    except psutil.NoSuchProcess:
        return []


def batches(project: Project) -> int:
    if not project.store.exists():
        return 0
    try:
        return int(project.rows("SELECT count(*) FROM batches")[0][0])
    except Exception:  # noqa: BLE001 - the table is being made
        return 0


def wait_for_batches(project: Project, count: int, process: subprocess.Popen[bytes]) -> None:
    deadline_s = time.monotonic() + WAIT_S
    pause = threading.Event()
    while batches(project) < count:
        assert process.poll() is None, f"ended by itself: {(project.root / 'run.log').read_text()[-2000:]}"
        assert time.monotonic() < deadline_s, (project.root / "run.log").read_text()[-2000:]
        pause.wait(0.02)


def finish(project: Project) -> None:
    with running(project, "--drain") as process:
        assert process.wait(WAIT_S) == 0, (project.root / "run.log").read_text()[-3000:]


def same_everywhere(project: Project, undisturbed: Alerts) -> None:
    assert project.alerts() == undisturbed
    assert read_jsonl(project.root / "out" / "alerts.jsonl") == undisturbed


@pytest.mark.timeout(900)
def test_a_driver_killed_ten_times_loses_nothing_and_repeats_nothing(tmp_path: Path, undisturbed: Alerts) -> None:
    project = project_at(tmp_path)
    draw = random.Random(SEED)
    for _ in range(DRIVER_KILLS):
        with running(project) as process:
            wait_for_batches(project, batches(project) + 1, process)
            threading.Event().wait(draw.uniform(0, 1.0))
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    assert 0 < len(project.alerts()) < len(undisturbed), "the kills did not come under load"
    finish(project)
    same_everywhere(project, undisturbed)


def kill_some(process: subprocess.Popen[bytes], project: Project, what: str, times: int, draw: random.Random) -> int:
    """SIGKILL ``times`` processes whose command line holds ``what``, each after another batch; how many were killed."""
    killed = 0
    while killed < times and process.poll() is None:
        wait_for_batches(project, batches(project) + 1, process)
        found = [p for p in family(process) if what in " ".join(_command(p))]
        if found:
            draw.choice(found).kill()
            killed += 1
    return killed


def _command(process: psutil.Process) -> list[Any]:
    try:
        return list(process.cmdline())
    except psutil.Error:
        return []


@pytest.mark.timeout(600)
def test_a_killed_worker_changes_nothing(tmp_path: Path, undisturbed: Alerts) -> None:
    project = project_at(tmp_path)
    with running(project, "--drain") as process:
        killed = kill_some(process, project, "-m crossline.engine.daemon", WORKER_KILLS, random.Random(SEED))
        assert killed == WORKER_KILLS, "the run was over before all were killed"
        assert process.wait(WAIT_S) == 0, (project.root / "run.log").read_text()[-3000:]
    same_everywhere(project, undisturbed)
