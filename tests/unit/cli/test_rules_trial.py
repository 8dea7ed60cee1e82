"""``crossline rules test`` over the files of a new project, whose payments are known one by one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from crossline.cli.init import template_files
from crossline.cli.main import run_command

COMMAND = ["rules", "test", "rules", "--stream", "stream.yaml", "--input", "in/*.jsonl"]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Runs a command in a new project; returns its standard output."""
    for name, content in template_files():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    monkeypatch.chdir(tmp_path)

    def ran(*options: str, code: int = 0) -> str:
        capsys.readouterr()
        assert run_command([*COMMAND, *options]) == code
        reported = capsys.readouterr()
        return reported.err if code else reported.out

    return ran


def test_what_fires(run: Callable[..., str]) -> None:
    rows = [line.split(maxsplit=3) for line in run("--no-near").splitlines()]
    assert [(row[0], row[2]) for row in rows[1:]] == [("card_testing", "1"), ("large_payment", "1"), ("spending", "1")]
    assert [row[3].split(":")[0] for row in rows[1:]] == ["p0019", "p0008", "p0008"]


def test_why_a_rule_did_not_fire(run: Callable[..., str]) -> None:
    lines = [json.loads(line) for line in run("--record", "p0008", "--json").splitlines()]
    assert [(each["rule_id"], each["fired"], each["value"]) for each in lines] == [
        ("card_testing", False, None),
        ("large_payment", True, None),
        ("spending", True, 234_900),
    ]
    assert lines[0]["why"] == "found channel transfer; expected channel == card"
    assert lines[2]["why"] == lines[2]["alert"]["message"]


def test_a_rule_that_is_a_draft_is_tried(run: Callable[..., str]) -> None:
    rule = Path("rules/large_payment.yaml")
    (body,) = yaml.safe_load(rule.read_text())
    rule.write_text(yaml.safe_dump({**body, "status": "draft"}))
    assert json.loads(run("--json").splitlines()[1])["alerts"] == 1


def test_a_pipeline_file_names_the_streams(run: Callable[..., str]) -> None:
    by_stream = run("--json")
    command = ["--pipeline" if word == "--stream" else word for word in COMMAND]
    command[command.index("stream.yaml")] = "pipeline.yaml"
    assert run_command([*command, "--json"]) == 0
    assert by_stream


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--record", "p9999"), "error: record 'p9999' is not in the sample"),
        (("--input", "none/*.jsonl"), "error: no file matches"),
        (("--pipeline", "pipeline.yaml"), "error: --stream stream.yaml: "),
    ],
)
def test_what_is_refused(run: Callable[..., str], options: tuple[str, ...], text: str) -> None:
    assert run(*options, code=2).startswith(text)


def test_a_rule_with_errors_is_reported_with_its_line(run: Callable[..., str]) -> None:
    Path("rules/bad.yaml").write_text("rule_id: bad\nversion: none\n")
    assert "rules/bad.yaml:2: version" in run(code=2)


def test_near_misses_say_what_was_missing(run: Callable[..., str]) -> None:
    found = run()
    assert "found amount_cents 45,000; expected amount_cents > 100000: 55,000 is missing" in found
    lines = [json.loads(line) for line in run("--json").splitlines()]
    (large,) = [each["near"] for each in lines if each["rule_id"] == "large_payment"]
    assert [(each["record_id"], each["value"], each["missing"]) for each in large] == [("p0005", 45_000, 55_000)]
    assert "near" not in json.loads(run("--json", "--no-near").splitlines()[0])
