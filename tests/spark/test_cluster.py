"""The unchanged pipeline on a standalone cluster says what it says in one process, which is what the twin says.

Executors that come and go, and those that read topics, are in ``e2e/test_kill_executor``.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
import pytest

from crossline.engine.machine.java import find_java
from e2e.killing import QUICK, WAIT_S, finish
from e2e.project import Project, figures, from_twin
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


@contextmanager
def daemon(arguments: list[str], awaited: str, log: Path) -> Iterator[str]:
    """A daemon of Spark's until the end of the context; gives the rest of the line that ``awaited`` begins."""
    jars = Path(pyspark.__file__).parent / "jars" / "*"
    command = [str(find_java().binary), "-Xmx256m", *QUICK, "-cp", str(jars), *arguments]
    # What Spark's own scripts set: a worker starts executors with it.
    spark = {"SPARK_HOME": str(jars.parent.parent), "SPARK_SCALA_VERSION": "2.13", "SPARK_LOCAL_IP": "127.0.0.1"}
    environment = {**os.environ, **spark}
    with log.open("w") as file, subprocess.Popen(command, stderr=file, env=environment, cwd=log.parent) as process:
        try:
            yield until_said(process, awaited, log)
        finally:
            process.kill()


def until_said(process: subprocess.Popen[bytes], awaited: str, log: Path) -> str:
    deadline_s = time.monotonic() + WAIT_S
    pause = threading.Event()
    while True:
        for line in log.read_text().splitlines(keepends=True):
            if awaited in line and line.endswith("\n"):
                return line.partition(awaited)[2].strip()
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline_s, log.read_text()
        pause.wait(0.02)


@pytest.fixture
def secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What docs/operations.md tells to write: the settings with which Spark asks whoever comes for a secret."""
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
    deploy = "org.apache.spark.deploy"
    here = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0", "--properties-file", str(secret)]
    with ExitStack() as stack:
        master = stack.enter_context(
            daemon([f"{deploy}.master.Master", *here], "Starting Spark master at ", tmp_path / "master.log")
        )
        work = ["--cores", "2", "--memory", "1g", "--work-dir", str(tmp_path / "work")]
        worker = [f"{deploy}.worker.Worker", *here, *work, master]
        stack.enter_context(daemon(worker, "Successfully registered with master ", tmp_path / "worker.log"))
        yield master


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
