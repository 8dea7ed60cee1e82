"""A replay on Spark gives what the stream gave and what a replay in processes gives."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
import yaml

from connectors.kafka_mock import WAIT_S
from crossline.backtest import replay_in_spark
from crossline.backtest.backtest import BacktestSpec, RecordedInput
from crossline.backtest.in_process import LocalRun
from crossline.backtest.input_batches import BacktestInputs
from crossline.basics.errors import StateError, StoppedError, UsageError
from crossline.cli import replay as command
from crossline.cli.signals import Runner
from crossline.lake.replays.replay_input import LakeInput
from crossline.rules.rule_reader import load_rules_text
from crossline.rules.ruleset import RuleSet
from crossline.runtime.sources.slices import Slices
from unit.lake.lake_kit import DAY_MS, START_MS, SpooledPipeline, payment

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
    """Two streams in two pieces; between them a rule and a list change, and the query is begun anew."""
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
    rules, listed = [{**ONE, "hold": "1m"}, OTHER], [b"a0\na1\n", b"a2\n"]
    first, *rest = pieces_of(made(COUNT, seed=5))
    for number, piece in enumerate([first, [each for more in rest for each in more]]):
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
    monkeypatch.setattr("crossline.lake.replays.replay_input.SLICE_ROWS", 150)
    monkeypatch.setattr("crossline.backtest.backtest.AGAIN_BATCH_BYTES", 100 * 128)
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


def spooled(root: Path, count: int = 30) -> tuple[SpooledPipeline, BacktestSpec]:
    """A lake of some records, and a rule that each of them meets."""
    pipeline = SpooledPipeline(root)
    for start in range(0, count, 10):
        pipeline.batch([payment(number, START_MS + number * 1_000) for number in range(start, start + 10)])
    pipeline.write_all()
    streams = pipeline.config.streams
    rule = {"rule_id": "any", "version": 1, "rule_type": "threshold", "source_topic": "payments"}
    rule |= {"conditions": [{"field": "id", "operator": "exists"}]}
    rules = RuleSet.from_rules(each.rule for each in load_rules_text(json.dumps([rule]), "rules.yaml", streams))
    history = RecordedInput(streams, {"payments": ()})
    return pipeline, BacktestSpec(rules, history, stored=LakeInput(pipeline.reader(), streams, history.inputs))


def test_a_stop_leaves_the_output_as_it_was(spark: SparkSession, tmp_path: Path) -> None:
    _, judged = spooled(tmp_path)
    output = tmp_path / "alerts.jsonl"
    output.write_text("as it was\n")
    with pytest.raises(StoppedError):
        replay_in_spark.replay(spark, judged, output, on_start=LocalRun.stop)
    assert output.read_text() == "as it was\n"


def test_a_stop_cancels_what_runs(spark: SparkSession, tmp_path: Path) -> None:
    """Tasks that would take minutes."""
    _, judged = spooled(tmp_path)
    runs: list[LocalRun] = []

    def slow(_: bytes) -> Iterator[pa.RecordBatch]:
        time.sleep(WAIT_S)
        yield from ()

    planned = replace(LakeInput.slices(judged.stored, 1 << 20), read=slow)
    with pytest.raises(StoppedError):
        replay_in_spark.replay(
            spark,
            replace(judged, stored=Planned(planned)),
            tmp_path / "alerts.jsonl",
            on_start=runs.append,
            on_tasks=lambda *_: runs[0].stop(),
        )
    assert not (tmp_path / "alerts.jsonl").exists()


def test_a_file_that_is_gone_is_named(spark: SparkSession, tmp_path: Path) -> None:
    pipeline, judged = spooled(tmp_path)
    planned = LakeInput.slices(judged.stored, 1 << 20)
    for path in (pipeline.root / "out" / "lake").rglob("*.parquet"):
        path.unlink()
    with pytest.raises(StateError, match=r"\.parquet: not found; expected a data file"):
        replay_in_spark.replay(spark, replace(judged, stored=Planned(planned)), tmp_path / "alerts.jsonl")


@dataclass(frozen=True)
class Planned:
    """A store whose files were planned before."""

    planned: Slices

    def open(self, *_: object) -> BacktestInputs:
        raise AssertionError

    def slices(self, _: int) -> Slices:
        return self.planned


def test_a_lake_without_records_gives_nothing(spark: SparkSession, tmp_path: Path) -> None:
    _, judged = spooled(tmp_path)
    nothing = replace(judged.stored, from_ms=START_MS + DAY_MS)
    done = replay_in_spark.replay(spark, replace(judged, stored=nothing), tmp_path / "alerts.jsonl")
    assert (done.totals.records, (tmp_path / "alerts.jsonl").read_bytes()) == (0, b"")


def test_files_have_a_runner_of_their_own(spark: SparkSession, tmp_path: Path) -> None:
    _, judged = spooled(tmp_path)
    with pytest.raises(UsageError, match="only a replay of the lake runs here"):
        replay_in_spark.replay(spark, replace(judged, stored=None), tmp_path / "alerts.jsonl")
