"""``crossline reshard``: what it says, and what it refuses."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from crossline.cli.app import app
from crossline.cli.main import run_command
from crossline.rules.policy.policy import Deciding, Policy
from crossline.runtime.snapshot.checkpoint import claim
from crossline.runtime.snapshot.snapshot import SnapshotFile
from oracle.test_reshard import go_on, lived

PIPELINE = """schema_version: 1
name: payments
streams: stream.yaml
sources: {payments: {kind: files, path: "in/*.jsonl"}}
rules: {kind: directory, path: rules/}
sinks: [{kind: console}]
engine: {checkpoint: %s}
"""
STREAM = """schema_version: 1
streams:
  payments: {format: json, id: id, event_time: {field: at, unit: ms}, fields: {id: string, at: integer}}
"""


@pytest.fixture
def pipeline(tmp_path: Path) -> Path:
    (tmp_path / "stream.yaml").write_text(STREAM)
    (tmp_path / "rules").mkdir()
    path = tmp_path / "pipeline.yaml"
    path.write_text(PIPELINE % "out/checkpoint")
    return path


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return tmp_path / "out" / "checkpoint"


def refused(pipeline: Path, code: int, capsys: pytest.CaptureFixture[str]) -> str:
    assert run_command(["reshard", str(pipeline), "--shards", "5"]) == code
    return capsys.readouterr().err


def test_a_checkpoint_gets_other_shards(pipeline: Path, checkpoint: Path) -> None:
    checkpoint.mkdir(parents=True)
    life = lived(checkpoint)
    parcel = checkpoint / "behind" / "jsonl-1" / "000000000007.json"  # what a sink has not got yet
    parcel.parent.mkdir(parents=True)
    parcel.write_bytes(b"{}")
    others = {path: path.read_bytes() for path in checkpoint.rglob("*") if path.is_file() and "state" not in path.parts}
    result = CliRunner().invoke(app, ["reshard", str(pipeline), "--shards", "5", "--json"])
    body = json.loads(result.stdout)
    size = sum(path.stat().st_size for path in checkpoint.glob("state/shard-*/*.seg"))
    assert {**body, "bytes": body["bytes"] >= size} == {
        "checkpoint": str(checkpoint),
        "shards": 5,
        "before": 3,
        "batches": 11,
        "bytes": True,
    }
    assert len(list(checkpoint.glob("state/shard-*"))) == 5
    changed = {path.name for path, before in others.items() if path.read_bytes() != before}
    assert changed <= {"snapshot.json", "held"}
    life.shards = 5
    assert go_on(life) == [("t11", {"account": "a1"}, 3)]


def test_one_that_has_them_is_left_alone(pipeline: Path, checkpoint: Path, capsys: pytest.CaptureFixture[str]) -> None:
    checkpoint.mkdir(parents=True)
    lived(checkpoint)
    assert run_command(["reshard", str(pipeline), "--shards", "3"]) == 0
    assert capsys.readouterr().err == f"{checkpoint}: has 3 shards already\n"


def test_a_pipeline_that_runs_is_refused(pipeline: Path, checkpoint: Path, capsys: pytest.CaptureFixture[str]) -> None:
    checkpoint.mkdir(parents=True)
    lived(checkpoint)
    held = claim(str(checkpoint))
    try:
        assert "is held by another run of this pipeline" in refused(pipeline, 1, capsys)
    finally:
        held.release()


def test_what_is_no_checkpoint_is_refused_and_not_made(
    pipeline: Path, checkpoint: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "there is no checkpoint; engine.shards sets" in refused(pipeline, 2, capsys)
    assert not checkpoint.exists()
    checkpoint.mkdir(parents=True)
    assert "has no snapshot.json" in refused(pipeline, 2, capsys)
    lived(checkpoint)
    (checkpoint / "owner.json").write_text('{"schema_version": 1, "pipeline": "other", "sources": []}')
    assert "is the checkpoint of pipeline other, found payments" in refused(pipeline, 2, capsys)


def test_decisions_that_may_stand_in_files_of_shards_are_finished_first(
    pipeline: Path, checkpoint: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoint.mkdir(parents=True)
    lived(checkpoint)
    snapshot = SnapshotFile(str(checkpoint / "snapshot.json"))
    policy = Policy.model_validate({"schema_version": 1, "version": 1, "decide": [], "bands": []})
    snapshot.replace(replace(snapshot.current(), deciding=Deciding(policy, every=True, folder="out/decisions")))
    assert "have it finished first (crossline run PIPELINE --drain)" in refused(pipeline, 1, capsys)
    (checkpoint / "spark" / "commits" / "11").touch()
    assert run_command(["reshard", str(pipeline), "--shards", "5"]) == 0
