"""A full disk under the checkpoint holds the batch: it is reported and retried; nothing is lost or comes twice."""

from __future__ import annotations

import errno
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from structlog.testing import capture_logs

from crossline.runtime.pipeline.batches import Batches
from crossline.runtime.spark import disk_full
from crossline.runtime.state_log.offset_history import OffsetHistory

from .project import WAIT_S, Project, figures, from_twin
from .test_hot_rules import PAIR
from .test_life import settled
from .traffic import expected, lines, records

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
SEVERAL = "a disk takes nothing; holding the batch"
DISK_BYTES = 8 << 20


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_full, "PAUSE_S", 0.05)
    monkeypatch.setattr(disk_full, "PAUSE_S_MAX", 0.05)


@pytest.mark.parametrize(
    ("where", "name", "after"),
    [
        (Batches, "_outcome", False),
        (Batches, "_outcome", True),
        (OffsetHistory, "add", False),
        (OffsetHistory, "add", True),
    ],
    ids=["judging", "judged", "noting", "noted"],
)
def test_the_batch_is_run_again_until_it_is_done(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: type, name: str, after: bool
) -> None:
    log = records(60, seed=3)
    project = Project(tmp_path, [PAIR])
    project.give("a.jsonl", lines(log))
    meant: Callable[..., Any] = getattr(where, name)
    left = [errno.ENOSPC, errno.EDQUOT, errno.EROFS]

    def failing(*given: Any, **named: Any) -> Any:
        if left and not after:
            raise OSError(code := left.pop(), os.strerror(code))
        found = meant(*given, **named)
        if left:
            raise OSError(code := left.pop(), os.strerror(code))
        return found

    monkeypatch.setattr(where, name, failing)
    with capture_logs() as logs:
        totals = project.drain(spark)
    assert left == []
    assert [each["event"] for each in logs].count(SEVERAL) == 3
    alerts = project.alerts()
    assert figures(alerts) == from_twin(expected([PAIR], log))
    assert totals.records == len(log), "counted once"
    assert sum(totals.alerts.values()) == len(alerts)
    assert project.drain(spark).records == 0, "and it is done"


def test_what_is_no_full_disk_ends_the_run(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = Project(tmp_path, [PAIR])
    project.give("a.jsonl", lines(records(5, seed=3)))

    def fail(*_: Any) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(OffsetHistory, "add", fail)
    with pytest.raises(Exception, match="Input/output error"):
        project.drain(spark)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small file system of its own, where this process may mount one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounting = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(folder)]
    try:
        done = subprocess.run(mounting, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        done = False
    if not done:
        pytest.skip("nothing may be mounted here")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder: Path) -> Path:
    """Take all that is left of the disk."""
    path = folder / "filler"
    with path.open("wb", buffering=0) as file:
        try:
            while file.write(bytes(4_096)):
                pass
        except OSError as error:
            assert error.errno == errno.ENOSPC  # noqa: PT017 - what else it writes is not known
    return path


def test_a_disk_that_is_really_full(spark: SparkSession, tmp_path: Path, disk: Path) -> None:
    log = records(120, seed=5)
    engine = {"trigger": "0s", "shards": 3, "checkpoint": str(disk / "checkpoint"), "master": "local[2]"}
    project = Project(tmp_path, [PAIR], engine=engine)
    project.give("a.jsonl", lines(log[:40]))
    with project.start(spark) as running:
        waiting = threading.Thread(target=running.pipeline.wait, daemon=True)
        waiting.start()
        running.until_read(40)
        for number, (begin, end) in enumerate([(40, 80), (80, 120)]):
            filler = fill(disk)
            project.give(f"b{number}.jsonl", lines(log[begin:end]))
            assert settled(lambda: bool(running.pipeline.standing().held), True)
            assert running.pipeline.alive
            filler.unlink()
            running.until_read(end)
            assert settled(lambda: running.pipeline.standing().held, "") == ""
    waiting.join(WAIT_S)
    assert not waiting.is_alive()
    assert figures(project.alerts()) == from_twin(expected([PAIR], log))


def test_a_stop_is_not_held(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_full, "PAUSE_S", 3_600.0)
    project = Project(tmp_path, [PAIR])
    project.give("a.jsonl", lines(records(5, seed=3)))
    begun = OffsetHistory.add

    def fail(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(OffsetHistory, "add", fail)
    with project.start(spark) as running:
        waiting = threading.Thread(target=running.pipeline.wait, daemon=True)
        waiting.start()
        assert settled(lambda: bool(running.pipeline.standing().held), True)
    waiting.join(WAIT_S)
    assert not waiting.is_alive()
    monkeypatch.setattr(OffsetHistory, "add", begun)
    assert project.drain(spark).records == 5, "the next run goes on from there"
