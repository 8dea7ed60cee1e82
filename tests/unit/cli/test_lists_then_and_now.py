"""Lists that changed: what a backtest judges by as of the log and as of now, and what the history says of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from crossline.basics.errors import StateError, UsageError
from crossline.cli.app import app
from crossline.runtime.changes.rule_feed import DirectoryFeed
from crossline.settings.config import in_folder, load_pipeline

PIPELINE = """\
schema_version: 1
name: shop
streams: {s: {id: id, event_time: {field: at}, fields: {id: string, at: integer, card: string}}}
sources: {s: {kind: files, path: in}}
rules: {kind: directory, path: rules}
lists: {kind: directory, path: lists}
sinks: [{kind: console}]
"""
RULE = """\
rule_id: stolen
version: 1
rule_type: threshold
source_topic: s
conditions: [{field: card, operator: in, value: {list: cards}}]
"""
OTHER = RULE.replace("stolen", "other").replace("cards", "more")
NOON_MS = 1_767_268_800_000  # 2026-01-01T12:00:00Z


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Ten records a second apart, each card c0, c1, c0, …; the list has c0, from the sixth on c1, and now nothing."""
    monkeypatch.chdir(tmp_path)
    for name in ("rules", "lists", "in"):
        (tmp_path / name).mkdir()
    (tmp_path / "shop.yaml").write_text(PIPELINE)
    (tmp_path / "rules" / "r.yaml").write_text(RULE)
    (tmp_path / "lists" / "cards.txt").write_text("c0\n")
    (tmp_path / "lists" / "more.txt").write_text("c1\n")
    records = [{"id": f"r{number}", "at": NOON_MS + 1000 * number, "card": f"c{number % 2}"} for number in range(10)]
    (tmp_path / "in" / "a.jsonl").write_text("".join(json.dumps(each) + "\n" for each in records))
    feed = DirectoryFeed(in_folder(load_pipeline(PIPELINE, "p.yaml", str), str(tmp_path)), {"s": "records"})
    feed.start()
    for text, highest_ms in (("[{value: c1, until: 2026-01-01T12:00:09Z}]", NOON_MS + 4500), ("[]", NOON_MS + 99_999)):
        (tmp_path / "lists" / "cards.txt").unlink(missing_ok=True)
        (tmp_path / "lists" / "cards.yaml").write_text(text)
        assert feed.changed()
        feed.take_up({"s": highest_ms})
    feed.close()
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments, catch_exceptions=False)


def fired(*options: str) -> list[str]:
    assert run("backtest", "--input", "in", "--pipeline", "shop.yaml", *options).exit_code == 0
    return [json.loads(line)["record_id"] for line in Path("alerts.jsonl").read_text().splitlines()]


def history(*arguments: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in run("rules", "history", *arguments, "--json").stdout.splitlines()]


def test_as_of_the_log_the_entries_of_then_judge(shop: Path) -> None:
    assert fired("--as-of-log") == ["r0", "r2", "r4", "r5", "r7"], "r9 came when the entry of c1 had ended"
    assert fired() == [], "as of now"
    (shop / "lists" / "cards.yaml").write_text("[c1]")
    assert fired() == ["r1", "r3", "r5", "r7", "r9"]
    assert fired("--as-of-log") == ["r0", "r2", "r4", "r5", "r7"]
    (shop / "lists" / "cards.yaml").write_text("[[c1]]")
    assert fired("--as-of-log") == ["r0", "r2", "r4", "r5", "r7"], "the files of now do not matter"


def test_other_rules_read_the_lists_of_then_and_those_that_the_log_does_not_know(shop: Path) -> None:
    (shop / "other.yaml").write_text(OTHER.replace("more", "new"))
    arguments = ("backtest", "--input", "in", "--pipeline", "shop.yaml", "--as-of-log", "--compare", "other.yaml")
    with pytest.raises(UsageError, match=r"the rules refer to new; found no such list in .*lists; name the folder"):
        run(*arguments)
    (shop / "lists" / "new.txt").write_text("c0\n")
    found = json.loads(run(*arguments, "--json").stdout)["compare"]
    assert (found["other"]["appear"], found["stolen"]["disappear"]) == (5, 5)


def test_a_content_that_is_lost_is_reported(shop: Path) -> None:
    for path in (shop / "rules" / ".log" / "lists").iterdir():
        path.unlink()
    with pytest.raises(StateError, match=r"\.log/lists/.*Put the file back from a copy"):
        run("backtest", "--input", "in", "--pipeline", "shop.yaml", "--as-of-log")


def test_history_has_the_lists_that_a_rule_refers_to(shop: Path) -> None:
    changes = [event for event in history("stolen") if event["event"] == "list_changed"]
    assert [(each["list_name"], each["source"], each["begins"]) for each in changes] == [
        ("cards", "cards.txt", {}),
        ("cards", "cards.yaml", {"s": "2026-01-01T12:00:04.501Z"}),
        ("cards", "cards.yaml", {"s": "2026-01-01T12:01:40.000Z"}),
    ]
    assert [event["list_name"] for event in history("--all") if "list_name" in event] == [
        "cards",
        "more",
        "cards",
        "cards",
    ]
    found = run("rules", "history", "--all").stdout
    assert all(each in found for each in ("list changed", "list cards", "2026-01-01T12:00:04.501Z", "the beginning"))
