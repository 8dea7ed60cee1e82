"""``crossline serve --replica-of``: what it takes, and what it leaves to the API beside the pipeline."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from crossline.basics.errors import StateError, UsageError
from crossline.cli.serve.start import followed
from crossline.io.recordlog.filelog import FileRecordLog
from crossline.serve import assembly
from crossline.serve.app.read_only import ReadOnly
from crossline.serve.replica.setup import pipeline_of
from crossline.settings.config import PipelineConfig, load_pipeline
from crossline.settings.process.engine import EngineSettings
from crossline.settings.process.serve import ServeSettings

LEDGER = {"dsn_env": "LEDGER"}


PIPELINE = """
schema_version: 1
name: shop
streams: {payments: {format: json, id: id, event_time: {field: at, unit: ms}, fields: {id: string, at: integer}}}
sources: {payments: {kind: api, path: in}}
rules: {kind: directory, path: rules}
policy: policy.yaml
sinks: [{kind: sqlite, path: out/alerts.db}]
engine: {checkpoint: out/checkpoint}
serve: {open: true}
"""
POLICY = "schema_version: 1\nversion: 1\n"


def config(**more: Any) -> PipelineConfig:
    return replace(load_pipeline(PIPELINE, "pipeline.yaml", lambda _: POLICY), **more)


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ("none/here", "found no folder none/here; expected the pipeline's checkpoint"),
        ("s3://key:hunter2@bucket/a", "expected"),
        ("ftp://host/a", "a URI of scheme ftp"),
        ("s3://bucket", "without a path of its own"),
    ],
    ids=["folder", "secret", "scheme", "bucket"],
)
def test_what_is_no_checkpoint(place: str, text: str) -> None:
    with pytest.raises(UsageError, match=text) as found:
        followed(config(), ServeSettings(), place)
    assert "hunter2" not in str(found.value)


def test_the_checkpoint_is_that_of_the_command_line_and_a_ledger_of_its_own_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert followed(config(), ServeSettings(), str(tmp_path)).engine.checkpoint == str(tmp_path)
    assert "the same id may be answered twice" in capsys.readouterr().err
    shared = ServeSettings.model_validate({"ledger": LEDGER})
    assert followed(config(), shared, "s3://bank/checkpoint").engine.checkpoint == "s3://bank/checkpoint"
    assert capsys.readouterr().err == ""


def test_tables_are_refused_over_a_store() -> None:
    engine = EngineSettings(checkpoint="s3://bank/checkpoint")
    with pytest.raises(UsageError, match="found enrich and checkpoint s3://bank/checkpoint"):
        assembly.checked(config(engine=engine, tables={"merchants": object()}, serve=ServeSettings()))
    assert assembly.checked(config(engine=engine, serve=ServeSettings()))


def test_the_checkpoint_of_another_pipeline_is_refused(tmp_path: Path) -> None:
    (tmp_path / "owner.json").write_bytes(orjson.dumps({"pipeline": "other", "sources": []}))
    assert pipeline_of(str(tmp_path)) == "other"

    async def begin() -> None:
        await assembly._followed(None, config(), str(tmp_path))  # type: ignore[arg-type]

    with pytest.raises(UsageError, match="is the checkpoint of pipeline other, found shop"):
        asyncio.run(begin())


def test_a_second_api_on_a_log_is_reported_what_several_need(tmp_path: Path) -> None:
    async def begin() -> None:
        first, second = (FileRecordLog(str(tmp_path), "id", 1 << 20) for _ in range(2))
        await assembly._held(first)
        try:
            await assembly._held(second)
        finally:
            await second.close()
            await first.close()

    with pytest.raises(StateError, match=r"one API has it; .*several APIs at once need a source of kind kafka"):
        asyncio.run(begin())


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "POST", "PATCH", "DELETE"])
def test_writes_are_left_to_the_api_beside_the_pipeline(method: str) -> None:
    seen: list[str] = []
    sent: list[Any] = []

    async def app(scope: Any, _: Any, __: Any) -> None:
        seen.append(scope["method"])

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.request", "body": b""}

    scope = {"type": "http", "method": method, "path": "/v1/lists/cash/CSH", "headers": []}
    asyncio.run(ReadOnly(app)(scope, receive, send))
    if method in {"GET", "HEAD"}:
        assert (seen, sent) == ([method], [])
        return
    assert seen == []
    assert sent[0]["status"] == 421
    body = orjson.loads(sent[1]["body"])
    assert body["title"] == "Misdirected Request"
    assert "the API beside the pipeline" in body["detail"]
