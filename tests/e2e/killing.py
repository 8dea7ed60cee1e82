"""Pipelines in processes of their own, processes that are killed, and what must come out all the same."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from .project import Alerts, Project, read_jsonl
from .traffic import Body, lines, records

COUNT = 6_000
WAIT_S = 400.0
SEED = 20_261_121

RULES: list[Body] = [
    {
        "rule_id": "burst",
        "version": 1,
        "rule_type": "velocity",
        "source_topic": "payments",
        "group_by": "account",
        "aggregation_type": "count",
        "window": "30s",
        "aggregation_threshold": 5,
    },
    {
        "rule_id": "spend",
        "version": 1,
        "rule_type": "velocity",
        "source_topic": "payments",
        "group_by": ["account", "kind"],
        "aggregation_type": "sum",
        "aggregation_field": "price",
        "window": "5m",
        "operator": ">",
        "aggregation_threshold": 20,
        "cooldown": "1m",
    },
    {
        "rule_id": "dear",
        "version": 1,
        "rule_type": "threshold",
        "source_topic": "payments",
        "conditions": [{"field": "amount", "operator": ">=", "value": 250}],
    },
]


def project_at(root: Path, master: str = "local[2]") -> Project:
    """A log of 6,000 records, taken in batches of about 60."""
    project = Project(
        root,
        RULES,
        sources={"payments": {"kind": "files", "path": "in", "max_batch_bytes": 8_000}},
        sinks=[{"kind": "sqlite", "path": "out/alerts.db"}, {"kind": "jsonl", "path": "out/alerts.jsonl"}],
        engine={"trigger": "0s", "shards": 2, "checkpoint": "out/checkpoint", "master": master},
    )
    project.give("a.jsonl", lines(records(COUNT, SEED)))
    return project


@contextmanager
def running(project: Project, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """``crossline run`` in a session of its own, killed whole at the end."""
    command = [sys.executable, "-m", "crossline.cli.main", "run", str(project.pipeline), *arguments]
    with (project.root / "run.log").open("ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        try:
            yield process
        finally:
            for child in family(process):
                child.kill()
            process.wait()


def family(process: subprocess.Popen[bytes]) -> list[psutil.Process]:
    try:
        root = psutil.Process(process.pid)
        return [*root.children(recursive=True), root]
    except psutil.NoSuchProcess:
        return []


def batches(project: Project) -> int:
    if not project.store.exists():
        return 0
    try:
        return int(project.rows("SELECT count(*) FROM batches")[0][0])
    except Exception:  # noqa: BLE001 - the table is being made
        return 0


def wait_for_batches(project: Project, count: int, process: subprocess.Popen[bytes]) -> None:
    deadline_s = time.monotonic() + WAIT_S
    pause = threading.Event()
    while batches(project) < count:
        assert process.poll() is None, f"ended by itself: {(project.root / 'run.log').read_text()[-2000:]}"
        assert time.monotonic() < deadline_s, (project.root / "run.log").read_text()[-2000:]
        pause.wait(0.02)


def finish(project: Project) -> None:
    with running(project, "--drain") as process:
        assert process.wait(WAIT_S) == 0, (project.root / "run.log").read_text()[-3000:]


def same_everywhere(project: Project, undisturbed: Alerts) -> None:
    assert project.alerts() == undisturbed
    assert read_jsonl(project.root / "out" / "alerts.jsonl") == undisturbed


def named(process: subprocess.Popen[bytes], what: str) -> list[psutil.Process]:
    """Of the processes that ``process`` started, those whose command line holds ``what``."""
    return [each for each in family(process) if what in " ".join(_command(each))]


def kill_some(
    process: subprocess.Popen[bytes],
    project: Project,
    what: str,
    times: int,
    draw: random.Random,
    within_s: float = 0.0,
) -> int:
    """SIGKILL ``times`` processes whose command line holds ``what``, each soon after another batch; how many."""
    killed = 0
    while killed < times and process.poll() is None:
        wait_for_batches(project, batches(project) + 1, process)
        threading.Event().wait(draw.uniform(0, within_s))
        found = named(process, what)
        if found:
            draw.choice(found).kill()
            killed += 1
    return killed


def wait_for_nobody(session: int) -> None:
    """Until no process is left of those that a run in a session of its own had started, orphans among them."""
    deadline_s = time.monotonic() + WAIT_S
    pause = threading.Event()
    while left := [each for each in psutil.pids() if _session(each) == session]:
        assert time.monotonic() < deadline_s, [_command(psutil.Process(each)) for each in left]
        pause.wait(0.02)


def _session(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return None


def _command(process: psutil.Process) -> list[Any]:
    try:
        return list(process.cmdline())
    except psutil.Error:
        return []
