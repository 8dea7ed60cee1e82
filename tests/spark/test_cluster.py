"""The unchanged pipeline on a standalone cluster says what it says in one process, which is what the twin says.

Executors that come and go, and those that read topics, are in ``e2e/test_kill_executor``.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from e2e.killing import QUICK, finish
from e2e.project import Project, figures, from_twin
from e2e.standalone import Standalone
from e2e.traffic import RULES, STREAM, Record, expected, lines, records

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SHARDS = 3


def project_on(master: str, root: Path, log: list[Record]) -> Project:
    """A log in two files, read in some ten batches."""
    project = Project(
        root,
        RULES,
        sources={STREAM: {"kind": "files", "path": "in", "max_batch_bytes": 3_000}},
        engine={"trigger": "0s", "shards": SHARDS, "checkpoint": "out/checkpoint", "master": master},
    )
    project.give("a.jsonl", lines(log[:100]))
    project.give("b.jsonl", lines(log[100:]))
    return project


@pytest.fixture(scope="module")
def log() -> list[Record]:
    return records(240, seed=11)


@pytest.fixture(scope="module")
def on_one(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, log: list[Record]) -> Project:
    """Run by threads of one process: ``local[2]``."""
    project = project_on("local[2]", tmp_path_factory.mktemp("one"), log)
    project.drain(spark)
    return project


@pytest.fixture
def secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The settings of docs/operations.md with which Spark authenticates connections by a secret."""
    folder = tmp_path / "spark-conf"
    folder.mkdir(mode=0o700)
    settings = {"authenticate": "true", "authenticate.secret": secrets.token_hex(32), "network.crypto.enabled": "true"}
    settings["executor.extraJavaOptions"] = " ".join(QUICK)
    file = folder / "spark-defaults.conf"
    file.write_text("".join(f"spark.{name} {value}\n" for name, value in settings.items()))
    monkeypatch.setenv("SPARK_CONF_DIR", str(folder))
    return file


@pytest.fixture
def standalone(tmp_path: Path, secret: Path) -> Iterator[str]:
    """A master and a worker with two cores, which talk to who knows the secret; gives the master's address."""
    with Standalone(tmp_path, secret) as cluster:
        cluster.add(cores=2)
        yield cluster.address


def same(project: Project, on_one: Project, log: list[Record]) -> None:
    twin = expected(RULES, log)
    assert figures(project.alerts()) == from_twin(twin)
    assert project.alerts() == on_one.alerts()
    assert project.dead() == on_one.dead() == sorted(("duplicate_id", log[n]["id"]) for n in twin.duplicates)
    assert project.late() == on_one.late() == sorted(log[n]["id"] for n in twin.late)
    assert project.rows("SELECT count(*) FROM batches")[0][0] > SHARDS


@pytest.mark.timeout(900)
def test_a_standalone_master(standalone: str, tmp_path: Path, on_one: Project, log: list[Record]) -> None:
    project = project_on(standalone, tmp_path / "project", log)
    finish(project)
    assert list((tmp_path / "work").glob("app-*")), "the worker had nothing to do"
    same(project, on_one, log)
