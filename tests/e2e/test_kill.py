"""Processes die at random moments under load; out comes what an undisturbed run gives: none lost, none twice."""

from __future__ import annotations

import os
import random
import signal
import threading
from pathlib import Path

import pytest

from .killing import SEED, WAIT_S, batches, finish, kill_some, project_at, running, same_everywhere, wait_for_batches
from .project import Alerts

pytestmark = pytest.mark.spark

DRIVER_KILLS = 10
WORKER_KILLS = 5


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


@pytest.mark.timeout(600)
def test_a_killed_worker_changes_nothing(tmp_path: Path, undisturbed: Alerts) -> None:
    project = project_at(tmp_path)
    with running(project, "--drain") as process:
        killed = kill_some(process, project, "-m crossline.engine.runtime.daemon", WORKER_KILLS, random.Random(SEED))
        assert killed == WORKER_KILLS, "the run was over before all were killed"
        assert process.wait(WAIT_S) == 0, (project.root / "run.log").read_text()[-3000:]
    same_everywhere(project, undisturbed)
