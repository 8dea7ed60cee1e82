"""The catalog of a lake, as Spark with Iceberg's runtime opens it: the same tables, by the name ``CATALOG_NAME``."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

from crossline.basics.errors import UsageError
from crossline.io.objects.location import is_uri
from crossline.lake.catalogs.catalog import (
    CATALOG_NAME,
    SQLITE_S,
    URL_PARTS,
    postgres_parts,
    store_properties,
    warehouse_uri,
)
from crossline.lake.catalogs.rest_catalog import rest_properties
from crossline.runtime.java.settings import base_settings
from crossline.settings.config import PipelineConfig
from crossline.settings.process.lake import LakeSettings, PostgresCatalogSettings, RestCatalogSettings

ICEBERG_JARS = "spark-iceberg"
S3_JARS = "spark-iceberg-s3"
S3_SCHEMES = ("s3://", "s3a://")
_PREFIX = f"spark.sql.catalog.{CATALOG_NAME}"
CLASS_PATHS = ("spark.driver.extraClassPath", "spark.executor.extraClassPath")
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_JARS = "spark.jars"
_QUICK = " -XX:TieredStopAtLevel=1"  # for small batches; compaction runs long


def jar_groups(lake: LakeSettings) -> tuple[str, ...]:
    """The groups of jars that Spark needs for a lake."""
    return (ICEBERG_JARS, S3_JARS) if lake.path.startswith(S3_SCHEMES) else (ICEBERG_JARS,)


def session_settings(known: Sequence[Path], jars: Sequence[Path], given: Mapping[str, str]) -> dict[str, str]:
    """The settings of a session with Iceberg.

    Args:
        known: The jars of every session.
        jars: Those of ``jar_groups``.
        given: Settings of the pipeline, which are kept; jars that they name stay beside these.
    """
    ours = base_settings(known)
    class_path = {
        name: os.pathsep.join([ours[name], *map(str, jars), *filter(None, [given.get(name)])]) for name in CLASS_PATHS
    }
    return {
        _JAVA_OPTIONS: ours[_JAVA_OPTIONS].replace(_QUICK, ""),
        **given,
        **class_path,
        _JARS: ",".join([*map(str, jars), *filter(None, [given.get(_JARS)])]),
    }


def catalog_settings(config: PipelineConfig, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The settings of the catalog. Set them in a running session: they may hold a password, and command lines are seen.

    Raises:
        UsageError: The pipeline has no lake, or an environment variable with a secret is not set.
    """
    lake = config.lake
    if lake is None:
        raise UsageError(f"pipeline {config.name} has no lake; write `lake: {{}}` in its file")
    warehouse = lake.path if is_uri(lake.path) else str(Path(lake.path).absolute())
    catalog = _catalog(lake, warehouse, environment)
    own = {} if catalog["type"] == "rest" else {"warehouse": warehouse_uri(warehouse)}
    properties = {
        "": "org.apache.iceberg.spark.SparkCatalog",
        "cache-enabled": "false",  # else a session reads old snapshots
        **own,  # a REST server knows warehouses by names of its own
        **_store(warehouse, environment),
        **catalog,
    }
    return {f"{_PREFIX}.{name}" if name else _PREFIX: value for name, value in properties.items()}


def _store(warehouse: str, environment: Mapping[str, str]) -> dict[str, str]:
    if not warehouse.startswith(S3_SCHEMES):
        return {}
    known = store_properties(warehouse, environment)
    found = {"io-impl": "org.apache.iceberg.aws.s3.S3FileIO"}
    if "s3.endpoint" in known:
        found |= {"s3.endpoint": known["s3.endpoint"], "s3.path-style-access": "true"}
    if "s3.region" in known:
        found["client.region"] = known["s3.region"]
    return found


def _catalog(lake: LakeSettings, warehouse: str, environment: Mapping[str, str]) -> dict[str, str]:
    chosen = lake.catalog
    if isinstance(chosen, RestCatalogSettings):
        return {"type": "rest", **rest_properties(chosen, environment)}
    jdbc = {"type": "jdbc", "jdbc.schema-version": "V1"}  # as pyiceberg makes its tables
    if isinstance(chosen, PostgresCatalogSettings):
        given = postgres_parts(chosen, environment)
        host, port = given.get("host", "localhost"), given.get("port", "5432")
        more = {name: value for name, value in given.items() if name in {"user", "password"} or name not in URL_PARTS}
        return {
            **jdbc,
            "uri": f"jdbc:postgresql://{host}:{port}/{quote(given.get('dbname', ''), safe='')}",
            **{f"jdbc.{name}": value for name, value in more.items()},
        }
    path = Path(f"{warehouse}/catalog.db" if chosen is None else chosen.path).absolute()
    return {**jdbc, "uri": f"jdbc:sqlite:{path}", "jdbc.busy_timeout": f"{int(SQLITE_S) * 1_000}"}
