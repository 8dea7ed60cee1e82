"""Executors of a cluster die under load, one at a time and all at once; nothing is lost, nothing comes twice."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from .killing import (
    SEED,
    WAIT_S,
    batches,
    kill_some,
    named,
    project_at,
    running,
    same_everywhere,
    wait_for_batches,
    wait_for_nobody,
)
from .project import Alerts

pytestmark = pytest.mark.spark

EXECUTOR = "CoarseGrainedExecutorBackend"
KILLS = 3


@pytest.mark.timeout(900)
def test_killed_executors_change_nothing(tmp_path: Path, undisturbed: Alerts) -> None:
    project = project_at(tmp_path, master="local-cluster[2,1,1024]")
    with running(project, "--drain") as process:
        # A new executor takes seconds to come, so a second kill meets the run with one or with none.
        killed = kill_some(process, project, EXECUTOR, KILLS, random.Random(SEED), within_s=0.4)
        assert killed == KILLS, "the run was over before all were killed"
        wait_for_batches(project, batches(project) + 1, process)
        for executor in named(process, EXECUTOR):
            executor.kill()
        assert process.wait(WAIT_S) == 0, (project.root / "run.log").read_text()[-3000:]
        wait_for_nobody(process.pid)
    same_everywhere(project, undisturbed)
