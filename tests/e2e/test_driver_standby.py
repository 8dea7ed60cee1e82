"""All executors die at once: the driver's machine judges until others are warm, and nothing is lost or comes twice."""

from __future__ import annotations

import json
import random
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from crossline.runtime.work.totals import IN_PROCESS, STAGES

from .feeding import fed, needed
from .killing import (
    QUICK,
    RULES,
    SEED,
    SINKS,
    as_of_log,
    finish,
    kill_driver,
    log_of,
    named,
    running,
    same_everywhere,
    stop,
    until,
    wait_for_all_to_end,
)
from .project import Project

if TYPE_CHECKING:
    import subprocess

    from .feeding import Feed
    from .traffic import Record

pytestmark = pytest.mark.spark

EXECUTOR = "CoarseGrainedExecutorBackend"
KEEPER, STATE_SERVER = "cl-driver-place", "cl-state-server"
FEW = 10  # records of a batch, which go on while executors become warm
TRIES = 600  # such batches until two have shards
PAUSE_S = 0.5  # between two of them


def project_of(root: Path) -> Project:
    engine = {
        "trigger": "0s",
        "shards": 3,
        "checkpoint": "out/checkpoint",
        "master": "local-cluster[2,1,512]",
        "standby": True,
        "spark": {
            "spark.executor.memory": "512m",
            "spark.executor.extraJavaOptions": " ".join(QUICK),
            "spark.deploy.maxExecutorRetries": -1,  # a kill that met nothing to do is made again
        },
    }
    sources = {"payments": {"kind": "files", "path": "in", "max_batch_bytes": 8_000}}
    return Project(root, RULES, sinks=SINKS, sources=sources, engine=engine)


def ways(project: Project) -> list[str]:
    """How each batch was run."""
    return [way for (way,) in project.rows("SELECT json_extract(figures, '$.ran') FROM batches ORDER BY batch_id")]


def executors_with_shards(project: Project) -> int:
    """As the log says it last."""
    logged = (project.root / "run.log").read_text().splitlines(keepends=True)
    found = [line for line in logged if "shard placement" in line and line.endswith("\n")]
    return int(json.loads(found[-1])["executors"]) if found else 0


def on_two(feed: Feed[Record], project: Project, process: subprocess.Popen[bytes]) -> None:
    """Until two executors have shards, and nothing is held for them any more."""
    pause = threading.Event()
    for _ in range(TRIES):
        feed.more(FEW)
        feed.until_done(process)
        if executors_with_shards(project) == 2 and not named(process, KEEPER):
            return
        pause.wait(PAUSE_S)
    pytest.fail(f"never two executors: {log_of(project)}")


@pytest.mark.timeout(1800)
def test_all_executors_die_at_once(tmp_path: Path) -> None:
    project, draw = project_of(tmp_path), random.Random(SEED)
    feed = fed(project, needed(3) + 3 * TRIES * FEW)
    with running(project) as process:
        on_two(feed, project, process)
        for _ in range(2):
            before = len(ways(project))
            feed.kill_some(process, EXECUTOR, 1, draw, lambda found: found)
            feed.until_done(process)
            assert IN_PROCESS in ways(project)[before:]
            on_two(feed, project, process)
            assert ways(project)[-1] == STAGES
        # The driver dies while it judges: what is beside it ends, and the next start goes on.
        feed.kill_some(process, EXECUTOR, 1, draw, lambda found: found)
        until(lambda: bool(named(process, KEEPER)), project, process)
        assert kill_driver(process)
        wait_for_all_to_end(process)
    project.set_engine(master="local[2]", spark={})
    feed.more(FEW)
    finish(project)
    same_everywhere(project, as_of_log(project))


@pytest.mark.timeout(1800)
def test_what_is_beside_the_driver_dies_too(tmp_path: Path) -> None:
    """Its keeper and its state servers are begun again, and read the logs."""
    project, draw = project_of(tmp_path), random.Random(SEED + 1)
    feed = fed(project, needed(2) + 2 * TRIES * FEW)
    with running(project) as process:
        on_two(feed, project, process)
        feed.kill_some(process, EXECUTOR, 1, draw, lambda found: found[:1])
        until(lambda: bool(named(process, KEEPER)), project, process)
        for each in [*named(process, KEEPER), *named(process, STATE_SERVER)]:
            each.kill()
        feed.kill_some(process, EXECUTOR, 1, draw, lambda found: found)
        feed.until_done(process)
        on_two(feed, project, process)
        stop(project, process)
        wait_for_all_to_end(process)
    same_everywhere(project, as_of_log(project))
