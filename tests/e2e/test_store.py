"""A pipeline whose checkpoint is on an object store: cut off at any moment, it goes on from what the store has."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from crossline.basics.errors import StateError
from crossline.cli.main import run_command
from crossline.io.objects.file_stores import file_store
from crossline.runtime.pipeline import assemble as assemble_module
from crossline.runtime.snapshot.lease import CLAIMS, MARK

from .feeding import fed, needed
from .killing import RULES, kill_driver, running, same_everywhere, tiered_at, wait_for_all_to_end
from .project import Alerts, Project, read_jsonl
from .traffic import STREAM, lines, records

if TYPE_CHECKING:
    from dev.services.s3 import LocalS3
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

DEEP = os.environ.get("CROSSLINE_DEEP") == "1"
KILLS = 2
COUNT = 900
SEED = 20_261_123
SINKS = [{"kind": "sqlite", "path": "out/alerts.db"}, {"kind": "jsonl", "path": "out/behind.jsonl", "behind": True}]


def project(root: Path, checkpoint: str, files: Path | None = None) -> Project:
    engine: dict[str, Any] = {"trigger": "0s", "shards": 2, "checkpoint": checkpoint, "master": "local[2]"}
    sources = {STREAM: {"kind": "files", "path": str(files or root / "in")}}
    return Project(root, RULES, sources=sources, sinks=SINKS, engine={**engine, "max_batch_bytes": 30_000})


@pytest.mark.timeout(900)
def test_what_the_store_has_at_a_moment_is_enough_to_go_on(
    spark: SparkSession,
    s3_server: LocalS3,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A copy of the store is what a driver that was killed leaves; the second run has nothing else."""
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    query = f"?endpoint={s3_server.endpoint}"
    first = project(tmp_path / "first", f"s3://{s3_server.bucket}/first{query}")
    first.give("a.jsonl", lines(records(COUNT, SEED)))
    whole = project(tmp_path / "whole", "out/checkpoint")
    whole.give("a.jsonl", lines(records(COUNT, SEED)))
    whole.drain(spark)

    objects = s3_server.data / s3_server.bucket
    with first.start(spark, hold_after=2) as running:
        running.until_held()
        with pytest.raises(StateError, match="held by another run of this pipeline"):
            first.start(spark)
        shutil.copytree(objects / "first", objects / "second")  # the batch is delivered, and Spark has not noted that
        # Of what lay with the first driver only what others put there is elsewhere too: rules, and what sinks have.
        shutil.copytree(first.root, tmp_path / "second", ignore=lambda *_: [".log"])
        logged = first.rule_log()
    assert 0 < len(first.alerts()) < len(whole.alerts())

    shutil.rmtree(objects / "second" / CLAIMS)  # its process lives: it is this one
    second = project(tmp_path / "second", f"s3://{s3_server.bucket}/second{query}", first.root / "in")
    second.drain(spark)
    assert second.alerts() == whole.alerts()
    assert read_jsonl(second.root / "out" / "behind.jsonl") == whole.alerts()
    assert second.dead() == whole.dead()
    assert second.rule_log() == logged

    # The batch that was cut off is run again in other shards.
    assert run_command(["reshard", str(first.pipeline), "--shards", "3"]) == 0
    assert "2 shards became 3" in capsys.readouterr().err
    # Other machines see no file of this one: the plan snapshot comes to them with the batch.
    monkeypatch.setattr(assemble_module, "is_on_this_machine", lambda _: False)
    first.drain(spark)
    assert first.alerts() == whole.alerts()
    store = file_store(f"s3://{s3_server.bucket}/first{query}")
    assert [name.partition("-")[2] for name in store.names(CLAIMS)] == [f"{MARK}.json"]
    assert [name for name in store.folders() if name.startswith("state")] == ["state-000000000002"]
    assert not (first.root / "out" / "checkpoint").exists()


@pytest.mark.skipif(not DEEP, reason="three starts of a minute; CROSSLINE_DEEP=1 runs it")
@pytest.mark.timeout(1800)
def test_a_driver_killed_again_and_again_goes_on_from_the_store(
    spark: SparkSession,
    s3_server: LocalS3,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    undisturbed: Callable[[int], Alerts],
) -> None:
    """Whatever a dead driver leaves behind is at work while the next one starts; the store fails once besides."""
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    count = needed(KILLS)
    whole = undisturbed(count)
    project = tiered_at(tmp_path)
    project.settings["engine"]["checkpoint"] = f"s3://{s3_server.bucket}/killed?endpoint={s3_server.endpoint}"
    project.pipeline.write_text(yaml.safe_dump(project.settings))
    feed, draw, killed = fed(project, count), random.Random(SEED), 0
    with ExitStack() as runs:
        started = []
        while killed < KILLS:
            process = runs.enter_context(running(project))
            started.append(process)
            killed += feed.strike(process, draw, partial(kill_driver, process))
            s3_server.kill()
            s3_server.start()
        assert 0 < len(project.alerts()) < len(whole), "the kills did not come under load"
        feed.rest()
        project.drain(spark)
        for process in started:
            wait_for_all_to_end(process)
    assert read_jsonl(tmp_path / "out" / "behind.jsonl") == project.alerts()
    same_everywhere(project, whole)
