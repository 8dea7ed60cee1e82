"""A pipeline on a cluster whose executors and machines die under load, and what its topics must have all the same."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from .feeding import Feed, needed
from .killing import QUICK, RULES, SEED, running, stop, until, wait_for_all_to_end
from .topics import Sent, as_twin, by_account, project_on, send

if TYPE_CHECKING:
    import psutil

    from .project import Project

BATCH = 70
LAST = 2 * BATCH
# All that the driver needs to know of any cluster.
SPARK: dict[str, Any] = {
    "spark.executor.memory": "512m",
    "spark.executor.cores": 1,
    "spark.executor.extraJavaOptions": " ".join(QUICK),
    "spark.default.parallelism": 2,
}

After = Callable[[Feed[Sent], "Project", "subprocess.Popen[bytes]"], object]


class Cluster(Protocol):
    """Two machines with an executor each. ``lose``: one of them dies; whether it had an executor."""

    def add(self) -> None: ...
    def executors(self) -> list[psutil.Process]: ...
    def lose(self) -> bool: ...


def die_under_load(
    cluster: Cluster,
    kills: tuple[int, int],
    place: tuple[str, Callable[..., str], Path],
    spark: tuple[str, Mapping[str, Any]],
    after: After = lambda *_: None,
    spare: int = 0,
    *,
    standby: bool = False,
) -> None:
    """Run it; what its topics have must be what the twin finds.

    ``kills``: of executors and of machines; ``place``: brokers, what makes topics, and a folder; ``spark``: the master
    and settings; ``after``: what is done once all were replaced, and takes ``spare`` records; ``standby``: see the
    setting.
    """
    (brokers, kafka_topic, root), (master, settings), (of_executors, of_machines) = place, spark, kills
    topics = [kafka_topic(2, append_time=False) for _ in range(2)]
    alerts, draw = kafka_topic(2), random.Random(SEED)
    log = by_account(topics, needed(sum(kills) + 1) + spare, SEED)
    given: list[Sent] = []

    def give(_: int, piece: Any) -> None:
        given.extend(piece)
        send(brokers, piece)

    def kill_one() -> bool:
        found = cluster.executors()
        for each in found[:1]:
            each.kill()
        return bool(found)

    project = project_on(
        brokers, root, topics, alerts, RULES, master, settings, standby=standby, max_records_per_batch=BATCH
    )
    feed = Feed(project, log, give)
    with running(project) as process:
        feed.more(LAST)
        until(lambda: len(cluster.executors()) == 2, project, process)
        for _ in range(of_executors):
            while not feed.strike(process, draw, kill_one):
                pass
        for _ in range(of_machines):
            while not feed.strike(process, draw, cluster.lose):
                cluster.add()  # it does not count, and is replaced all the same
            cluster.add()
        until(lambda: len(cluster.executors()) == 2, project, process)
        after(feed, project, process)
        before = len(project.alerts())
        feed.more(LAST)  # the whole run reads what was sent: what is left of the log need not come
        feed.until_done(process)
        stop(project, process)
        wait_for_all_to_end(process)
    assert 0 < before < len(project.alerts()), "the kills did not come under load"
    as_twin(RULES, project, brokers, topics, alerts, given)
