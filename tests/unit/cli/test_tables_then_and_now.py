"""Tables that changed: what a backtest and a trial join as of the log and as of now, and what the history says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from crossline.basics.errors import UsageError
from crossline.cli.app import app
from crossline.runtime.changes.rule_feed import DirectoryFeed
from crossline.settings.config import in_folder, load_pipeline

PIPELINE = """\
schema_version: 1
name: shop
streams: {s: {id: id, event_time: {field: at}, fields: {id: string, at: integer, account: string}}}
sources: {s: {kind: files, path: in}}
rules: {kind: directory, path: rules}
enrich:
  profile: {kind: files, path: profile.csv, key: {account: id}, fields: {country: string}}
  unread: {kind: files, path: none.csv, key: account, fields: {more: string}}
sinks: [{kind: console}]
"""
RULE = """\
rule_id: norway
version: 1
rule_type: threshold
source_topic: s
conditions: [{field: profile.country, operator: "==", value: "NO"}]
description: "{account} in {profile.country}"
"""
ABOVE = """\
rule_id: above
version: 1
rule_type: velocity
source_topic: "rule:norway"
group_by: profile.country
aggregation_type: count
aggregation_threshold: 3
window: 1h
"""
START_MS = 1_767_268_800_000


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Six records a second apart of a0, a1, a2, …; a0 is Norwegian, from the fourth record on a1, and now none."""
    monkeypatch.chdir(tmp_path)
    for name in ("rules", "in"):
        (tmp_path / name).mkdir()
    (tmp_path / "shop.yaml").write_text(PIPELINE)
    (tmp_path / "rules" / "r.yaml").write_text(RULE)
    records = [{"id": f"r{number}", "at": START_MS + 1000 * number, "account": f"a{number % 3}"} for number in range(6)]
    (tmp_path / "in" / "a.jsonl").write_text("".join(json.dumps(each) + "\n" for each in records))
    (tmp_path / "profile.csv").write_text("id,country\na0,NO\na1,SE\n")
    (tmp_path / "none.csv").write_text("account,more\n")
    feed = DirectoryFeed(in_folder(load_pipeline(PIPELINE, "p.yaml", str), str(tmp_path)), {"s": "records"})
    feed.start()
    for text, highest_ms in (("a0,DK\na1,NO\n", START_MS + 2500), ("", START_MS + 99_999)):
        (tmp_path / "profile.csv").write_text(f"id,country\n{text}")
        assert feed.changed()
        feed.take_up({"s": highest_ms})
    feed.close()
    (tmp_path / "none.csv").unlink()
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments, catch_exceptions=False)


def judged(*options: str) -> tuple[dict[str, Any], list[str]]:
    found = run("backtest", "--input", "in", "--pipeline", "shop.yaml", "--json", *options)
    assert found.exit_code == 0
    return json.loads(found.stdout), [
        json.loads(line)["message"] for line in Path("alerts.jsonl").read_text().splitlines()
    ]


def test_as_of_the_log_the_rows_of_then_are_joined(shop: Path) -> None:
    figures, found = judged("--as-of-log")
    assert (found, figures["without_row"]) == (["a0 in NO", "a1 in NO"], {"profile": 2}), "r0, r4; a2 has no row"
    figures, found = judged()
    assert (found, figures["without_row"]) == ([], {"profile": 6}), "as of now"
    (shop / "profile.csv").write_text("id,country\na2,NO\na2,SE\n")
    assert judged("--as-of-log")[1] == ["a0 in NO", "a1 in NO"], "the files of now do not matter"
    with pytest.raises(UsageError, match=r'profile\.csv:3\n  found id "a2" again'):
        judged()


def test_a_log_whose_rules_read_tables_needs_the_pipeline_that_has_them(shop: Path) -> None:
    stream = "schema_version: 1\nstreams: {s: {id: id, event_time: {field: at}, fields: {id: string, at: integer}}}\n"
    (shop / "stream.yaml").write_text(stream)
    with pytest.raises(UsageError) as error:
        run("backtest", "--as-of-log", "--rules", "rules", "--stream", "stream.yaml", "--input", "in")
    assert "do not fit the streams; name the pipeline file with --pipeline" in str(error.value)
    assert 'rule norway version 1: found "profile.country", expected a field of stream s' in str(error.value)


def test_a_trial_shows_what_a_record_was_joined_with(shop: Path) -> None:
    (shop / "profile.csv").write_text("id,country\na0,NO\na1,SE\n")
    arguments = ("rules", "test", "rules", "--pipeline", "shop.yaml", "--input", "in")
    assert "2 without a row in table profile" in run(*arguments).stderr
    found = run(*arguments, "--record", "r4").stdout
    assert "profile.country SE" in found
    assert "found profile.country SE; expected profile.country == NO" in " ".join(found.split())


def test_history_has_the_tables_that_a_rule_reads(shop: Path) -> None:
    lines = [json.loads(line) for line in run("rules", "history", "norway", "--json").stdout.splitlines()]
    changes = [(each["table_name"], each["text"]) for each in lines if each["event"] == "table_changed"]
    assert changes == [
        ("profile", "table profile: 2 rows"),
        ("profile", "table profile: 2 rows"),
        ("profile", "table profile: 0 rows"),
    ]
    found = run("rules", "history", "--all").stdout
    assert all(each in found for each in ("table changed", "table profile", "2026-01-01T12:00:02.501Z", "table unread"))


def test_an_unknown_field_of_a_table_is_reported_with_the_nearest(shop: Path) -> None:
    (shop / "bad.yaml").write_text(RULE.replace("profile.country, op", "profile.contry, op"))
    found = run("rules", "check", "bad.yaml", "--pipeline", "shop.yaml")
    assert found.exit_code == 1
    assert "did you mean profile.country?" in found.stdout + found.stderr


def test_hits_carry_the_fields_of_tables_that_later_rules_read(shop: Path) -> None:
    (shop / "rules" / "above.yaml").write_text(ABOVE)
    (shop / "profile.csv").write_text("id,country\na0,NO\na1,NO\na2,SE\n")
    assert run("backtest", "--input", "in", "--pipeline", "shop.yaml").exit_code == 0
    alerts = [json.loads(line) for line in Path("alerts.jsonl").read_text().splitlines()]
    above = [(each["record_id"], each["key"], each["value"]) for each in alerts if each["rule_id"] == "above"]
    assert above == [("r3", {"profile.country": "NO"}, 3)]
