"""A replay on Spark gives what the stream gave and what a replay in processes gives."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from connectors.kafka_mock import WAIT_S
from crossline.backtest import in_process, replay_in_spark
from crossline.backtest.backtest import BacktestSpec
from crossline.basics.errors import StateError, StoppedError, UsageError
from crossline.cli import replay as command
from crossline.cli.signals import Runner
from crossline.lake.replay_input import LakeInput
from crossline.runtime.spark import sliced_flow
from unit.lake.lake_kit import SpooledPipeline

from .levels import BOTH, LEVELS, RULES, made
from .project import Project, by_id
from .test_lake import with_lake, write
from .test_stream_join import COUNT, POLICY, comparable, pieces_of
from .traffic import STREAM, Body, lines

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
LISTED: Body = {
    "rule_id": "listed",
    "version": 1,
    "rule_type": "threshold",
    "source_topic": STREAM,
    "conditions": [{"field": "account", "operator": "in", "value": {"list": "watched"}}],
    "action": "review",
    "score": 20,
}
ONE = next(each for each in RULES if each["rule_id"] == "level_then_cash")
OTHER = {**ONE, "version": 2, "within": "10s", "action": "block", "score": 30, "hold": "20s"}


def lived(spark: SparkSession, root: Path) -> Project:
    """Two streams in three pieces; between them a rule and a list change, and the query is begun anew."""
    project = Project(
        root,
        [*(each for each in RULES if each is not ONE), LISTED],
        streams=BOTH,
        sources={STREAM: {"kind": "files", "path": "in"}, LEVELS: {"kind": "files", "path": "levels"}},
        lists={"kind": "directory", "path": "lists"},
        policy="policy.yaml",
        decisions={"emit": "hits"},
    )
    for folder in ("levels", "lists"):
        (root / folder).mkdir()
    (root / "policy.yaml").write_text(yaml.safe_dump(POLICY))
    rules, listed = [{**ONE, "hold": "1m"}, OTHER, OTHER], [b"a0\na1\n", b"a2\n", b"a0\na3\n"]
    for number, piece in enumerate(pieces_of(made(COUNT, seed=5))):
        project.publish("changes.yaml", [rules[number]])
        project.put(root / "lists" / "watched.txt", listed[number])
        for name, folder in ((STREAM, "in"), (LEVELS, "levels")):
            data = lines(each for _, stream, each in piece if stream == name)
            project.put(root / folder / f"{number}.jsonl", data)
        assert with_lake(project).drain(spark).records == len(piece)
        write(project)
    return project


def replayed(project: Project, capsys: pytest.CaptureFixture[str], **options: Any) -> tuple[Any, list[Any], list[Any]]:
    """The figures, alerts and decisions of the command, without what is of the run."""
    files = [project.root / "replayed.jsonl", project.root / "decided.jsonl"]
    capsys.readouterr()
    command.replay(project.pipeline, output=files[0], decisions=files[1], compare=True, as_json=True, **options)
    shown = json.loads(capsys.readouterr().out)
    alerts, decided = ([json.loads(line) for line in each.read_text().splitlines()] for each in files)
    return shown, [{**each, "detected_at": None} for each in alerts], [{**each, "decided_at": None} for each in decided]


@pytest.fixture
def shared(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command uses the session of the tests."""

    @contextmanager
    def session_of(*_: object) -> Iterator[SparkSession]:
        yield spark

    monkeypatch.setattr(command, "session_of", session_of)


@pytest.mark.usefixtures("shared")
def test_it_gives_what_the_stream_gave(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over joins, sequences, absences, figures of several keys, hits of hits, retraction, lists, holds, versions."""
    project = lived(spark, tmp_path)
    monkeypatch.setattr("crossline.lake.replay_input.SLICE_ROWS", 40)
    monkeypatch.setattr("crossline.backtest.backtest.AGAIN_BATCH_BYTES", 40 * 128)
    figures, alerts, decisions = replayed(project, capsys, on=Runner.LOCAL)
    on_spark = replayed(project, capsys, on=Runner.SPARK)
    assert on_spark[0] == figures
    assert on_spark[1] == alerts
    assert on_spark[2] == decisions
    assert by_id(alerts) == project.alerts()
    stored = [json.loads(body) for (body,) in project.rows("SELECT body FROM decisions ORDER BY seq")]
    assert comparable(decisions) == comparable(stored)
    assert all(each["appear"] == each["disappear"] == 0 for each in figures["compare"].values())
    assert {"alert", "correction"} <= {each["kind"] for each in alerts}
    assert {"decision", "revision"} == {each["kind"] for each in decisions}
    assert {1, 2} == {each["rule_version"] for each in alerts if each["rule_id"] == "level_then_cash"}
    assert any("hold" in json.dumps(each["reasons"]) for each in decisions)
    middle = sorted(each["ingest_time"] for each in alerts)[len(alerts) // 2]
    spans = [replayed(project, capsys, on=on, from_=middle) for on in (Runner.LOCAL, Runner.SPARK)]
    assert spans[0] == spans[1]
    assert 0 < len(spans[0][1]) < len(alerts)
