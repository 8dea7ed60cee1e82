"""What whole pipelines share.

PySpark closes the socket of each collected result only when it is collected as garbage; that is no fault of ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import TYPE_CHECKING

import pytest

from connectors.kafka_mock import WAIT_S
from crossline.io.kafka import lag
from crossline.runtime.stages import outcome

from .feeding import fed
from .killing import RULES, TIERED, WAITING, tiered_at
from .project import Alerts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("filterwarnings", r"ignore:unclosed <socket\.socket fd=\d+, family=1,:ResourceWarning")


@pytest.fixture(scope="session", autouse=True)
def time_for_answers() -> Iterator[None]:
    """Late records and duplicates have their bytes, and brokers say where topics end, however busy a machine is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(outcome, "FETCH_S", WAIT_S)
        patch.setattr(lag, "ANSWER_S_MAX", WAIT_S)
        yield


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Callable[[int], Alerts]:
    """What comes out of that many records of ``fed`` when nothing is killed; in few batches, which changes nothing."""

    @cache
    def alerts_of(count: int) -> Alerts:
        project = tiered_at(tmp_path_factory.mktemp("undisturbed"), batch_bytes=1_000_000)
        fed(project, count).rest()
        project.drain(spark)
        alerts = project.alerts()
        assert {alert["rule_id"] for alert in alerts.values()} == {
            each["rule_id"] for each in (*RULES, TIERED, *WAITING)
        }
        assert {alert["kind"] for alert in alerts.values()} == {"alert", "correction"}
        return alerts

    return alerts_of
