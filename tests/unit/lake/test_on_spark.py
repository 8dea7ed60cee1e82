"""What Spark is asked for: the catalog's settings, the procedures, and again where another commit came first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from crossline.basics.errors import PermanentError, RetryableError, UsageError
from crossline.lake.catalogs.spark_catalog import catalog_settings, jar_groups, session_settings
from crossline.lake.maintenance.expiry import plain_path
from crossline.lake.maintenance.on_spark import TRIES_MAX, _Procedures, file_properties, instant, order_of, text
from crossline.lake.tables.table_layouts import ALERTS, RULE_EVENTS
from crossline.settings.process.lake import LakeSettings

from .lake_kit import SpooledPipeline

LAKES = {
    "{path: /srv/a lake}": {
        "warehouse": "file:///srv/a lake",
        "type": "jdbc",
        "uri": "jdbc:sqlite:/srv/a lake/catalog.db",
        "jdbc.busy_timeout": "30000",
        "jdbc.schema-version": "V1",
    },
    "{path: 's3://b/x?endpoint=http://store:9000&region=eu', catalog: {kind: postgres, host: db, user: lake, "
    "password_env: PW, sslmode: require}}": {
        "warehouse": "s3://b/x",
        "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        "s3.endpoint": "http://store:9000",
        "s3.path-style-access": "true",
        "client.region": "eu",
        "type": "jdbc",
        "uri": "jdbc:postgresql://db:5432/lake",
        "jdbc.schema-version": "V1",
        "jdbc.user": "lake",
        "jdbc.password": "s3cret",
        "jdbc.sslmode": "require",
    },
    "{catalog: {kind: rest, uri: 'http://catalog:8181', warehouse: w, token_env: PW}, path: /srv/lake}": {
        "warehouse": "w",
        "type": "rest",
        "uri": "http://catalog:8181",
        "token": "s3cret",
    },
}


@pytest.mark.parametrize("lake", LAKES)
def test_the_catalog_as_spark_opens_it(tmp_path: Path, lake: str) -> None:
    pipeline = SpooledPipeline(tmp_path)
    pipeline.text = pipeline.text.replace("{commit_bytes: 1048576}", lake)
    found = catalog_settings(pipeline.config, {"PW": "s3cret"})
    common = {"": "org.apache.iceberg.spark.SparkCatalog", "cache-enabled": "false"}
    assert found == {f"spark.sql.catalog.lake.{name}".rstrip("."): v for name, v in {**common, **LAKES[lake]}.items()}


def test_a_secret_that_is_missing_is_named(tmp_path: Path) -> None:
    pipeline = SpooledPipeline(tmp_path)
    pipeline.text = pipeline.text.replace("{commit_bytes: 1048576}", list(LAKES)[-1])
    with pytest.raises(UsageError, match="environment variable PW, which token_env names, is not set"):
        catalog_settings(pipeline.config, {})


def test_jars_of_the_pipeline_stay_beside_ours() -> None:
    given = {"spark.jars": "/mine.jar", "spark.driver.extraClassPath": "/own.jar", "spark.executor.memory": "4g"}
    found = session_settings([Path("/kafka.jar")], [Path("/iceberg.jar")], given)
    assert found["spark.jars"] == "/iceberg.jar,/mine.jar"
    assert found["spark.driver.extraClassPath"] == "/kafka.jar:/iceberg.jar:/own.jar"
    assert found["spark.executor.extraClassPath"] == "/kafka.jar:/iceberg.jar"
    assert found["spark.executor.memory"] == "4g"
    assert "TieredStopAtLevel" not in found["spark.driver.extraJavaOptions"]
    assert jar_groups(LakeSettings()) == ("spark-iceberg",)


class Spark:
    """Fails so many calls with ``error``."""

    def __init__(self, error: str, failures: int) -> None:
        self.error, self.failures, self.asked = error, failures, list[str]()

    def sql(self, query: str) -> Spark:
        self.asked.append(query)
        return self

    def collect(self) -> list[Any]:
        if len(self.asked) <= self.failures:
            raise RuntimeError(self.error)
        return ["done"]


CONFLICT = "x: org.apache.iceberg.exceptions.CommitFailedException: metadata location has changed"


def test_a_procedure_that_meets_another_commit_is_called_again() -> None:
    spark = Spark(CONFLICT, TRIES_MAX - 1)
    assert _Procedures(spark, "`a`.`b`").call("expire_snapshots", retain_last="2") == ["done"]  # type: ignore[arg-type]
    assert spark.asked == ["CALL lake.system.expire_snapshots(table => '`a`.`b`', retain_last => 2)"] * TRIES_MAX


def test_it_gives_up_after_some_tries() -> None:
    with pytest.raises(RetryableError, match="other commits came first 4 times; run it again"):
        _Procedures(Spark(CONFLICT, 99), "t").call("rewrite_manifests")  # type: ignore[arg-type]


def test_another_failure_is_told_at_once() -> None:
    spark = Spark("An error occurred while calling o9.sql.\n: java.io.IOException: No space left on device\n\tat x", 1)
    with pytest.raises(PermanentError, match=r"the query failed: java\.io\.IOException: No space left on device"):
        _Procedures(spark, "t").call("rewrite_manifests")  # type: ignore[arg-type]
    assert len(spark.asked) == 1


def test_files_are_written_as_the_writer_does() -> None:
    assert order_of(ALERTS) == ["event_time", "_batch", "alert_id"]
    assert order_of(RULE_EVENTS) == ["at", "_batch", "body"]
    found = file_properties(ALERTS)
    assert sorted(name.rpartition(".")[2] for name in found if "-enabled." in name) == ["alert_id", "key", "record_id"]


def test_literals_of_sql() -> None:
    assert text("it's \\ here") == "'it\\'s \\\\ here'"
    assert instant(1_767_225_600_999) == "TIMESTAMP '2026-01-01 00:00:00+00:00'"


@pytest.mark.parametrize("written", ["file:/lake/a", "file:///lake/a", "file://///lake/a"])
def test_a_file_has_one_address(written: str) -> None:
    assert plain_path(written) == "/lake/a"
    assert plain_path("s3://lake/a") == "s3://lake/a"
