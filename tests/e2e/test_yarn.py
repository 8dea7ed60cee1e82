"""YARN reads topics for a pipeline whose executors and nodes die: a real resource manager, two real node managers."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from .feeding import Feed, needed
from .killing import RULES, SEED, running, stop, until, wait_for_nobody
from .test_kill_executor import BATCH, LAST, SPARK
from .topics import Sent, as_twin, by_account, project_on, send
from .yarn import Yarn

if TYPE_CHECKING:
    from crossline.services.broker import LocalBroker

pytestmark = [
    pytest.mark.spark,
    pytest.mark.kafka,
    pytest.mark.skipif(os.environ.get("CROSSLINE_DEEP") != "1", reason="Hadoop is fetched; CROSSLINE_DEEP=1 runs it"),
]
KILLS, LOST = 2, 1


@pytest.mark.timeout(1800)
def test_executors_and_nodes_die(
    kafka_broker: LocalBroker, kafka_topic: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    brokers, topics = kafka_broker.brokers, [kafka_topic(2, append_time=False) for _ in range(2)]
    alerts, draw = kafka_topic(2), random.Random(SEED)
    log = by_account(topics, needed(KILLS + LOST + 2), SEED)
    given: list[Sent] = []

    def give(_: int, piece: Any) -> None:
        given.extend(piece)
        send(brokers, piece)

    with Yarn(tmp_path) as yarn:
        monkeypatch.setenv("HADOOP_CONF_DIR", str(yarn.configuration))
        yarn.add()
        yarn.add()
        settings = {**SPARK, **yarn.settings}
        project = project_on(
            brokers, tmp_path / "killed", topics, alerts, RULES, "yarn", settings, max_records_per_batch=BATCH
        )

        def kill_one() -> bool:
            found = yarn.executors()
            for each in found[:1]:
                each.kill()
            return bool(found)

        feed = Feed(project, log, give)
        with running(project) as process:
            feed.more(LAST)
            until(lambda: len(yarn.executors()) == 2, project, process)
            for _ in range(KILLS):
                while not feed.strike(process, draw, kill_one):
                    pass
            for _ in range(LOST):
                while not feed.strike(process, draw, yarn.lose):
                    yarn.add()  # it does not count, and is replaced all the same
                yarn.add()
            until(lambda: len(yarn.executors()) == 2, project, process)
            before = len(project.alerts())
            feed.more(LAST)
            feed.until_done(process)
            stop(project, process)
            wait_for_nobody(process)
    assert 0 < before < len(project.alerts()), "the kills did not come under load"
    as_twin(RULES, project, brokers, topics, alerts, given)
