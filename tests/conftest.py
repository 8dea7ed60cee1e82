"""What many tests share: one Spark session, one Kafka broker and one PostgreSQL a run, started by who asks first."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from dev.services.broker import LocalBroker
    from dev.services.iceberg import LocalIceberg
    from dev.services.postgres import LocalPostgres
    from dev.services.redis import LocalRedis
    from dev.services.s3 import LocalS3
    from pyspark.sql import SparkSession

# Packages whose modules assert for tests: a failure there shows what differed, as one in a test does.
pytest.register_assert_rewrite(
    *("connectors", "docs", "e2e", "oracle", "spark"),
    *("decoded_values", "formula", "panes", "patterns", "rule_registry", "rules", "windows"),
)
# Each process of pytest-xdist collects all tests, and rewriting their asserts is most of that: what one has compiled,
# others load, whatever images say of bytecode.
sys.dont_write_bytecode = False
# pytest-xdist gives its processes the width of a terminal that they do not have.
os.environ.pop("COLUMNS", None)

# Of the object store that tests start, for Spark's Python too, which is forked before anybody knows of that store.
os.environ |= {
    "AWS_ACCESS_KEY_ID": "tests",
    "AWS_SECRET_ACCESS_KEY": "of-the-tests",
    "AWS_REQUEST_CHECKSUM_CALCULATION": "when_required",
    "AWS_EC2_METADATA_DISABLED": "true",
}

# How long an example takes says nothing here: kernels compile on first use, and machines are shared. The same commit
# passes or fails wherever it is run; a deep run draws anew each time, and is what looks for faults not met yet.
settings.register_profile("crossline", deadline=None, derandomize=os.environ.get("CROSSLINE_DEEP") != "1")
settings.load_profile("crossline")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A Spark session on two cores, with all that it leaves on disk in a folder of its own.

    It has Iceberg's jars on its class path, behind those of every session; a catalog is there where a test sets one.
    """
    from crossline.lake.catalogs.spark_catalog import CLASS_PATHS, ICEBERG_JARS, session_settings  # noqa: PLC0415 - as above
    from crossline.runtime.java.launch import found_jars  # noqa: PLC0415 - as above
    from crossline.runtime.machine.jars import ensure_jars  # noqa: PLC0415 - as above
    from crossline.runtime.spark.session import build_session  # noqa: PLC0415 - as above
    from crossline.runtime.spark_internals.gateway import end_session  # noqa: PLC0415 - only tests that use Spark wait for its import

    folder = tmp_path_factory.mktemp("spark")
    iceberg = session_settings(found_jars(), ensure_jars(ICEBERG_JARS), {})
    session = build_session(
        app_name="tests",
        cores=2,
        settings={
            **{name: iceberg[name] for name in CLASS_PATHS},
            "spark.driver.memory": "2g",
            "spark.local.dir": str(folder / "local"),
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
        },
    )
    yield session
    end_session(session)


@pytest.fixture(scope="session")
def kafka_broker() -> Iterator[LocalBroker]:
    """A real Kafka broker; ``kafka_broker.brokers`` is its address, ``secured`` that where it asks who is there."""
    from dev.services.broker import LocalBroker, Secured  # noqa: PLC0415 - as above

    certificate = Path(__file__).parent / "connectors" / "tls" / "broker.pem"
    with LocalBroker(brief=True, secured=Secured(certificate, PLAIN_USERS, SCRAM_USERS)) as broker:
        yield broker


# Passwords as people choose them: with what settings of Java and of shells take for their own.
PLAIN_USERS = {"ann": "s3cret,of-ann"}
SCRAM_USERS = {"bob": "s3cret \"of\\bob'"}
_numbers = count()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[LocalPostgres]:
    """A real PostgreSQL; what it holds is lost where the machine crashes, not where the server does."""
    from dev.services.postgres import LocalPostgres  # noqa: PLC0415 - as above

    with LocalPostgres(brief=True) as server:
        yield server


@pytest.fixture
def postgres_schema(postgres_server: LocalPostgres) -> str:
    """A name that no schema has yet."""
    return f"test_{next(_numbers)}_{os.getpid()}"


GROUPS = {
    "spark": "shared",
    "kafka_broker": "kafka",
    "postgres_server": "postgres",
    "s3_server": "s3",
    "iceberg_server": "iceberg",
    # What takes long to make for tests of one file: made once, not in each process that gets some of them.
    "casework": "casework",
    "shop_served": "shop_served",
    "wheel": "wheel",
    "built_site": "built_site",
}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Where tests run in several processes, those that share the session or a server share a process.

    Those that need several go to the first of them here. A second broker starts where there is Spark: 6 s of a core,
    for which the tests of Kafka alone run beside those of Spark.
    """
    for item in items:
        needs = set(getattr(item, "fixturenames", ()))
        group = next((group for fixture, group in GROUPS.items() if fixture in needs), None)
        if group is not None:
            item.add_marker(pytest.mark.xdist_group(group))


def pytest_collection_finish(session: pytest.Session) -> None:
    """All that tests share stays to the end: who looks for garbage need not look through half a million objects."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def kafka_topic(kafka_broker: LocalBroker, request: pytest.FixtureRequest) -> Callable[..., str]:
    """Makes topics of names not used before; takes what ``LocalBroker.create_topic`` takes besides the name."""
    stem = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)[:60]

    def create(partitions: int = 1, *, append_time: bool = True, config: dict[str, str] | None = None) -> str:
        name = f"{stem}-{next(_numbers)}"
        return kafka_broker.create_topic(name, partitions, append_time=append_time, config=config)

    return create


@pytest.fixture(scope="session")
def redis_server() -> Iterator[LocalRedis]:
    """A real server that speaks as Redis does; ``redis_server.port`` is where it listens."""
    from dev.services.redis import LocalRedis  # noqa: PLC0415 - as above

    with LocalRedis() as server:
        yield server


@pytest.fixture(scope="session")
def iceberg_server() -> Iterator[LocalIceberg]:
    """A real server with Iceberg's REST protocol; ``iceberg_server.uri`` is its address."""
    from dev.services.iceberg import LocalIceberg  # noqa: PLC0415 - as above

    with LocalIceberg() as server:
        yield server


@pytest.fixture(scope="session")
def s3_server() -> Iterator[LocalS3]:
    """A real object store; ``s3_server.environment`` is what its clients need."""
    from dev.services.s3 import LocalS3  # noqa: PLC0415 - as above

    key, secret = os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"]
    with LocalS3(access_key=key, secret_key=secret) as server:
        yield server


@pytest.fixture(scope="session")
def name_node() -> Iterator[str]:
    """The URI of a real HDFS; only for tests behind CROSSLINE_DEEP, which need hdfs-native besides."""
    pytest.importorskip("hdfs_native", reason="pip install 'crossline[hdfs]'")
    from dev.services.hdfs import LocalHdfs  # noqa: PLC0415 - as above

    with LocalHdfs() as server:
        yield server.uri
