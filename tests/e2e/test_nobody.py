"""Another account of the machine tries all that a running pipeline listens at, and gets nowhere."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from crossline.runtime.java.launch import session_folder

from . import nobody
from .project import Project
from .test_hot_rules import PAIR
from .traffic import lines, records

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
NOBODY = 65_534
OWN = 60  # threads that a process may come to have meanwhile, of its own accord
IDLE = 3 * OWN  # connections to a port; Java takes some in one by one, so each costs time


def processes() -> list[psutil.Process]:
    """This one, which is the driver, all that it started, and state servers, which may be nobody's children."""
    own = psutil.Process()
    found = {each.pid: each for each in (own, *own.children(recursive=True))}
    for each in psutil.process_iter():
        with suppress(psutil.Error):
            if each.name().startswith("cl-") and each.uids().real == os.getuid():
                found[each.pid] = each
    return list(found.values())


def listening() -> tuple[set[int], set[str]]:
    """Ports and Unix sockets of all these."""
    ports, sockets = set(), set()
    for process in processes():
        with suppress(psutil.Error):
            inet = process.net_connections("inet")
            ports |= {each.laddr.port for each in inet if each.status == psutil.CONN_LISTEN}
            sockets |= {each.laddr for each in process.net_connections("unix") if each.laddr}
    return ports, sockets


@contextmanager
def attacked(**asked: Any) -> Iterator[dict[str, Any]]:
    """What nobody got to; the connections that it holds are held until the end."""
    uid = NOBODY if os.getuid() == 0 else os.getuid()
    command = [sys.executable, nobody.__file__, str(uid)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        nothing: dict[str, Any] = {"ports": [], "sockets": [], "folders": [], "held": [], "idle": 0}
        process.stdin.write(json.dumps({**nothing, **asked}) + "\n")
        process.stdin.flush()
        yield json.loads(process.stdout.readline())
        process.stdin.close()


def threads() -> dict[int, int]:
    found = {}
    for process in processes():
        with suppress(psutil.Error):
            found[process.pid] = process.num_threads()
    return found


def test_another_account_reaches_nothing(spark: SparkSession, tmp_path: Path) -> None:
    project = Project(tmp_path, [PAIR])
    project.give("0.jsonl", lines(records(10, seed=1)))
    with project.start(spark) as running:
        running.until_read(10)
        ports, sockets = listening()
        assert len(ports) >= 3  # Java's for Python, Spark's for messages, Spark's for blocks
        asked: dict[str, Any] = {"ports": sorted(ports)}
        if os.getuid() == 0:
            asked |= {"sockets": sorted(sockets), "folders": [str(session_folder()), str(tmp_path)]}
        with attacked(**asked) as found:
            assert found["got"] == []
        project.give("1.jsonl", lines(records(20, seed=1)[10:]))
        running.until_read(20)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be somebody else")
def test_idle_connections_cost_no_threads(spark: SparkSession, tmp_path: Path) -> None:
    project = Project(tmp_path, [PAIR])
    project.give("0.jsonl", lines(records(10, seed=1)))
    with project.start(spark) as running:
        running.until_read(10)
        before = threads()
        with attacked(held=sorted(listening()[0]), idle=IDLE):
            project.give("1.jsonl", lines(records(20, seed=1)[10:]))
            running.until_read(20)  # it goes on, and others had time to be taken in
            more = {pid: count - before.get(pid, 0) for pid, count in threads().items()}
            assert {pid: count for pid, count in more.items() if count > OWN} == {}
