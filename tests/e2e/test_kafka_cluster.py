"""Topics in and out of a cluster of several processes: executors read them, and the driver sends."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from .killing import finish
from .test_kafka import BY_ACCOUNT, SEED, check
from .topics import by_account, project_on, send

if TYPE_CHECKING:
    from crossline.services.broker import LocalBroker

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

COUNT = 360
BATCH = 40


@pytest.mark.timeout(600)
def test_what_executors_read_is_what_the_naive_twin_says(
    kafka_broker: LocalBroker, kafka_topic: Callable[..., str], tmp_path: Path
) -> None:
    """The first half is read on one machine, the second by executors, from the checkpoint of the first."""
    topics, alerts = [kafka_topic(2, append_time=False) for _ in range(2)], kafka_topic(2)
    sent = by_account(topics, COUNT, SEED)
    for half, master in ((sent[: COUNT // 2], "local[2]"), (sent[COUNT // 2 :], "local-cluster[2,1,1024]")):
        project = project_on(
            kafka_broker.brokers, tmp_path, topics, alerts, BY_ACCOUNT, master=master, max_records_per_batch=BATCH
        )
        send(kafka_broker.brokers, half)
        finish(project)
        check(project, kafka_broker, alerts, topics)
        assert project.rows("SELECT count(*) FROM batches")[0][0] >= len(half) // BATCH
