"""Opens the catalog of a lake: a SQLite file, a PostgreSQL database, or a REST server."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crossline.basics.errors import CrosslineError, StateError, UsageError
from crossline.basics.texts.uris import ENDPOINT, REGION, asked_in
from crossline.io.objects.location import is_uri
from crossline.settings.config import PipelineConfig
from crossline.settings.process.lake import (
    LakeSettings,
    PostgresCatalogSettings,
    RestCatalogSettings,
    SqliteCatalogSettings,
)

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

CATALOG_NAME = "lake"  # the same for all engines: Iceberg's JDBC catalog keeps it in its tables
SQLITE_S = "30"  # how long a locked catalog is waited for
_OPEN_TRIES, _PAUSE_S = 4, 0.2
_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")


@dataclass(frozen=True, slots=True)
class LakeAddress:
    """Where a lake is: its catalog, the namespace of its tables, and the folder or prefix of their files."""

    catalog: Catalog
    namespace: str
    warehouse: str

    def close(self) -> None:
        """Close the connections to the catalog."""
        self.catalog.close()


def open_lake(config: PipelineConfig, environment: Mapping[str, str] = os.environ) -> LakeAddress:
    """The lake of a pipeline, whose paths are absolute or relative to the working directory.

    Raises:
        UsageError: The pipeline has no ``lake:``, or its folder cannot be named in a URI.
        ModuleNotFoundError: A package of the extra ``lake`` is missing.
        StateError: The catalog cannot be opened.
        LakeUnavailableError: The server of a REST catalog does not answer now.
    """
    if config.lake is None:
        raise UsageError(f"pipeline {config.name} has no lake; write `lake: {{}}` in its file")
    warehouse = config.lake.path if is_uri(config.lake.path) else str(Path(config.lake.path).absolute())
    if not is_uri(warehouse) and set(warehouse) & set("#?"):
        raise UsageError(
            f"lake: found path {warehouse}; expected one without # and ?, since Iceberg's locations are URIs"
        )
    namespace = config.lake.namespace or re.sub(r"[.-]", "_", config.name)
    catalog = _catalog(config.lake, warehouse, environment)
    try:
        _ensure_namespace(catalog, namespace)
    except Exception as error:  # noqa: BLE001 - drivers raise errors of their own
        catalog.close()
        raise _unusable(config.lake, error) from None
    return LakeAddress(catalog, namespace, warehouse)


def _unusable(settings: LakeSettings, error: Exception) -> CrosslineError:
    if isinstance(error, CrosslineError):
        return error
    if isinstance(settings.catalog, RestCatalogSettings):
        from crossline.lake.catalogs.rest_catalog import rest_error  # noqa: PLC0415 - an extra

        return rest_error(settings.catalog, error)
    return StateError(f"the catalog of the lake cannot be used: {_without_address(error)}")


def _ensure_namespace(catalog: Catalog, namespace: str) -> None:
    """Make the namespace where it is missing; another process may make it at the same time."""
    try:
        catalog.create_namespace_if_not_exists(namespace)
    except Exception as error:
        if isinstance(error, CrosslineError) or not catalog.namespace_exists(namespace):
            raise


def sqlite_file(config: PipelineConfig) -> Path | None:
    """The file of the lake's catalog; None: it is in a database or behind a server, or there is no lake."""
    if config.lake is None:
        return None
    chosen = config.lake.catalog or SqliteCatalogSettings(kind="sqlite", path=f"{config.lake.path}/catalog.db")
    return Path(chosen.path).absolute() if isinstance(chosen, SqliteCatalogSettings) else None


def _catalog(settings: LakeSettings, warehouse: str, environment: Mapping[str, str]) -> Catalog:
    properties = {"warehouse": warehouse_uri(warehouse), **store_properties(warehouse, environment)}
    chosen = settings.catalog or SqliteCatalogSettings(kind="sqlite", path=f"{warehouse}/catalog.db")
    if isinstance(chosen, RestCatalogSettings):
        from crossline.lake.catalogs.rest_catalog import rest_catalog  # noqa: PLC0415 - an extra

        return rest_catalog(CATALOG_NAME, chosen, properties, environment)
    from pyiceberg.catalog.sql import SqlCatalog  # noqa: PLC0415 - an extra

    if isinstance(chosen, SqliteCatalogSettings):
        path = Path(chosen.path).absolute()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StateError(f"{path}: the catalog of the lake cannot be made there: {error.strerror}") from error
        uri = _sqlite_uri(path)
    else:
        uri = _postgres_uri(chosen, environment)
    for attempt in range(_OPEN_TRIES):
        try:
            return SqlCatalog(CATALOG_NAME, uri=uri, **properties)
        except Exception as error:  # noqa: BLE001 - drivers raise errors of their own
            if attempt + 1 == _OPEN_TRIES:  # before that, another process may be making the same tables
                raise StateError(f"the catalog of the lake cannot be opened: {_without_address(error)}") from None
            time.sleep(_PAUSE_S)
    raise AssertionError


def _sqlite_uri(path: Path) -> str:
    """The address for SQLAlchemy, whatever characters the path has."""
    from sqlalchemy.engine import URL  # noqa: PLC0415 - an extra

    return URL.create("sqlite", database=str(path), query={"timeout": SQLITE_S}).render_as_string()


def postgres_parts(settings: PostgresCatalogSettings, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The parts of the database's address by libpq's names, the password among them. Raises UsageError."""
    from psycopg.conninfo import conninfo_to_dict  # noqa: PLC0415 - an extra

    if settings.dsn_env is not None:
        dsn = environment.get(settings.dsn_env)
        if not dsn:
            raise UsageError(f"environment variable {settings.dsn_env}, which dsn_env names, is not set")
        given: dict[str, Any] = dict(conninfo_to_dict(dsn))
    else:
        password = settings.password(environment, lambda path: Path(path).read_text(encoding="utf-8"))
        given = {
            "host": settings.host,
            "port": settings.port,
            "dbname": settings.dbname or settings.user,
            "user": settings.user,
            "password": password,
            "sslmode": settings.sslmode,
            "sslrootcert": settings.ca_file,
        }
    return {name: str(value) for name, value in given.items() if value is not None}


def _postgres_uri(settings: PostgresCatalogSettings, environment: Mapping[str, str]) -> str:
    """The address for SQLAlchemy. It holds the password: it is never printed."""
    from sqlalchemy.engine import URL  # noqa: PLC0415 - an extra

    given = postgres_parts(settings, environment)
    address = URL.create(
        "postgresql+psycopg",
        given.get("user"),
        given.get("password"),
        given.get("host"),
        int(given["port"]) if "port" in given else None,
        given.get("dbname"),
        {name: value for name, value in given.items() if name not in URL_PARTS},
    )
    return address.render_as_string(hide_password=False)


URL_PARTS = ("host", "port", "dbname", "user", "password")


def warehouse_uri(warehouse: str) -> str:
    """The warehouse, a folder or a prefix, as a URI."""
    return warehouse.partition("?")[0] if is_uri(warehouse) else f"file://{warehouse}"


def store_properties(warehouse: str, environment: Mapping[str, str]) -> dict[str, str]:
    """What pyiceberg needs to reach an S3 store; credentials stay where AWS's libraries look for them."""
    if not warehouse.startswith(("s3://", "s3a://")):
        return {}
    asked = asked_in(warehouse.partition("?")[2])
    endpoint = asked.get(ENDPOINT) or next((environment[name] for name in _ENDPOINTS if environment.get(name)), None)
    region = asked.get(REGION) or environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION")
    found = {"s3.endpoint": endpoint, "s3.region": region}
    return {name: value for name, value in found.items() if value}


def _without_address(error: Exception) -> str:
    """The error's text without any address with a password, which drivers like to repeat."""
    return re.sub(r"://[^@\s]*@", "://…@", str(error).splitlines()[0] if str(error) else type(error).__name__)
