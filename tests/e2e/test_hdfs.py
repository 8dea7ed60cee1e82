"""A checkpoint in HDFS, of a real name node and data node: a run that is killed, a start elsewhere, other shards."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from crossline.cli.main import run_command
from crossline.io.objects.file_stores import file_store
from crossline.runtime.pipeline import assemble as assemble_module

from .killing import kill_driver, running, until, wait_for_all_to_end
from .test_store import COUNT, SEED, project
from .traffic import lines, records

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(os.environ.get("CROSSLINE_DEEP") != "1", reason="Hadoop is fetched; CROSSLINE_DEEP=1 runs it"),
]


@pytest.mark.timeout(1800)
def test_a_checkpoint_in_hdfs(
    spark: SparkSession,
    name_node: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    given = lines(records(COUNT, SEED))
    whole = project(tmp_path / "whole", "out/checkpoint")
    whole.give("a.jsonl", given)
    whole.drain(spark)

    first = project(tmp_path / "first", f"{name_node}/shop")
    first.give("a.jsonl", given)
    with running(first) as process:
        text = first.root / "out" / "behind.jsonl"  # what a batch gave that is with every sink
        until(lambda: text.exists() and text.stat().st_size > 0, first, process)
        kill_driver(process)
    wait_for_all_to_end(process)
    assert len(first.alerts()) < len(whole.alerts()), "the kill did not come under load"

    assert run_command(["reshard", str(first.pipeline), "--shards", "3"]) == 0
    assert "2 shards became 3" in capsys.readouterr().err
    shutil.rmtree(first.root / "rules" / ".log")
    monkeypatch.setattr(assemble_module, "is_on_this_machine", lambda _: False)
    first.drain(spark)
    assert first.alerts() == whole.alerts()
    assert first.dead() == whole.dead()
    folders = file_store(f"{name_node}/shop").folders()
    assert [name for name in folders if name.startswith("state")] == ["state-000000000002"]
