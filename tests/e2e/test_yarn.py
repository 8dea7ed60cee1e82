"""YARN reads topics for a pipeline whose executors and nodes die: a real resource manager, two real node managers."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from .dying import SPARK, die_under_load
from .yarn import Yarn

if TYPE_CHECKING:
    from dev.services.broker import LocalBroker

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
    place = (kafka_broker.brokers, kafka_topic, tmp_path / "killed")
    with Yarn(tmp_path) as yarn:
        monkeypatch.setenv("HADOOP_CONF_DIR", str(yarn.configuration))
        yarn.add()
        yarn.add()
        die_under_load(yarn, (KILLS, LOST), place, ("yarn", {**SPARK, **yarn.settings}))
