"""``crossline generate``: what it writes, what it says, what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from crossline.basics.errors import UsageError
from crossline.cli.generate import register
from crossline.generate.cards import CardWorkload
from crossline.generate.labels import read_labels
from crossline.generate.rules_many import many_rules_yaml
from crossline.generate.tx import TxWorkload, tx_lines


def run(*arguments: str) -> Result:
    app = typer.Typer()
    register(app)
    return CliRunner().invoke(app, ["generate", *arguments], catch_exceptions=False)


def test_tx_to_a_file_with_a_summary(tmp_path: Path) -> None:
    file = tmp_path / "tx.jsonl"
    result = run("tx", "--records", "1000", "--seed", "9", "--output", str(file), "--json")
    assert result.exit_code == 0
    assert file.read_bytes() == tx_lines(0, 1_000, 9)
    summary = json.loads(result.stdout)
    assert (summary["workload"], summary["records"], summary["bytes"]) == ("tx", 1_000, file.stat().st_size)
    assert summary["output"] == str(file)


def test_a_readable_sentence_without_json(tmp_path: Path) -> None:
    result = run("tx", "--records", "1000", "--output", str(tmp_path / "x"))
    assert result.stdout.startswith("1,000 records (0.2 MB) to ")


def test_standard_output_has_records_alone() -> None:
    result = run("tx", "--records", "20", "--start", "5", "--output", "-", "--json")
    assert result.stdout_bytes == tx_lines(5, 20, 1)
    assert json.loads(result.stderr)["records"] == 20


def test_parameters_reach_the_workload() -> None:
    options = ["--accounts", "10", "--merchants", "3", "--event-rate", "7", "--disorder-ms", "0", "--with-device"]
    result = run("tx", "--records", "50", *options, "--base-time", "1970-01-01T00:00:05Z", "--output", "-")
    expected = TxWorkload(accounts=10, merchants=3, rate_per_s=7, disorder_ms=0, with_device=True, base_ms=5_000)
    assert result.stdout_bytes == expected.lines(0, 50)


def test_from_now_records_are_never_in_the_future(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crossline.cli.generate.time.time", lambda: 50.0)
    result = run("tx", "--records", "100", "--event-rate", "1000", "--base-time", "now", "--output", "-")
    times = [json.loads(line)["event_time"] for line in result.stdout.splitlines()]
    assert min(times) >= 48_000
    assert all(moment <= 50_000 + number for number, moment in enumerate(times))


def test_cards_with_labels_and_files(tmp_path: Path) -> None:
    labels, folder = tmp_path / "labels.jsonl", tmp_path / "in"
    options = ["--records", "30000", "--seed", "5", "--labels", str(labels), "--output", str(folder), "--files", "2"]
    result = run("cards", *options, "--json")
    workload = CardWorkload(seed=5)
    assert b"".join(file.read_bytes() for file in sorted(folder.iterdir())) == workload.lines(0, 30_000)
    assert read_labels(labels.read_bytes()) == workload.labels(0, 30_000)
    assert json.loads(result.stdout)["frauds"] == len(workload.labels(0, 30_000))


def test_a_paced_run_says_how_far_it_fell_behind(tmp_path: Path) -> None:
    result = run("cards", "--records", "50", "--rate", "5000", "--output", str(tmp_path / "x"), "--json")
    summary = json.loads(result.stdout)
    assert summary["rate_per_s"] == 5_000
    assert summary["behind_ms_max"] >= 0


def test_rules(tmp_path: Path) -> None:
    assert run("rules", "--count", "10").stdout == many_rules_yaml(10)
    run("rules", "--count", "10", "--output", str(tmp_path / "r.yaml"))
    assert (tmp_path / "r.yaml").read_text() == many_rules_yaml(10)
    assert json.loads(run("rules", "--count", "2", "--json").stderr) == {"rules": 2, "output": "-"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "name one place"),
        (["--output", "x", "--brokers", "b", "--topic", "t"], "name one place"),
        (["--brokers", "b"], "--brokers and --topic go together"),
        (["--output", "-", "--files", "2"], "--files needs --output DIRECTORY"),
        (["--output", "-", "--base-time", "noon"], "--base-time is 'noon'"),
        (["--output", "/nowhere/at/all"], "/nowhere/at/all cannot be written: No such file or directory"),
    ],
)
def test_wrong_use_is_refused(options: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        run("tx", "--records", "10", *options)


def test_labels_that_cannot_be_written_are_refused_before_records_are_made(tmp_path: Path) -> None:
    records = tmp_path / "cards.jsonl"
    with pytest.raises(UsageError, match="/nowhere/labels cannot be written"):
        run("cards", "--records", "10", "--output", str(records), "--labels", "/nowhere/labels")
    assert not records.exists()


def test_labels_and_records_need_a_file_each(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="give each a file of its own"):
        run("cards", "--records", "10", "--output", str(tmp_path / "x"), "--labels", str(tmp_path / "y" / ".." / "x"))
    assert not (tmp_path / "x").exists()
