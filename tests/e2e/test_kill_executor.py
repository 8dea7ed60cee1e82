"""Executors of a cluster die under load, one at a time and all at once; nothing is lost, nothing comes twice."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from .feeding import fed
from .killing import SEED, named, project_at, running, same_everywhere, stop, until, wait_for_nobody
from .project import Alerts

pytestmark = pytest.mark.spark

EXECUTOR = "CoarseGrainedExecutorBackend"
EXECUTORS = 2
KILLS = 3 if os.environ.get("CROSSLINE_DEEP") == "1" else 1  # a new executor takes some ten seconds


@pytest.mark.timeout(900)
def test_killed_executors_change_nothing(tmp_path: Path, undisturbed: Alerts) -> None:
    project = project_at(tmp_path, master=f"local-cluster[{EXECUTORS},1,1024]")
    feed, draw = fed(project), random.Random(SEED)
    with running(project) as process:
        # A new executor takes seconds to come, so a second kill meets the run with one or with none.
        feed.kill_some(process, EXECUTOR, KILLS, draw)
        until(lambda: len(named(process, EXECUTOR)) == EXECUTORS, project, process)
        feed.kill_some(process, EXECUTOR, 1, draw, choose=list)
        assert 0 < len(project.alerts()) < len(undisturbed), "the kills did not come under load"
        feed.rest()
        feed.until_done(process)
        stop(project, process)
        wait_for_nobody(process)
    same_everywhere(project, undisturbed)
