"""Where a session listens and what executors get of it, as far as a test can check that without starting one."""

from __future__ import annotations

from pathlib import Path

import pytest

from crossline.runtime.java.launch import prepare
from crossline.runtime.java.settings import LOOPBACK
from crossline.runtime.spark.session import JARS, binding, handed_out


@pytest.mark.parametrize(
    ("environment", "here", "expected"),
    [
        ({}, True, LOOPBACK),
        ({}, False, LOOPBACK),
        ({"SPARK_LOCAL_IP": "10.0.0.5"}, True, LOOPBACK),
        ({"SPARK_LOCAL_IP": "10.0.0.5"}, False, {}),
    ],
)
def test_the_driver_listens_on_loopback_unless_reported_otherwise(
    environment: dict[str, str], expected: dict[str, str], *, here: bool
) -> None:
    assert binding(environment, here=here) == expected
    assert LOOPBACK == {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}


def test_executors_elsewhere_get_the_jars_and_are_reported_their_python() -> None:
    jars, given = [Path("/cache/a.jar"), Path("/cache/b.jar")], {JARS: "s3a://more/c.jar"}
    assert handed_out(jars, {}, here=True) == {}
    assert handed_out(jars, {}, here=False) == {JARS: "/cache/a.jar,/cache/b.jar"}
    assert handed_out(jars, given, here=False) == {JARS: "/cache/a.jar,/cache/b.jar,s3a://more/c.jar"}
    environment: dict[str, str] = {}
    prepare(environment, here=False, python="./env/bin/python")
    assert environment["PYSPARK_PYTHON"] == "./env/bin/python"
