"""A checkpoint that is moved away or deleted under a run ends the run with an error; put back, the next goes on."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from crossline.basics.errors import StateError

from .project import Project, Running, figures, from_twin
from .test_hot_rules import PAIR
from .test_life import settled
from .traffic import expected, lines, records

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def replaced(folder: Path, away: Path) -> None:
    """By a copy, which is no folder that the run holds."""
    folder.rename(away)
    shutil.copytree(away, folder)


def until_committed(running: Running, folder: Path, records: int) -> None:
    """Nothing is written there any more until there are more records."""
    running.until_read(records)
    last = running.deliveries[-1].batch_id
    assert settled((folder / f"spark/commits/{last}").exists, wanted=True)


@pytest.mark.parametrize(
    ("go", "found"),
    [(Path.rename, "found no checkpoint there"), (replaced, "found another folder there")],
    ids=["moved", "replaced"],
)
def test_put_back_it_loses_nothing(
    spark: SparkSession, tmp_path: Path, go: Callable[[Path, Path], object], found: str
) -> None:
    log = records(80, seed=5)
    project = Project(tmp_path, [PAIR])
    project.give("a.jsonl", lines(log[:50]))
    checkpoint, away = tmp_path / "out/checkpoint", tmp_path / "out/away"
    with project.start(spark) as running:
        until_committed(running, checkpoint, 50)
        go(checkpoint, away)
        project.give("b.jsonl", lines(log[50:]))
        with pytest.raises(StateError) as raised:
            running.pipeline.wait()
    text = str(raised.value)
    assert text.startswith(f"the checkpoint {checkpoint} was moved away or deleted while this run used it: {found}")
    assert "Put that back" in text
    assert raised.value.exit_code == 1
    shutil.rmtree(checkpoint, ignore_errors=True)
    away.rename(checkpoint)
    assert project.drain(spark).records == 30
    assert figures(project.alerts()) == from_twin(expected([PAIR], log))


def test_deleted_it_ends_the_run(spark: SparkSession, tmp_path: Path) -> None:
    project = Project(tmp_path, [PAIR])
    project.give("a.jsonl", lines(records(5, seed=5)))
    with project.start(spark) as running:
        until_committed(running, tmp_path / "out/checkpoint", 5)
        shutil.rmtree((tmp_path / "out/checkpoint").rename(tmp_path / "out/away"))
        project.give("b.jsonl", lines(records(5, seed=6)))
        with pytest.raises(StateError, match="found no checkpoint there, expected the one that the run began with"):
            running.pipeline.wait()
