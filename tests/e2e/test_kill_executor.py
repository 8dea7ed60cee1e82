"""A standalone cluster reads topics while executors and whole workers die and are replaced, and executors come and go.

Each executor follows the shards of the other (``engine.standby``); on YARN, in ``test_yarn``, none does. Nothing is
lost, nothing comes twice: counted from what was sent and from what stands in the topics. In between each
shard has a home, where nothing of it is read again. A cluster takes long to start, so one run of it holds all kills.
What executors read of files is in ``spark/test_cluster``.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from .dying import BATCH, SPARK, die_under_load
from .feeding import Feed
from .killing import RULES, SEED, running, stop, until, wait_for_all_to_end
from .standalone import Standalone
from .topics import Sent, as_twin, by_account, project_on, send

if TYPE_CHECKING:
    from dev.services.broker import LocalBroker

    from .project import Project

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

DEEP = os.environ.get("CROSSLINE_DEEP") == "1"
KILLS = 3 if DEEP else 1  # of executors; a new one takes some ten seconds
LOST = 3 if DEEP else 1  # workers
HOME = 6  # batches that are judged with all shards at home
TRIES = 10 * HOME  # batches until then: they go on while an executor becomes warm
COME_AND_GO: dict[str, Any] = {
    "spark.dynamicAllocation.enabled": True,
    "spark.dynamicAllocation.shuffleTracking.enabled": True,
    "spark.dynamicAllocation.shuffleTracking.timeout": "2s",
    "spark.dynamicAllocation.minExecutors": 1,
    "spark.dynamicAllocation.maxExecutors": 2,
    "spark.dynamicAllocation.executorIdleTimeout": "2s",
    "spark.decommission.enabled": True,
}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Standalone]:
    """A master and two workers."""
    with Standalone(tmp_path) as standalone:
        standalone.add()
        standalone.add()
        yield standalone


def read_again(project: Project) -> list[int]:
    """Of each batch: how many batches were read from logs of shards, since who judged these did not have them."""
    rows = project.rows("SELECT json_extract(figures, '$.segments_read') FROM batches ORDER BY batch_id")
    return [count or 0 for (count,) in rows]


def executors_with_shards(project: Project) -> list[int]:
    """How many executors had shards, each time that this changed."""
    lines = (project.root / "run.log").read_text().splitlines(keepends=True)
    found = [line for line in lines if "shard placement" in line and line.endswith("\n")]
    return [json.loads(line)["executors"] for line in found]


def at_home(feed: Feed[Sent], project: Project, process: subprocess.Popen[bytes]) -> None:
    """Once both executors have shards, and those that they have, nothing is read again, batch after batch.

    A machine that stands still for longer than a task waits for its home has it run elsewhere: then it begins anew.
    Without homes 20 batches of 22 read something again.
    """
    for _ in range(TRIES):
        feed.more(BATCH)
        feed.until_done(process)
        if executors_with_shards(project)[-1] == 2 and read_again(project)[-HOME:] == [0] * HOME:
            return
    pytest.fail(f"no {HOME} batches without segments read again: {read_again(project)}")


@pytest.mark.timeout(1800)
def test_executors_and_workers_die(
    cluster: Standalone, kafka_broker: LocalBroker, kafka_topic: Callable[..., str], tmp_path: Path
) -> None:
    def goes_on(feed: Feed[Sent], project: Project, process: subprocess.Popen[bytes]) -> None:
        # Who followed a shard has nothing to read of it, or the last batch.
        moved = any(read_again(project)) or 1 in executors_with_shards(project)
        assert moved, "shards of those that died had no other home"
        at_home(feed, project, process)

    place = (kafka_broker.brokers, kafka_topic, tmp_path / "killed")
    die_under_load(cluster, (KILLS, LOST), place, (cluster.address, SPARK), goes_on, TRIES * BATCH, standby=True)


@pytest.mark.skipif(not DEEP, reason="CROSSLINE_DEEP=1: a cluster of its own, that is left idle")
@pytest.mark.timeout(1800)
def test_executors_come_and_go(
    cluster: Standalone, kafka_broker: LocalBroker, kafka_topic: Callable[..., str], tmp_path: Path
) -> None:
    """Tasks that wait bring the second one; it goes when nothing comes, and takes no state with it."""
    brokers, topics = kafka_broker.brokers, [kafka_topic(2, append_time=False) for _ in range(2)]
    alerts = kafka_topic(2)
    log = by_account(topics, 30 * BATCH, SEED)
    project = project_on(brokers, tmp_path / "coming", topics, alerts, RULES, cluster.address, {**SPARK, **COME_AND_GO})
    feed = Feed(project, log, lambda _, piece: send(brokers, piece))
    with running(project) as process:
        for _ in range(3):
            feed.more(10 * BATCH)
            if not project.store.exists():
                until(lambda: len(cluster.executors()) == 2, project, process)
            feed.until_done(process)
            until(lambda: len(cluster.executors()) == 1, project, process)
        stop(project, process)
        wait_for_all_to_end(process)
    as_twin(RULES, project, brokers, topics, alerts, log)
