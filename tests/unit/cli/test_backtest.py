"""``crossline backtest`` as far as it goes without Spark: what it refuses to write over, and what it says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from crossline.cli.backtest import _setting, as_text
from crossline.cli.init import template_files
from crossline.cli.main import run_command
from crossline.core.errors import PermanentError

COMMAND = ["backtest", "--rules", "rules", "--stream", "stream.yaml", "--input", "in/*.jsonl"]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    for name, content in template_files():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    monkeypatch.chdir(tmp_path)

    def no_java() -> None:
        raise PermanentError("no Java in this test")

    monkeypatch.setattr("crossline.engine.runtime.session.find_java", no_java)
    return lambda *options: run_command([*COMMAND, *options])


@pytest.mark.parametrize(
    "output", ["stream.yaml", "in/2026-01-05.jsonl", "rules/spending.yaml", "other/../stream.yaml", "link"]
)
def test_what_it_reads_is_not_written_over(
    run: Callable[..., int], capsys: pytest.CaptureFixture[str], output: str
) -> None:
    Path("other").mkdir()
    Path("link").symlink_to("rules/large_payment.yaml")
    before = Path(output).read_bytes()
    assert run("--output", output) == 2
    assert f"{output} is what is read" in capsys.readouterr().err
    assert Path(output).read_bytes() == before


def test_the_rules_that_it_compares_with_are_not_written_over(run: Callable[..., int]) -> None:
    Path("candidate.yaml").write_bytes(Path("rules/spending.yaml").read_bytes())
    assert run("--compare", "candidate.yaml", "--output", "candidate.yaml") == 2


def test_a_run_that_fails_leaves_what_was_there(run: Callable[..., int]) -> None:
    Path("alerts.jsonl").write_text("before")
    there = sorted(Path().iterdir())
    assert run() == 1
    assert Path("alerts.jsonl").read_text() == "before"
    assert sorted(Path().iterdir()) == there


@pytest.mark.parametrize("columns", [20, 40, 200])
def test_what_it_says_fits_the_screen(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    rule = "a_rule_with_a_name_of_some_length"
    figures = {
        "records": 2_000_000,
        "alerts": {rule: 12_345},
        "dead_letters": {"duplicate_id": 3},
        "late_records": 4,
        "output": "out/[bold]/alerts\x1b.jsonl",
        "compare": {rule: {"both": 1, "appear": 2_000, "disappear": 3, "appearing": [], "disappearing": []}},
    }
    text = as_text(figures)
    assert max(map(len, text.splitlines())) <= columns
    joined = "".join(text.split())
    assert joined.count(rule) == 2
    for part in ("2,000,000records", "12,345", "out/[bold]/alerts\\x1b.jsonl", "3duplicate_id", "+2,000", "-3"):
        assert part in joined


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--pipeline", "shop"], "--pipeline shop: no such file; expected a pipeline file, or, with --as-of-log"),
        (["--pipeline", "pipeline.yaml"], "pipeline.yaml names its streams already; leave one of the two out"),
        (["--pipeline", "gone.yaml"], "gone.yaml"),
    ],
)
def test_a_pipeline_is_a_file_or_the_name_of_a_log(
    run: Callable[..., int], capsys: pytest.CaptureFixture[str], options: list[str], told: str
) -> None:
    assert run(*options) == 2
    assert told in " ".join(capsys.readouterr().err.split())


def test_what_is_missing_is_told(run: Callable[..., int], capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["backtest", "--input", "in/*.jsonl"]) == 2
    assert "found no --stream and --rules" in " ".join(capsys.readouterr().err.split())


def test_a_pipeline_file_says_what_its_stream_would_judge_by(run: Callable[..., int]) -> None:
    file = yaml.safe_load(Path("pipeline.yaml").read_text())
    file["defaults"] = {"watermark_delay": "5s", "allowed_lateness": "1h"}
    file["engine"]["partition_lag"] = "7m"
    Path("pipeline.yaml").write_text(yaml.safe_dump(file))
    setting = _setting(None, None, None, "pipeline.yaml", as_of_log=False)
    assert (setting.defaults.watermark_delay_ms, setting.defaults.allowed_lateness_ms) == (5_000, 3_600_000)
    assert setting.partition_lag_ms == 420_000
    assert (setting.rules, setting.name, list(setting.streams)) == (Path("rules"), "payments", ["payments"])
