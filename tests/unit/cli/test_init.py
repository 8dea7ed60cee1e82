"""``crossline init``: the project it writes is whole, says what it does, and is refused a folder that is in use."""

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from crossline.basics.errors import UsageError
from crossline.basics.texts.problems import RefusedError
from crossline.cli.init import register
from crossline.rule_registry.rule_files import Known, folder_of_rules, read_files
from crossline.settings.config import load_pipeline


def run(*arguments: str) -> Result:
    app = typer.Typer()
    # A second command, without which typer takes the only one for the program itself.
    app.command(name="other")(lambda: None)
    register(app)
    return CliRunner().invoke(app, ["init", *arguments], catch_exceptions=False)


def test_the_project_is_whole(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "project"
    result = run(str(folder))
    assert result.exit_code == 0
    names = [line.strip() for line in result.stdout.splitlines()[1:]]
    assert names == [
        "README.md",
        "in/2026-01-05.jsonl",
        "pipeline.yaml",
        "rules/card_testing.cases.yaml",
        "rules/card_testing.yaml",
        "rules/large_payment.yaml",
        "rules/spending.yaml",
        "stream.yaml",
    ]
    assert all((folder / name).is_file() for name in names)
    assert f"next: crossline run {folder}/pipeline.yaml --drain" in result.stderr

    text = (folder / "pipeline.yaml").read_text(encoding="utf-8")
    pipeline = load_pipeline(text, "pipeline.yaml", lambda name: (folder / name).read_text(encoding="utf-8"))
    files = folder_of_rules(folder / pipeline.rules.path).changed() or {}
    read = read_files(files, Known(pipeline.streams)).values()
    rules = [each.rule for found in read if not isinstance(found, RefusedError) for each in found]
    assert [(rule.rule_id, rule.rule_type, rule.status) for rule in rules] == [
        ("card_testing", "velocity", "active"),
        ("large_payment", "threshold", "active"),
        ("spending", "velocity", "shadow"),
    ]


def test_the_records_hold_what_the_readme_promises(tmp_path: Path) -> None:
    run(str(tmp_path))
    lines = (tmp_path / "in/2026-01-05.jsonl").read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    times = [datetime.fromisoformat(record["paid_at"]) for record in records]
    assert times == sorted(times)
    assert len({record["payment_id"] for record in records}) == len(records) == 24

    def window(last: int, length: timedelta) -> list[dict[str, Any]]:
        """The records of the same account in the window that ends at record number ``last``."""
        return [
            record
            for record, at in zip(records[: last + 1], times, strict=False)
            if record["account_id"] == records[last]["account_id"] and times[last] - length < at
        ]

    small = [r["channel"] == "card" and r["amount_cents"] < 500 for r in records]
    tested = [
        record["payment_id"]
        for n, record in enumerate(records)
        if small[n]
        and sum(each["channel"] == "card" and each["amount_cents"] < 500 for each in window(n, timedelta(minutes=1)))
        >= 5
    ]
    spent = [
        (records[n]["account_id"], total)
        for n in range(len(records))
        if (total := sum(each["amount_cents"] for each in window(n, timedelta(minutes=10)))) > 200_000
    ]
    large = [r["account_id"] for r in records if r["channel"] == "transfer" and r["amount_cents"] > 100_000]
    assert (tested, spent, large) == (["p0019"], [("a2", 234_900)], ["a2"])


def test_json_names_the_files(tmp_path: Path) -> None:
    body = json.loads(run(str(tmp_path), "--json").stdout)
    assert body["directory"] == str(tmp_path)
    assert "pipeline.yaml" in body["files"]


def test_a_folder_in_use_is_refused(tmp_path: Path) -> None:
    for name in "abcde":
        (tmp_path / name).touch()
    with pytest.raises(UsageError, match=r"is not empty: it has a, b, c and 2 more; name a new folder, .*/payments"):
        run(str(tmp_path))
    assert sorted(each.name for each in tmp_path.iterdir()) == list("abcde")
    with pytest.raises(UsageError, match="is a file; expected a folder that is new or empty"):
        run(str(tmp_path / "a"))


@pytest.mark.parametrize("roundabout", ["p2/x/..", "p2/rules/..", "p2/x/../rules/..", "link", "link/x/.."])
def test_a_project_is_found_behind_dots_and_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, roundabout: str
) -> None:
    monkeypatch.chdir(tmp_path)
    run("p2")
    Path("link").symlink_to("p2")
    rule = tmp_path / "p2" / "rules" / "spending.yaml"
    rule.write_text("mine")
    with pytest.raises(UsageError, match="is not empty"):
        run(roundabout)
    assert rule.read_text() == "mine"
    assert not (tmp_path / "p2" / "x").exists()


def test_what_comes_meanwhile_is_not_written_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "new"
    monkeypatch.setattr("crossline.cli.init._empty", lambda _: folder)
    folder.mkdir()
    (folder / "pipeline.yaml").write_text("mine")
    with pytest.raises(UsageError, match=r"pipeline.yaml cannot be written: File exists"):
        run(str(folder))
    assert (folder / "pipeline.yaml").read_text() == "mine"
