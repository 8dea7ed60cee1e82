"""Processes die at random moments under load; out comes what an undisturbed run gives: none lost, none twice."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from .feeding import fed, needed
from .killing import SEED, as_of_log, kill_driver, running, same_everywhere, stop, tiered_at, tiers, wait_for_all_to_end
from .project import Alerts, read_jsonl

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

DEEP = os.environ.get("CROSSLINE_DEEP") == "1"
DRIVER_KILLS = 10 if DEEP else 2  # each is a start: some 20 s of a core
WORKER_KILLS = 5 if DEEP else 3
OTHERS = ("cl-state-server", "cl-daemon", "cl-zygote")


@pytest.mark.timeout(900)
def test_a_driver_killed_again_and_again_loses_nothing_and_repeats_nothing(
    spark: SparkSession, tmp_path: Path, undisturbed: Callable[[int], Alerts]
) -> None:
    count = needed(DRIVER_KILLS)
    whole = undisturbed(count)
    project = tiered_at(tmp_path)
    feed, draw = fed(project, count), random.Random(SEED)
    killed = 0
    with ExitStack() as runs:  # what a dead driver leaves behind may be at work yet when the next one starts
        started = []
        while killed < DRIVER_KILLS:
            process = runs.enter_context(running(project))
            started.append(process)
            if killed == 1:
                project.put(tmp_path / "tiers.jsonl", tiers("xyz"))
            killed += feed.strike(process, draw, partial(kill_driver, process))
        assert 0 < len(project.alerts()) < len(whole), "the kills did not come under load"
        feed.rest()
        project.drain(spark)
        for process in started:
            wait_for_all_to_end(process)
    assert read_jsonl(tmp_path / "out" / "behind.jsonl") == project.alerts()
    then = as_of_log(project)
    tiered = {name: alert for name, alert in then.items() if alert["rule_id"] == "tiered"}
    assert {alert["key"]["tier.name"] for alert in tiered.values()} == set("abcxyz"), (
        "the table did not change under load"
    )
    same_everywhere(project, {**{name: a for name, a in whole.items() if a["rule_id"] != "tiered"}, **tiered})


@pytest.mark.timeout(900)
def test_a_killed_worker_changes_nothing(tmp_path: Path, undisturbed: Callable[[int], Alerts]) -> None:
    count = needed(WORKER_KILLS + len(OTHERS))
    whole = undisturbed(count)
    project = tiered_at(tmp_path)
    feed = fed(project, count)
    with running(project) as process:
        draw = random.Random(SEED)
        feed.kill_some(process, "cl-worker", WORKER_KILLS, draw)
        for what in OTHERS:
            feed.kill_some(process, what, 1, draw)
        assert 0 < len(project.alerts()) < len(whole), "the kills did not come under load"
        feed.rest()
        feed.until_done(process)
        stop(project, process)
        wait_for_all_to_end(process)
    same_everywhere(project, whole)
