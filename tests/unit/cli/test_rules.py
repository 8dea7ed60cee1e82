"""``crossline rules``: what it says of rule files and rule logs, what it writes, what it refuses."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from crossline.basics.errors import PermanentError, UsageError
from crossline.basics.streams.schema import load_streams
from crossline.basics.texts.problems import RefusedError
from crossline.cli.app import app
from crossline.rule_registry.directory import DirectoryRuleLog
from crossline.rules.registry import rule_types

NOW_MS = 1_767_225_600_000  # 2026-01-01T00:00:00Z
STREAM = """\
schema_version: 1
streams:
  payments: {id: payment_id, event_time: {field: at}, fields: {payment_id: string, at: integer, amount: integer}}
"""
LARGE = """\
# Large payments.
- rule_id: large
  version: 1
  rule_type: threshold
  source_topic: payments
  severity: high
  conditions: [{field: amount, operator: ">", value: 100}]
"""
SMALL = LARGE.replace("large", "small").replace('">", value: 100', '"<", value: 1')


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a stream file and rules, in which the command runs."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rules").mkdir()
    (tmp_path / "stream.yaml").write_text(STREAM, encoding="utf-8")
    (tmp_path / "rules/large.yaml").write_text(LARGE, encoding="utf-8")
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["rules", *arguments], catch_exceptions=False)


def lines(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def pipeline_runs(now_ms: int, name: str = "payments") -> None:
    """What a pipeline does with the folder when it starts, and between its batches."""
    log = DirectoryRuleLog("rules", name, load_streams(STREAM, "stream.yaml"))
    log.start(now_ms)
    log.take_up(log.poll(), {}, now_ms)
    log.close()


def test_check_finds_nothing_wrong(project: Path) -> None:
    result = run("check", "rules", "--stream", "stream.yaml")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "1 rule in 1 file: nothing wrong\n")
    assert "fields and types were not checked: name the stream file with --stream" in run("check", "rules").stderr


def test_check_reports_everything_and_exits_with_1(project: Path) -> None:
    (project / "a.yaml").write_text(LARGE.replace("amount", "amuont"), encoding="utf-8")
    (project / "b.yaml").write_text(SMALL.replace("threshold", "thresold").replace("large", "small"), encoding="utf-8")
    result = run("check", "a.yaml", "b.yaml", "rules", "--stream", "stream.yaml")
    assert result.exit_code == 1
    assert result.stdout == (
        "2 problems in a.yaml, b.yaml\n\n"
        "a.yaml:7: [0].conditions[0].field\n"
        '     7 |   conditions: [{field: amuont, operator: ">", value: 100}]\n'
        '  found "amuont"; expected a field of stream payments\n'
        "  did you mean amount?\n\n"
        "b.yaml:4: [0].rule_type\n"
        "     4 |   rule_type: thresold\n"
        f'  found "thresold"; expected one of {", ".join(rule_types())}\n'
        "  did you mean threshold?\n"
    )


def test_check_finds_two_bodies_of_one_version_in_two_files(project: Path) -> None:
    (project / "rules/more.yaml").write_text(LARGE.replace("100", "200"), encoding="utf-8")
    result = run("check", "rules", "--json")
    assert result.exit_code == 1
    (summary,) = lines(result)
    assert (summary["ok"], summary["files"], summary["rules"]) == (False, 2, 1)
    assert [(each["source"], each["line"], each["path"]) for each in summary["problems"]] == [
        ("rules/more.yaml", 3, "[0].version")
    ]


def test_check_knows_the_lists(project: Path) -> None:
    (project / "lists").mkdir()
    (project / "lists/amounts.yaml").write_text("[1, 2]", encoding="utf-8")
    text = LARGE.replace('">", value: 100', "in, value: {list: amount}")
    (project / "rules/large.yaml").write_text(text, encoding="utf-8")
    result = run("check", "rules", "--stream", "stream.yaml", "--lists", "lists")
    assert result.exit_code == 1
    assert "did you mean amounts?" in result.stdout


def test_check_refuses_what_is_not_there(project: Path) -> None:
    (project / "none").mkdir()
    result = run("check", "none")
    assert (result.exit_code, "found no rules in none; expected files with a rule" in result.stderr) == (1, True)
    with pytest.raises(UsageError, match=r"gone\.yaml cannot be read: No such file"):
        run("check", "gone.yaml")
    with pytest.raises(UsageError, match=r"^gone\.yaml cannot be read: No such file"):
        run("check", "rules", "--stream", "gone.yaml")


def test_list_before_and_after_a_pipeline_ran(project: Path) -> None:
    result = run("list")
    assert [line.split() for line in result.stdout.splitlines()[1:]] == [
        ["large", "1", "threshold", "active", "the", "beginning", "high", "large.yaml:2"]
    ]
    assert result.stderr == "no pipeline has run on rules yet: these are its files\n"

    pipeline_runs(NOW_MS)
    (project / "rules/large.yaml").write_text(LARGE.replace("version: 1", "version: 2"), encoding="utf-8")
    (project / "rules/bad.yaml").write_text("- [", encoding="utf-8")
    result = run("list", "--json")
    assert [(row["rule_id"], row["version"], row["live"], row["effective_from"]) for row in lines(result)] == [
        ("large", 1, True, None)
    ]
    assert "not loaded yet; a running pipeline loads them: large version 2\n" in result.stderr
    assert "rules/bad.yaml has errors: crossline rules check rules/bad.yaml\n" in result.stderr

    pipeline_runs(NOW_MS)
    assert [(row["version"], row["effective_from"]) for row in lines(run("list", "--json"))] == [
        (2, "2026-01-01T00:00:00.000Z")
    ]


def test_two_pipelines_on_one_folder_are_reported_apart(project: Path) -> None:
    pipeline_runs(NOW_MS, "a")
    pipeline_runs(NOW_MS, "b")
    with pytest.raises(UsageError, match=r"the rule logs of a, b in rules; expected --pipeline with one of them"):
        run("list")
    assert run("list", "--pipeline", "b").exit_code == 0


def test_show_reports_since_when_a_version_judges(project: Path) -> None:
    pipeline_runs(NOW_MS)
    (project / "rules/large.yaml").write_text(LARGE.replace("version: 1", "version: 2"), encoding="utf-8")
    pipeline_runs(NOW_MS)
    found = run("show", "large").stdout
    assert found.startswith(
        "large version 2, threshold, active, in large.yaml:2\n"
        "judges records ingested from 2026-01-01T00:00:00.000Z on\n\nrule_id: large\nversion: 2\n"
    )
    found = run("show", "large", "--version", "1").stdout
    assert "judges records ingested from the beginning until 2026-01-01T00:00:00.000Z\n" in found
    (row,) = lines(run("show", "large", "--version", "1", "--json"))
    assert row["judges"] == [{"from": None, "until": "2026-01-01T00:00:00.000Z", "kind": "active"}]
    with pytest.raises(PermanentError, match="found no rule larg; expected large; did you mean large"):
        run("show", "larg")
    with pytest.raises(PermanentError, match="found no version 7 of rule large: see crossline rules history large"):
        run("show", "large", "--version", "7")


def test_history_has_refusals_too(project: Path) -> None:
    assert "there is no history" in run("history", "--all").stderr
    (project / "rules/small.yaml").write_text(SMALL, encoding="utf-8")
    pipeline_runs(NOW_MS)
    (project / "rules/large.yaml").write_text(LARGE.replace("100", "200"), encoding="utf-8")
    pipeline_runs(NOW_MS + 1_000)
    rows = lines(run("history", "large", "--json"))
    assert [(row["event"], row["at"]) for row in rows] == [
        ("published", "2026-01-01T00:00:00.000Z"),
        ("refused", "2026-01-01T00:00:01.000Z"),
    ]
    found = run("history", "--all").stdout
    assert "version 1 is published with another body; set version: 2" in found
    assert [line.split()[1] for line in found.splitlines() if line.startswith("2026")] == [
        "published",
        "published",
        "started",
        "refused",
    ]
    with pytest.raises(UsageError, match="name one rule, or give --all"):
        run("history")
    with pytest.raises(PermanentError, match="found no rule nope"):
        run("history", "nope")


def test_publish_writes_the_file_and_says_when_it_holds(project: Path) -> None:
    new = project / "small.yaml"
    new.write_text(SMALL, encoding="utf-8")
    result = run("publish", "small.yaml", "--stream", "stream.yaml")
    assert result.stdout == (
        "small version 1: active in rules/small.yaml; "
        "effective from the beginning, once a pipeline first starts on it\n"
    )
    assert (project / "rules/small.yaml").read_text(encoding="utf-8") == SMALL
    pipeline_runs(NOW_MS)
    assert run("publish", "small.yaml").stdout == "small version 1: live already, nothing changes\n"

    asked = SMALL.replace("version: 1", "version: 2\n  effective_from: 2030-01-01T00:00:00Z")
    new.write_text(asked, encoding="utf-8")
    result = run("publish", "small.yaml", "--json")
    assert lines(result) == [
        {
            "rule_id": "small",
            "version": 2,
            "status": "active",
            "change": "published",
            "file": "rules/small.yaml",
            "effective_from": "2030-01-01T00:00:00.000Z",
        }
    ]


def test_publish_refuses_what_may_not_follow_what_is_live(project: Path) -> None:
    pipeline_runs(NOW_MS)
    new = project / "large.yaml"
    new.write_text(LARGE.replace("100", "200"), encoding="utf-8")
    with pytest.raises(RefusedError, match=r"large\.yaml:3: .*\n.*\n.*\n  version 1 is published with another body"):
        run("publish", "large.yaml")
    assert (project / "rules/large.yaml").read_text(encoding="utf-8") == LARGE
    with pytest.raises(UsageError, match="is in rules already: a running pipeline loads it by itself"):
        run("publish", "rules/large.yaml")
    with pytest.raises(UsageError, match=r"found file stream\.txt; expected a name that ends in"):
        run("publish", "stream.txt")
    with pytest.raises(UsageError, match="found no folder none; expected the folder of the rule files"):
        run("publish", "large.yaml", "--rules", "none")


def test_publish_that_leaves_a_rule_out_says_so(project: Path) -> None:
    (project / "large.yaml").write_text(SMALL, encoding="utf-8")
    assert "rule large was in the replaced file: it stays live" in run("publish", "large.yaml").stderr


def test_publish_does_not_break_another_file(project: Path) -> None:
    (project / "a.yaml").write_text(LARGE.replace("100", "200"), encoding="utf-8")
    with pytest.raises(RefusedError, match=r"^a\.yaml:3: .*\n.*\n.*; large\.yaml:2 has another$"):
        run("publish", "a.yaml")
    assert [each.name for each in (project / "rules").iterdir() if each.name != ".log"] == ["large.yaml"]


def test_set_status_edits_one_line(project: Path) -> None:
    pipeline_runs(NOW_MS)
    result = run("set-status", "large", "paused")
    assert result.stdout == (
        "large version 1: paused in rules/large.yaml; effective when the pipeline loads it, "
        "within a second where it runs, else after its next start\n"
    )
    expected = LARGE.replace("- rule_id: large\n", "- rule_id: large\n  status: paused\n")
    assert (project / "rules/large.yaml").read_text(encoding="utf-8") == expected
    pipeline_runs(NOW_MS)
    assert [(row["status"], row["judges"]) for row in lines(run("list", "--json"))] == [
        ("paused", [{"from": None, "until": "2026-01-01T00:00:00.000Z", "kind": "active"}])
    ]
    assert run("set-status", "large", "paused").stderr == "large version 1 is paused already\n"
    assert lines(run("set-status", "large", "active", "--json"))[0]["change"] == "status_changed"


def test_set_status_allows_legal_moves_only(project: Path) -> None:
    pipeline_runs(NOW_MS)
    with pytest.raises(
        PermanentError, match="large is active and cannot become draft; expected one of paused, retired"
    ):
        run("set-status", "large", "draft")
    run("set-status", "large", "retired")
    pipeline_runs(NOW_MS)
    with pytest.raises(PermanentError, match=r"large is retired and cannot become active; .*; publish a new version"):
        run("set-status", "large", "active")
    with pytest.raises(PermanentError, match="found no rule lagre; expected large; did you mean large"):
        run("set-status", "lagre", "active")
    assert run("set-status", "large", "asleep").exit_code == 2


def test_retired_is_the_end_also_before_a_pipeline_has_taken_it_up(project: Path) -> None:
    """What stands in the file counts, as it does where a pipeline runs: else a restart decides what may follow."""
    pipeline_runs(NOW_MS)
    run("set-status", "large", "retired")
    text = r"large is retired in rules/large\.yaml, which no pipeline has loaded yet, and cannot become active; "
    with pytest.raises(PermanentError, match=text + "expected no other status; publish a new version"):
        run("set-status", "large", "active")
    (project / "large.yaml").write_text(LARGE, encoding="utf-8")
    with pytest.raises(PermanentError, match=text):
        run("publish", "large.yaml")
    assert "status: retired" in (project / "rules/large.yaml").read_text(encoding="utf-8")
    pipeline_runs(NOW_MS + 1_000)
    assert [row["status"] for row in lines(run("list", "--json"))] == ["retired"]


def test_a_status_that_no_pipeline_has_taken_up_may_be_taken_back(project: Path) -> None:
    pipeline_runs(NOW_MS)
    run("set-status", "large", "paused")
    assert run("set-status", "large", "active").stdout == (
        "large version 1: active in rules/large.yaml again; paused, which no pipeline has loaded, is undone\n"
    )
    assert "status: active" in (project / "rules/large.yaml").read_text(encoding="utf-8")
    run("set-status", "large", "paused")
    (row,) = lines(run("set-status", "large", "active", "--json"))
    assert (row["change"], row["taken_back"]) == ("unchanged", "paused")
    assert run("set-status", "large", "active").stderr == "large version 1 is active already\n"


def test_a_live_rule_without_a_file_can_be_retired(project: Path) -> None:
    pipeline_runs(NOW_MS)
    (project / "rules/large.yaml").unlink()
    pipeline_runs(NOW_MS)
    run("set-status", "large", "retired")
    assert (project / "rules/large.yaml").is_file()
    pipeline_runs(NOW_MS + 1_000)
    rows = lines(run("history", "large", "--json"))
    assert [(row["event"], row.get("status")) for row in rows] == [
        ("published", "active"),
        ("absent", None),
        ("status_changed", "retired"),
    ]


def test_a_rule_in_a_bad_file_is_not_touched(project: Path) -> None:
    pipeline_runs(NOW_MS)
    (project / "rules/large.yaml").write_text(LARGE + "  colour: red\n", encoding="utf-8")
    with pytest.raises(RefusedError, match="unknown field colour"):
        run("set-status", "large", "paused")


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_lists_and_history_fit_the_screen(project: Path, monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    (project / "rules/small.yaml").write_text(SMALL, encoding="utf-8")
    pipeline_runs(NOW_MS)
    (project / "rules/large.yaml").write_text(LARGE.replace("100", "200"), encoding="utf-8")
    pipeline_runs(NOW_MS + 1_000)
    monkeypatch.setenv("COLUMNS", str(columns))
    for arguments in (["list"], ["history", "--all"]):
        found = run(*arguments).stdout
        assert max(map(len, found.splitlines())) <= columns
        assert {"large", "small"} <= set(found.split())
        assert "…" not in found
    assert "version 1 is published with another body; set version: 2" in " ".join(found.split())


PIPELINE = """\
schema_version: 1
name: payments
streams: stream.yaml
sources: {payments: {kind: files, path: in}}
rules: {kind: directory, path: rules}
lists: {kind: directory, path: lists}
sinks: [{kind: kafka, brokers: "b:1", topic: alerts, topics: [alerts.web]}]
"""


def test_a_pipeline_file_says_what_rules_are_checked_against(project: Path) -> None:
    (project / "pipeline.yaml").write_text(PIPELINE, encoding="utf-8")
    (project / "lists").mkdir()
    (project / "lists/amounts.yaml").write_text("[1, 2]", encoding="utf-8")
    listed = LARGE.replace('">", value: 100', "in, value: {list: amounts}") + "  sink_topic: alerts.web\n"
    (project / "rules/large.yaml").write_text(listed, encoding="utf-8")
    result = run("check", "rules", "--pipeline", "pipeline.yaml")
    assert (result.exit_code, result.stderr) == (0, "1 rule in 1 file: nothing wrong\n")

    wrong = SMALL.replace("amount", "amuont") + "  sink_topic: alert.web\n"
    (project / "small.yaml").write_text(wrong, encoding="utf-8")
    result = run("check", "small.yaml", "--pipeline", "pipeline.yaml")
    assert result.exit_code == 1
    assert "did you mean amount?" in result.stdout
    assert (
        '  found "alert.web"; expected a topic of the sinks: one of alerts, alerts.web\n  did you mean alerts.web?\n'
        in result.stdout
    )
    with pytest.raises(RefusedError, match=r"small\.yaml:8: \[0\]\.sink_topic"):
        run("publish", "small.yaml", "--pipeline", "pipeline.yaml")
    assert not (project / "rules/small.yaml").exists()

    right = SMALL + "  sink_topic: alerts\n"
    (project / "small.yaml").write_text(right, encoding="utf-8")
    assert "not checked" not in run("publish", "small.yaml", "--pipeline", "pipeline.yaml").stderr
    assert run("set-status", "small", "paused", "--pipeline", "pipeline.yaml").exit_code == 0
    with pytest.raises(UsageError, match="leave out --stream, --lists and --figures"):
        run("check", "rules", "--pipeline", "pipeline.yaml", "--stream", "stream.yaml")


@pytest.mark.parametrize("operator", ['[">"]', "{a: 1}"])
def test_check_reports_of_an_operator_that_is_no_text(project: Path, operator: str) -> None:
    (project / "rules/a.yaml").write_text(SMALL.replace('"<"', operator), encoding="utf-8")
    result = run("check", "rules", "--stream", "stream.yaml")
    assert result.exit_code == 1
    assert "rules/a.yaml:7: [0].conditions[0].operator" in result.stdout
