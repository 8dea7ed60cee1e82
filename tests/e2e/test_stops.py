"""Runs are stopped, as terminals and supervisors do it, and killed: what they say, how they end, who is left."""

from __future__ import annotations

import os
import signal
import sqlite3
import stat
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from functools import cache
from pathlib import Path

import psutil
import pytest

from crossline.basics.errors import StateError
from crossline.runtime.snapshot.checkpoint import claim

from .feeding import taken
from .killing import SEED, WAIT_S, family, project_at, running, until, wait_for_all_to_end, working
from .project import Project
from .traffic import lines, records

pytestmark = pytest.mark.spark

RECORDS = 20_000  # some three hundred batches: far more than are awaited
# Each is a start. A terminal interrupts the group and a supervisor terminates all; these are the other way round.
ONLY_DEEP = pytest.mark.skipif(os.environ.get("CROSSLINE_DEEP") != "1", reason="only in deep runs")


@cache
def work() -> bytes:
    return lines(records(RECORDS, SEED))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    """A pipeline with work for a while, whose temporary files lie in a folder of the test's."""
    with tempfile.TemporaryDirectory(prefix="cl-") as temporary:  # not in tmp_path: names of sockets must be short
        monkeypatch.setenv("TMPDIR", temporary)
        project = project_at(tmp_path)
        project.give("log.jsonl", work())
        yield project


def temporary_files() -> list[str]:
    return sorted(path.name for path in Path(os.environ["TMPDIR"]).iterdir())


def log_lines(project: Project, after: int = 0) -> list[str]:
    """The lines of the log after ``after`` lines, without Java's message about its own options."""
    lines = (project.root / "run.log").read_text().splitlines()
    return [line for line in lines if "incubator" not in line][after:]


def batches(project: Project) -> int:
    with suppress(sqlite3.Error):
        return int(project.rows("SELECT count(*) FROM batches")[0][0]) if project.store.exists() else 0
    return 0


def under_way(project: Project, process: subprocess.Popen[bytes]) -> None:
    until(lambda: batches(project) >= 3, project, process)


def to_group(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """As a terminal does it."""
    os.killpg(process.pid, number)


def to_all(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """As a supervisor does it: to every process that the run started."""
    for each in family(process):
        with suppress(psutil.NoSuchProcess):
            each.send_signal(number)


def made_and_open(project: Project) -> list[str]:
    """What the run made that some other account could read, write or enter; the rest was there before."""
    made = (project.root / "out", project.root / "rules" / ".log", Path(os.environ["TMPDIR"]))
    return [path for folder in made for path in open_in(folder)]


def open_in(folder: Path) -> list[str]:
    found = []
    for root, _, files in os.walk(folder):
        for path in (root, *(os.path.join(root, name) for name in files)):  # noqa: PTH118 - some hundred of them
            with suppress(FileNotFoundError):
                about = os.lstat(path)
                if about.st_mode & 0o077 and not stat.S_ISLNK(about.st_mode):
                    found.append(f"{about.st_mode & 0o777:o} {path}")
    return found


@pytest.mark.parametrize(
    ("send", "number", "arguments", "code"),
    [
        pytest.param(to_group, signal.SIGINT, (), 0, id="int-to_group"),
        # Always as well: at the end of ``test_whatever_ended_a_run_the_next_one_goes_on``.
        pytest.param(to_all, signal.SIGTERM, (), 0, id="term-to_all", marks=ONLY_DEEP),
        pytest.param(to_group, signal.SIGTERM, ("--drain",), 143, id="drain-to_group"),
        pytest.param(to_all, signal.SIGINT, (), 0, id="int-to_all", marks=ONLY_DEEP),
        pytest.param(to_group, signal.SIGTERM, (), 0, id="term-to_group", marks=ONLY_DEEP),
        pytest.param(to_all, signal.SIGTERM, ("--drain",), 143, id="drain-to_all", marks=ONLY_DEEP),
    ],
)
def test_a_run_is_stopped(
    project: Project,
    send: Callable[[subprocess.Popen[bytes], signal.Signals], None],
    number: signal.Signals,
    arguments: tuple[str, ...],
    code: int,
) -> None:
    with running(project, *arguments) as process:
        under_way(project, process)
        assert made_and_open(project) == []
        send(process, number)
        assert process.wait(WAIT_S) == code, log_lines(project)
        wait_for_all_to_end(process)
    stopped_midway(project, log_lines(project), number, code)
    assert temporary_files() == []


def stopped_midway(project: Project, body: list[str], number: signal.Signals, code: int) -> None:
    assert 0 < taken(project) < RECORDS, "it went on to the end"
    assert body[0] == f"stopped by {number.name}", "\n".join(body)
    # A run that is to go on until it is stopped sums up.
    assert len(body) == 1 if code else body[1].startswith("pipeline shop: "), "\n".join(body)
    assert not any("Traceback" in line or "Exception" in line or "ERROR" in line for line in body), "\n".join(body)


@cache
def much() -> bytes:
    return b"".join(lines(records(6_000, seed)) for seed in range(40))


@pytest.fixture
def history(project: Project) -> list[str]:
    """The arguments of a backtest that takes a while."""
    (project.root / "log.jsonl").write_bytes(much())
    return [
        *("backtest", "--rules", str(project.root / "rules"), "--stream", str(project.root / "stream.yaml")),
        *("--input", str(project.root / "log.jsonl"), "--output", str(project.root / "found.jsonl")),
    ]


# What shows in its temporary folder that a runner is at work: files of rows, or Spark's note on its first batch.
AT_WORK = {"local": "[0-9]*-*", "spark": "spark/offsets/0"}


def at_work(on: str) -> bool:
    return any(Path(os.environ["TMPDIR"]).glob(f"crossline-backtest-*/{AT_WORK[on]}"))


@pytest.mark.parametrize(
    ("send", "on", "number", "code"),
    [
        pytest.param(to_group, "local", signal.SIGINT, 130, id="local-int-to_group"),
        pytest.param(to_all, "local", signal.SIGTERM, 143, id="local-term-to_all"),
        pytest.param(to_group, "spark", signal.SIGINT, 130, id="spark-int-to_group"),
        pytest.param(to_all, "local", signal.SIGINT, 130, id="local-int-to_all", marks=ONLY_DEEP),
        pytest.param(to_group, "local", signal.SIGTERM, 143, id="local-term-to_group", marks=ONLY_DEEP),
        pytest.param(to_all, "spark", signal.SIGINT, 130, id="spark-int-to_all", marks=ONLY_DEEP),
    ],
)
def test_a_backtest_is_interrupted(
    project: Project,
    history: list[str],
    send: Callable[[subprocess.Popen[bytes], signal.Signals], None],
    on: str,
    number: signal.Signals,
    code: int,
) -> None:
    with working(project, *history, "--on", on) as process:
        until(lambda: at_work(on), project, process)
        send(process, number)
        assert process.wait(WAIT_S) == code, log_lines(project)
        wait_for_all_to_end(process)
    assert log_lines(project) == [f"stopped by {number.name}"]
    assert not list(project.root.glob("*found.jsonl*"))
    assert temporary_files() == []


def test_a_killed_backtest_leaves_no_process_and_the_next_one_cleans_up(project: Project, history: list[str]) -> None:
    with working(project, *history) as process:
        until(lambda: at_work("local"), project, process)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        wait_for_all_to_end(process)
    left = temporary_files()
    assert left
    with working(project, *history) as process:
        until(lambda: not set(left) & set(temporary_files()), project, process)
        process.terminate()
        assert process.wait(WAIT_S) == 143, log_lines(project)
    assert temporary_files() == []


def test_a_backtest_is_stopped_while_it_starts(project: Project, history: list[str]) -> None:
    with working(project, *history) as process:
        until(lambda: bool(temporary_files()), project, process)
        to_all(process, signal.SIGTERM)
        assert process.wait(WAIT_S) == 143, log_lines(project)
        wait_for_all_to_end(process)
    assert log_lines(project) == ["stopped by SIGTERM"]
    assert not list(project.root.glob("*found.jsonl*"))


def test_a_stop_while_it_starts(project: Project) -> None:
    with running(project) as process:
        until(lambda: any(name.startswith("crossline-") for name in temporary_files()), project, process)
        to_all(process, signal.SIGTERM)
        assert process.wait(WAIT_S) == 0, log_lines(project)
        wait_for_all_to_end(process)
    assert log_lines(project) == ["stopped by SIGTERM"]


def test_whatever_ended_a_run_the_next_one_goes_on(project: Project) -> None:
    """The store was locked as it was stopped; it was killed. One run at a time, and each is a start: so in one go.

    The last one is stopped by a supervisor, which is as good a stop as one of a run that was never killed.
    """
    with running(project) as process:
        under_way(project, process)
        with closing(sqlite3.connect(project.store, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            to_all(process, signal.SIGTERM)
            assert process.wait(WAIT_S) == 1, log_lines(project)
        wait_for_all_to_end(process)
    texts = [line for line in log_lines(project) if not line.startswith("{")]  # the log: a batch was held
    assert len(texts) == 1
    assert texts[0].startswith("error: not stopped cleanly: the store ")
    theirs = Path(os.environ["TMPDIR"]) / "crossline-of-somebody-else"
    theirs.mkdir()
    before = batches(project)
    with running(project) as process:  # the other sinks, the rule log and the checkpoint were let go all the same
        until(lambda: batches(project) > before, project, process)
        refused = rf"is held by another run of this pipeline \(process {process.pid} on "
        with pytest.raises(StateError, match=refused):  # by which a second run begins
            claim(str(project.root / "out" / "checkpoint"))
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        wait_for_all_to_end(process)
    (left,) = set(temporary_files()) - {theirs.name}
    before, lines_before = batches(project), len(log_lines(project))
    with running(project) as process:  # and is stopped as the first tests here stop theirs, by a supervisor
        until(lambda: batches(project) >= before + 3, project, process)
        opened = made_and_open(project)
        assert [each for each in opened if theirs.name not in each] == []
        to_all(process, signal.SIGTERM)
        assert process.wait(WAIT_S) == 0, log_lines(project)
        wait_for_all_to_end(process)
    stopped_midway(project, log_lines(project, lines_before), signal.SIGTERM, 0)
    assert temporary_files() == [theirs.name], f"{left} was left by the killed run"
