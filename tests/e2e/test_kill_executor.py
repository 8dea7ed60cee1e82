"""Executors of a cluster die as they read topics, one at a time and all at once; nothing is lost, nothing comes twice.

A cluster takes long to start, so one run of it holds all of that. What executors read of files is in
``spark/test_cluster``.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from connectors.kafka_mock import read_topic

from .feeding import Feed, needed
from .killing import QUICK, RULES, SEED, named, running, stop, until, wait_for_nobody
from .topics import by_account, on_topic, project_on, send

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from crossline.services.broker import LocalBroker

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

EXECUTOR = "CoarseGrainedExecutorBackend"
EXECUTORS = 2
KILLS = 3 if os.environ.get("CROSSLINE_DEEP") == "1" else 1  # a new executor takes some ten seconds
FIRST = 180
BATCH = 70
LAST = 2 * BATCH


@pytest.mark.timeout(900)
def test_killed_executors_change_nothing(
    spark: SparkSession,
    kafka_broker: LocalBroker,
    kafka_topic: Callable[..., str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first records are read on one machine, the others by executors, from the checkpoint of the first."""
    brokers, cluster = kafka_broker.brokers, f"local-cluster[{EXECUTORS},1,1024]"
    topics, alerts, undisturbed = [kafka_topic(2, append_time=False) for _ in range(2)], kafka_topic(2), kafka_topic(2)
    sent = by_account(topics, FIRST + needed(KILLS + 1), SEED)
    project = project_on(brokers, tmp_path / "killed", topics, alerts, RULES, max_records_per_batch=BATCH)
    feed, draw = Feed(project, sent, lambda _, piece: send(brokers, piece)), random.Random(SEED)
    feed.more(FIRST)
    assert project.drain(spark).records == FIRST
    project = project_on(brokers, tmp_path / "killed", topics, alerts, RULES, cluster, max_records_per_batch=BATCH)
    (tmp_path / "spark-defaults.conf").write_text(f"spark.executor.extraJavaOptions {' '.join(QUICK)}\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    with running(project) as process:
        # A new executor takes seconds to come, so a second kill meets the run with one or with none.
        feed.kill_some(process, EXECUTOR, KILLS, draw)
        until(lambda: len(named(process, EXECUTOR)) == EXECUTORS, project, process)
        feed.kill_some(process, EXECUTOR, 1, draw, choose=list)
        before = len(project.alerts())
        feed.more(LAST)  # the whole run reads what was sent: what is left of the log need not come
        feed.until_done(process)
        stop(project, process)
        wait_for_nobody(process)
    whole = project_on(brokers, tmp_path / "whole", topics, undisturbed, RULES)
    whole.drain(spark)
    assert 0 < before < len(whole.alerts()), "the kills did not come under load"
    assert project.alerts() == whole.alerts()
    assert on_topic(brokers, alerts) == on_topic(brokers, undisturbed) == whole.alerts()
    assert project.dead() == whole.dead()
    assert len(read_topic(brokers, f"{alerts}.dead")) == len(whole.dead())
