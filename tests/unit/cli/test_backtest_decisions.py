"""``crossline backtest --decisions``: what it writes, and what it refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from crossline.cli.init import template_files
from crossline.cli.main import run_command

Run = Callable[..., int]

POLICY = "schema_version: 1\nversion: 1\nbands: [{from: 50, decision: block}]\n"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    for name, content in template_files():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    monkeypatch.chdir(tmp_path)
    Path("policy.yaml").write_text(POLICY)
    command = ["backtest", "--pipeline", "pipeline.yaml", "--input", "in/*.jsonl"]
    return lambda *options: run_command([*command, *options])


def test_decisions_are_written_beside_alerts(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    """One alert of each rule: of 60, of 20, and of a rule in shadow."""
    assert run("--decisions", "new/d.jsonl", "--policy", "policy.yaml", "--json") == 0
    figures = json.loads(capsys.readouterr().out)
    assert (figures["decisions"], figures["decisions_output"]) == ({"allow": 1, "block": 1}, "new/d.jsonl")
    decided = [json.loads(line) for line in Path("new/d.jsonl").read_text().splitlines()]
    alerts = {alert["alert_id"]: alert for alert in map(json.loads, Path("alerts.jsonl").read_text().splitlines())}
    reported = sorted(
        (each["decision"], each["score"], [why["rule_id"] for why in each["reasons"]]) for each in decided
    )
    assert reported == [("allow", 20, ["large_payment"]), ("block", 60, ["card_testing"])]
    for each in decided:
        assert all(alerts[why["alert_id"]]["record_id"] == each["record_id"] for why in each["reasons"])


def test_of_a_pipeline_that_reports_all_it_writes_all(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    with Path("pipeline.yaml").open("a") as file:
        file.write("\npolicy: policy.yaml\ndecisions: {emit: all, path: out/decisions}\n")
    assert run("--decisions", "d.jsonl", "--json") == 0
    figures = json.loads(capsys.readouterr().out)
    refused = sum(figures["dead_letters"].values()) + figures["late_records"]
    assert sum(figures["decisions"].values()) >= figures["records"] - refused
    assert figures["decisions"]["block"] == 1
    assert not Path("out").exists(), "a backtest writes nothing where the pipeline does"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--decisions", "d.jsonl"], "found no policy; name its file with --policy"),
        (["--policy", "policy.yaml"], "nothing is decided without --decisions FILE"),
        (["--policy", "policy.yaml", "--decisions", "alerts.jsonl"], "--output and --decisions are both alerts.jsonl"),
        (["--policy", "policy.yaml", "--decisions", "policy.yaml"], "policy.yaml is what is read"),
        (["--policy", "bad.yaml", "--decisions", "d.jsonl"], "bad.yaml:2: version"),
    ],
)
def test_what_is_refused(run: Run, capsys: pytest.CaptureFixture[str], options: list[str], text: str) -> None:
    Path("bad.yaml").write_text("schema_version: 1\nversion: none\n")
    assert run(*options) == 2
    assert text in capsys.readouterr().err
    assert Path("policy.yaml").read_text() == POLICY
    assert not Path("d.jsonl").exists()
