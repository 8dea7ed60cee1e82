"""``crossline alerts show`` and ``evidence`` of a pipeline with a lake. Expected is what the kit put into it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from crossline.cli.alerts import command
from crossline.cli.lake import command as lake_command
from crossline.cli.main import run_command
from unit.lake.history_kit import NEW, OLD, HistoricPipeline, burst
from unit.lake.lake_kit import payment

FIELDS = {"id": "p00011", "account_id": "a0", "cents": 60, "at": 1_767_226_260_000}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> HistoricPipeline:
    return HistoricPipeline.made(tmp_path_factory.mktemp("lake"))


def run(*arguments: object, code: int = 0) -> Any:
    app = typer.Typer()
    command.register(app)
    lake_command.register(app)
    result = CliRunner().invoke(app, [*map(str, arguments)])
    if code == 0:
        assert result.exit_code == 0, (result.output, result.exception)
    else:
        assert result.exit_code != 0
    return result


def shown(made: HistoricPipeline, name: str, *more: object) -> dict[str, Any]:
    found = run("alerts", "show", name, "--pipeline", made.spooled.root / "pipeline.yaml", "--json", *more)
    body: dict[str, Any] = json.loads(found.stdout.splitlines()[0])
    return body


def fields(body: Mapping[str, Any]) -> dict[str, Any]:
    return {each["record_id"]: each.get("fields") for each in body["records"]}


def moved(path: Path) -> Path:
    """The same folder under another name, so that nothing finds it."""
    return path.rename(path.with_suffix(".moved"))


def test_records_come_from_the_lake_where_it_covers_the_alert(made: HistoricPipeline) -> None:
    away = moved(made.spooled.root / "in")
    try:
        body = shown(made, NEW)
    finally:
        away.rename(made.spooled.root / "in")
    assert fields(body)["p00011"] == FIELDS
    assert set(fields(body)) == {"p00011", "p00012"}
    assert body["records_from"] == {"lake": 2, "source": 0}
    assert "records_missing" not in body
    assert {each["partition"] for each in body["records"]} == {str(made.spooled.root / "in" / "0001.jsonl")}


def test_the_lake_and_the_source_have_the_same(made: HistoricPipeline) -> None:
    of_lake = shown(made, NEW)
    lake = made.spooled.root / "out" / "lake"
    away = moved(lake)
    try:
        of_source = shown(made, NEW)
        text = run("alerts", "show", NEW, "--pipeline", made.spooled.root / "pipeline.yaml").stdout
    finally:
        away.rename(lake)
    assert of_source["records_from"] == {"lake": 0, "source": 2}
    assert of_source["records"] == of_lake["records"]
    assert "records from their source" in text
    assert "the lake was not read: found no catalog" in " ".join(text.split())
    assert not lake.with_suffix(".none").exists()


def test_an_alert_that_the_store_lacks_is_in_the_lake(made: HistoricPipeline) -> None:
    body = shown(made, OLD[:6])
    assert (body["alert_id"], body["records_from"]) == (OLD, {"lake": 2, "source": 0})
    result = run("alerts", "show", OLD, "--pipeline", made.spooled.root / "pipeline.yaml")
    assert "the alert is from the lake: " in result.output
    assert "records from the lake" in result.output


def test_an_alert_that_neither_has_is_an_error(made: HistoricPipeline) -> None:
    result = run("alerts", "show", "ffff", "--pipeline", made.spooled.root / "pipeline.yaml", code=1)
    assert "or in the lake has an id that starts with 'ffff'" in str(result.exception)


def test_what_the_lake_does_not_cover_comes_from_the_source(tmp_path: Path) -> None:
    """A third alert is delivered, and its batch is not in the lake yet."""
    made = HistoricPipeline.made(tmp_path)
    late = burst("0c000000-0000-5000-8000-000000000003", 21, 21)
    at_ms = 1_767_225_600_000 + 21 * 60_000
    records = [payment(number, at_ms + (number - 21) * 30_000, account_id="a0", cents=60) for number in (21, 22)]
    made.spooled.batch(records, alerts=[late])
    exported = tmp_path / "alerts.jsonl"
    exported.write_text(json.dumps(late) + "\n")
    body = shown(made, late["alert_id"], "--alerts", exported)
    assert body["records_from"] == {"lake": 0, "source": 2}
    shutil.rmtree(tmp_path / "in")
    gone = shown(made, late["alert_id"], "--alerts", exported)
    assert [each["found"] for each in gone["records"]] == [False, False]
    assert any("2 of 2 records not found" in each for each in gone["records_missing"])
    assert "the lake does not have the alert: it is whole up to batch 1" in gone["records_missing"]


def test_evidence_is_judged_on_the_records_of_the_lake(
    made: HistoricPipeline, capsys: pytest.CaptureFixture[str]
) -> None:
    away = moved(made.spooled.root / "in")
    try:
        capsys.readouterr()
        assert run_command(["alerts", "evidence", OLD, "--pipeline", f"{away.parent}/pipeline.yaml", "--json"]) == 0
    finally:
        away.rename(made.spooled.root / "in")
    body = json.loads(capsys.readouterr().out.splitlines()[0])
    assert body["records_from"] == "lake"
    marks = [(each["record_id"], each["mark"]) for each in body["records"]]
    assert marks[:2] == [("p00001", "counted"), ("p00002", "crossing")]
    assert [each["mark"] for each in body["records"][2:]] == ["after", "after"]  # those of the second alert


def test_the_lists_of_the_lake(made: HistoricPipeline) -> None:
    pipeline = made.spooled.root / "pipeline.yaml"
    lines = run("lake", "alerts", "--pipeline", pipeline, "--json").stdout.splitlines()
    assert [json.loads(line)["alert_id"] for line in lines] == [NEW, OLD]
    assert "there are more" in run("lake", "alerts", "--pipeline", pipeline, "--limit", 1).output
    assert "no alert of the lake matches" in run("lake", "alerts", "--pipeline", pipeline, "--rule", "x").output
    lines = run("lake", "decisions", "--pipeline", pipeline, "--record", "p00002", "--json").stdout.splitlines()
    assert [json.loads(line)["decision_id"] for line in lines] == ["old"]
    assert "new" in run("lake", "decisions", "--pipeline", pipeline).output
