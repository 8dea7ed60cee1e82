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

from crossline.backtest import in_process
from crossline.backtest.backtest import BacktestSpec, RecordedInput
from crossline.evaluate.bounds import Bounds
from crossline.rule_registry.directory import log_path, ruleset_of_log
from crossline.rule_registry.table_log import tables_of_log
from crossline.rule_registry.tables import forms_of, streams_of
from crossline.runtime.java.child_processes import end_with_parent
from crossline.settings.config import rule_defaults

from .ended import command_of, has_ended
from .project import Alerts, Project, read_jsonl
from .traffic import BASE_MS, STREAM, Body, lines

WAIT_S = 400.0
LEAVE_S = 20.0
QUICK = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")  # for a Java of half a minute
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


# Of a table whose rows hold from instants on, so that what joins them is the same whenever a batch is run.
TIERED: Body = {
    "rule_id": "tiered",
    "version": 1,
    "rule_type": "velocity",
    "source_topic": "payments",
    "group_by": "tier.name",
    "aggregation_type": "sum",
    "aggregation_field": "tier.weight",
    "window": "30s",
    "aggregation_threshold": 30,
}
# What waits, what is of several keys, what is judged again, and what reads the hits of all that.
WAITING: list[Body] = [
    {
        "rule_id": "no_cash",
        "version": 1,
        "rule_type": "absence",
        "source_topic": "payments",
        "group_by": "account",
        "after": [{"field": "amount", "operator": ">=", "value": 250}],
        "expect": [{"field": "kind", "operator": "==", "value": "cash"}],
        "within": "15s",
    },
    {
        "rule_id": "device_of_account",
        "version": 1,
        "rule_type": "formula",
        "source_topic": "payments",
        "figures": {
            "mine": {"count": True, "group_by": "account", "window": "30s"},
            "theirs": {"sum": "amount", "group_by": "device", "window": "30s"},
        },
        "when": "mine >= 4 and theirs >= 800",
        "value": "theirs",
    },
    {
        "rule_id": "again",
        "version": 1,
        "rule_type": "velocity",
        "source_topic": "payments",
        "group_by": "account",
        "aggregation_type": "count",
        "window": "10s",
        "aggregation_threshold": 3,
        "late_policy": "reevaluate",
    },
    {
        "rule_id": "together",
        "version": 1,
        "rule_type": "composite",
        "any_of": ["no_cash", "device_of_account"],
        "at_least": 2,
        "join_key": "account",
        "window": "1m",
    },
]
TIERS: dict[str, Any] = {
    "tier": {
        "kind": "files",
        "path": "tiers.jsonl",
        "key": "account",
        "fields": {"name": "string", "weight": "integer"},
        "valid_from": "since",
    }
}


def tiers(names: str) -> bytes:
    """Rows of the table: an account is of another tier every 150 s of ingest time, and one is of none."""
    rows = [
        {
            "account": f"a{account}",
            "name": names[(account + turn) % len(names)],
            "weight": 1 + (account + turn) % 4,
            "since": BASE_MS + 150_000 * turn if turn else None,
        }
        for account in range(11)
        for turn in range(25)
    ]
    return lines(rows)


def tiered_at(root: Path, batch_bytes: int = 8_000) -> Project:
    """As ``project_at``, with a table and a rule that reads it, and with rules that keep more than windows.

    There is a sink more, that no batch waits for.
    """
    (root / "tiers.jsonl").write_bytes(tiers("abc"))
    return project_at(root, batch_bytes, [*RULES, TIERED, *WAITING], enrich=TIERS, sinks=[*SINKS, BEHIND])


SINKS = [{"kind": "sqlite", "path": "out/alerts.db"}, {"kind": "jsonl", "path": "out/alerts.jsonl"}]
BEHIND = {"kind": "jsonl", "path": "out/behind.jsonl", "behind": True}


def project_at(root: Path, batch_bytes: int = 8_000, rules: list[Body] = RULES, **more: Any) -> Project:
    """A pipeline that takes its files in batches of about 70 records; ``feeding`` gives them."""
    return Project(
        root,
        rules,
        **{"sinks": SINKS, **more},
        sources={"payments": {"kind": "files", "path": "in", "max_batch_bytes": batch_bytes}},
        engine={"trigger": "0s", "shards": 2, "checkpoint": "out/checkpoint", "master": "local[2]"},
    )


def running(project: Project, *arguments: str) -> AbstractContextManager[subprocess.Popen[bytes]]:
    """``crossline run`` in a session of its own, of which no process is left at the end."""
    return working(project, "run", str(project.pipeline), *arguments)


@contextmanager
def working(project: Project, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """The command line in a session of its own, of which no process is left at the end."""
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
    """All that run of the session that ``process`` began, those among them whose parents are gone."""
    if process.returncode is not None and psutil.pid_exists(process.pid):
        return []  # it was reaped, and its process id belongs to another process by now
    found = []
    for pid in psutil.pids():
        with suppress(ProcessLookupError, psutil.NoSuchProcess):
            if os.getsid(pid) == process.pid and not has_ended(each := psutil.Process(pid)):
                found.append(each)
    return found


def named(process: subprocess.Popen[bytes], what: str) -> list[psutil.Process]:
    """Of the processes that ``process`` started, those with this name, or whose command line holds ``what``."""
    return [each for each in family(process) if what == _name(each) or what in " ".join(command_of(each))]


def _name(process: psutil.Process) -> str:
    with suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
        return str(process.name())
    return ""


def until(done: Callable[[], bool], project: Project, process: subprocess.Popen[bytes]) -> None:
    """Wait for the work of another process, which sends no event, as long as that process runs."""
    deadline_s = time.monotonic() + WAIT_S
    pause = threading.Event()
    while not done():
        assert process.poll() is None, f"ended by itself: {log_of(project)}"
        assert time.monotonic() < deadline_s, log_of(project)
        pause.wait(0.02)


def log_of(project: Project) -> str:
    """The end of the logs of its runs."""
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
    for found in (project.alerts(), read_jsonl(project.root / "out" / "alerts.jsonl")):
        differ = [name for name in {**undisturbed, **found} if found.get(name) != undisturbed.get(name)]
        assert not differ, [(found.get(name), undisturbed.get(name)) for name in differ[:4]]


def as_of_log(project: Project) -> Alerts:
    """What a backtest in processes of this machine finds, with the tables as they were by the rule log."""
    config, log, output = project.config(), log_path(project.root / "rules", "shop"), project.root / "then.jsonl"
    history = RecordedInput(config.streams, {STREAM: [str(project.root / "in")]})
    tables = tables_of_log(log, forms_of(config), streams_of(config), project.root / "sorted")
    bounds = Bounds(config.engine.partition_lag)
    judged = BacktestSpec(ruleset_of_log(log), history, defaults=rule_defaults(config), bounds=bounds, tables=tables)
    in_process.backtest(judged, output)
    return read_jsonl(output)


def wait_for_all_to_end(process: subprocess.Popen[bytes]) -> None:
    """Until no process is left of those that a run had started, orphans among them."""
    left = _left_after(process, WAIT_S)
    assert not left, [command_of(each) for each in left]


def _left_after(process: subprocess.Popen[bytes], wait_s: float) -> list[psutil.Process]:
    """Who is left of the session once all are gone or the time is up."""
    deadline_s = time.monotonic() + wait_s
    pause = threading.Event()
    while (left := family(process)) and time.monotonic() < deadline_s:
        pause.wait(0.02)
    return left


def _clear(process: subprocess.Popen[bytes]) -> None:
    """Orphans end by themselves and remove their files; those that do not end are killed."""
    for each in _left_after(process, LEAVE_S):
        with suppress(psutil.NoSuchProcess):
            each.kill()
