"""The commands that look into rules, on small files whose answers are counted by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from crossline.cli.init import template_files
from crossline.cli.main import run_command

Run = Callable[..., str]
HERE = ["--stream", "stream.yaml"]
SAMPLE = [*HERE, "--input", "in/*.jsonl"]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """``crossline rules …`` in a new project; what it said."""
    for name, content in template_files():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    monkeypatch.chdir(tmp_path)

    def ran(*options: str, code: int = 0) -> str:
        capsys.readouterr()
        assert run_command(["rules", *options]) == code
        told = capsys.readouterr()
        return told.err if code == 2 else told.out

    return ran


def rows(said: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in said.splitlines()]


def test_explain_says_what_rules_mean(run: Run) -> None:
    said = run("explain", "rules", *HERE)
    assert (
        "It looks at each payment where amount_cents > 100000 and channel == transfer. Each of them is a hit." in said
    )
    assert "It keeps nothing of the past." in said
    assert "payments by account_id, on event time" in said
    assert [line.split(maxsplit=2)[2].strip() for line in said.splitlines() if "shared with" in line] == [
        "spending",
        "card_testing",
    ]


def test_explain_measures_on_a_sample(run: Run) -> None:
    told = rows(run("explain", "rules", *SAMPLE, "--rule", "spending", "--cost", "--json"))
    assert told[0]["rule_id"] == "spending"
    (keeps,) = told[0]["keeps"]
    lines = [json.loads(line) for line in Path("in/2026-01-05.jsonl").read_text().splitlines()]
    accounts = [each["account_id"] for each in lines]
    assert (keeps["records"], keeps["keys"]) == (len(accounts), len(set(accounts)))
    assert keeps["bytes"] > 0
    assert {"ns_a_record", "noise_ns", "told"} <= told[1].keys()
    assert told[2].keys() == {"all_rules_ns", "no_rules_ns"}


def test_explain_refuses(run: Run) -> None:
    assert "--cost is measured on a sample" in run("explain", "rules", *HERE, "--cost", code=2)
    assert "did you mean spending?" in run("explain", "rules", *HERE, "--rule", "spendin", code=2)


def test_lint_tells_where_what_why_and_what_to_do(run: Run) -> None:
    assert run("lint", "rules", *HERE) == ""
    rule = Path("rules/spending.yaml")
    rule.write_text(rule.read_text().replace("aggregation_type: sum", "aggregation_type: count").replace('">"', '"<"'))
    rule.write_text(rule.read_text().replace("aggregation_threshold: 200000", "aggregation_threshold: 0.5"))
    said = run("lint", "rules", *HERE, code=1)
    assert "rules/spending.yaml:" in said
    assert "never true, rule spending: count of amount_cents, which is at least 1, < 0.5 can never hold" in said
    (told,) = rows(run("lint", "rules", *HERE, "--json", code=1))
    assert (told["kind"], told["path"]) == ("never_true", "[0].aggregation_threshold")
    assert run("lint", "rules", *HERE, "--ignore", "never_true") == ""
    assert run("lint", "rules", *HERE, "--rule", "large_payment") == ""


def test_lint_shows_keys_that_are_nearly_one_a_record(run: Run) -> None:
    line = json.loads(Path("in/2026-01-05.jsonl").read_text().splitlines()[0])
    made = [
        {**line, "payment_id": f"x{n}", "account_id": f"a{n}", "paid_at": f"2026-01-05T09:{n // 60:02}:{n % 60:02}Z"}
        for n in range(1_200)
    ]
    Path("many.jsonl").write_text("".join(json.dumps(each) + "\n" for each in made))
    (told,) = rows(run("lint", "rules", *HERE, "--input", "many.jsonl", "--rule", "spending", "--json", code=1))
    assert told["kind"] == "unbounded_key"
    assert told["what"] == "the sample has 1,200 keys for the 1,200 records that enter"
