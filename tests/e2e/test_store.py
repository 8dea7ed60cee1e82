"""A pipeline whose checkpoint is on an object store: cut off at any moment, it goes on from what the store has."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from crossline.connectors.objects.files import file_store
from crossline.core.basics.errors import StateError
from crossline.engine.book.lease import CLAIMS
from crossline.engine.pipeline import assemble as assemble_module

from .killing import RULES
from .project import Project, read_jsonl
from .traffic import STREAM, lines, records

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from crossline.services.s3 import LocalS3

pytestmark = pytest.mark.spark

COUNT = 900
SEED = 20_261_123
SINKS = [{"kind": "sqlite", "path": "out/alerts.db"}, {"kind": "jsonl", "path": "out/behind.jsonl", "behind": True}]


def project(root: Path, checkpoint: str, files: Path | None = None) -> Project:
    engine: dict[str, Any] = {"trigger": "0s", "shards": 2, "checkpoint": checkpoint, "master": "local[2]"}
    sources = {STREAM: {"kind": "files", "path": str(files or root / "in")}}
    return Project(root, RULES, sources=sources, sinks=SINKS, engine={**engine, "max_batch_bytes": 30_000})


@pytest.mark.timeout(900)
def test_what_the_store_has_at_a_moment_is_enough_to_go_on(
    spark: SparkSession, s3_server: LocalS3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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
        shutil.copytree(first.root, tmp_path / "second")
    assert 0 < len(first.alerts()) < len(whole.alerts())

    shutil.rmtree(objects / "second" / CLAIMS)  # its process lives: it is this one
    second = project(tmp_path / "second", f"s3://{s3_server.bucket}/second{query}", first.root / "in")
    second.drain(spark)
    assert second.alerts() == whole.alerts()
    assert read_jsonl(second.root / "out" / "behind.jsonl") == whole.alerts()
    assert second.dead() == whole.dead()

    # Other machines see no file of this one: the book comes to them with the batch.
    monkeypatch.setattr(assemble_module, "is_here", lambda _: False)
    first.drain(spark)
    assert first.alerts() == whole.alerts()
    assert file_store(f"s3://{s3_server.bucket}/first{query}").names(CLAIMS) == []
    assert not (first.root / "out" / "checkpoint").exists()
