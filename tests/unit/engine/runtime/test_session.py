"""Where a session listens, as far as that can be told without starting one."""

from __future__ import annotations

import pytest

from crossline.engine.runtime.session import binding
from crossline.engine.runtime.settings import LOOPBACK


@pytest.mark.parametrize(
    ("environment", "here", "expected"),
    [
        ({}, True, LOOPBACK),
        ({}, False, LOOPBACK),
        ({"SPARK_LOCAL_IP": "10.0.0.5"}, True, LOOPBACK),
        ({"SPARK_LOCAL_IP": "10.0.0.5"}, False, {}),
    ],
)
def test_the_driver_listens_on_loopback_unless_told_otherwise(
    environment: dict[str, str], expected: dict[str, str], *, here: bool
) -> None:
    assert binding(environment, here=here) == expected
    assert LOOPBACK == {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
