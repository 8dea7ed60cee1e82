"""Pipelines in processes of their own, processes that are killed, and what must come out all the same."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

from crossline.engine.runtime.tied import end_with_parent

from .project import Alerts, Project, read_jsonl
from .traffic import Body

WAIT_S = 400.0
LEAVE_S = 20.0
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


def project_at(root: Path, master: str = "local[2]", batch_bytes: int = 8_000) -> Project:
    """A pipeline that takes its files in batches of about 70 records; ``feeding`` gives them."""
    return Project(
        root,
        RULES,
        sources={"payments": {"kind": "files", "path": "in", "max_batch_bytes": batch_bytes}},
        sinks=[{"kind": "sqlite", "path": "out/alerts.db"}, {"kind": "jsonl", "path": "out/alerts.jsonl"}],
        engine={"trigger": "0s", "shards": 2, "checkpoint": "out/checkpoint", "master": master},
    )


def running(project: Project, *arguments: str) -> AbstractContextManager[subprocess.Popen[bytes]]:
    """``crossline run`` in a session of its own, of which nobody is left at the end."""
    return working(project, "run", str(project.pipeline), *arguments)


@contextmanager
def working(project: Project, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """The command line in a session of its own, of which nobody is left at the end."""
    command = [sys.executable, "-m", "crossline.cli.main", *arguments]
    with (project.root / "run.log").open("ab") as log:
        process = subprocess.Popen(
            command,
            stdout=log,
            stderr=log,
            start_new_session=True,
            preexec_fn=end_with_parent,  # noqa: PLW1509 - it does no more than one call to the system
        )
        try:
            yield process
        finally:
            kill_driver(process)
            _clear(process)


def family(process: subprocess.Popen[bytes]) -> list[psutil.Process]:
    """All of the session that ``process`` began, those among them whose parents are gone."""
    if process.returncode is not None and psutil.pid_exists(process.pid):
        return []  # it was reaped, and its number is somebody else's by now
    found = []
    for pid in psutil.pids():
        with suppress(ProcessLookupError, psutil.NoSuchProcess):
            if os.getsid(pid) == process.pid:
                found.append(psutil.Process(pid))
    return found


def named(process: subprocess.Popen[bytes], what: str) -> list[psutil.Process]:
    """Of the processes that ``process`` started, those with this name, or whose command line holds ``what``."""
    return [each for each in family(process) if what == _name(each) or what in " ".join(_command(each))]


def _name(process: psutil.Process) -> str:
    with suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
        return str(process.name())
    return ""


def until(done: Callable[[], bool], project: Project, process: subprocess.Popen[bytes]) -> None:
    """Wait for what no event tells, the work of another process, as long as that runs."""
    deadline_s = time.monotonic() + WAIT_S
    pause = threading.Event()
    while not done():
        assert process.poll() is None, f"ended by itself: {log_of(project)}"
        assert time.monotonic() < deadline_s, log_of(project)
        pause.wait(0.02)


def log_of(project: Project) -> str:
    """The end of what its runs said."""
    return (project.root / "run.log").read_text()[-3000:]


def kill_driver(process: subprocess.Popen[bytes]) -> bool:
    """The driver alone; Java and Python workers, in groups of their own, are left to find out. Whether it ran."""
    if process.poll() is not None:
        return False
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    return True


def stop(project: Project, process: subprocess.Popen[bytes]) -> None:
    """As a user does; it must end well."""
    process.terminate()
    assert process.wait(WAIT_S) == 0, log_of(project)


def finish(project: Project) -> None:
    with running(project, "--drain") as process:
        assert process.wait(WAIT_S) == 0, log_of(project)


def same_everywhere(project: Project, undisturbed: Alerts) -> None:
    assert project.alerts() == undisturbed
    assert read_jsonl(project.root / "out" / "alerts.jsonl") == undisturbed


def wait_for_nobody(process: subprocess.Popen[bytes]) -> None:
    """Until no process is left of those that a run had started, orphans among them."""
    left = _left_after(process, WAIT_S)
    assert not left, [_command(each) for each in left]


def _left_after(process: subprocess.Popen[bytes], wait_s: float) -> list[psutil.Process]:
    """Who is left of the session once all are gone or the time is up."""
    deadline_s = time.monotonic() + wait_s
    pause = threading.Event()
    while (left := family(process)) and time.monotonic() < deadline_s:
        pause.wait(0.02)
    return left


def _clear(process: subprocess.Popen[bytes]) -> None:
    """Orphans go by themselves and take their files along; whoever does not is killed."""
    for each in _left_after(process, LEAVE_S):
        with suppress(psutil.NoSuchProcess):
            each.kill()


def _command(process: psutil.Process) -> list[Any]:
    try:
        return list(process.cmdline())
    except psutil.Error:
        return []
