"""``crossline holds``: what a person holds, as a folder of rules has it and as the pipeline loads it."""

from __future__ import annotations

import getpass
import json
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from crossline.basics.errors import PermanentError, UsageError
from crossline.basics.streams.schema import load_streams
from crossline.cli.app import app
from crossline.rule_registry.directory import DirectoryRuleLog
from crossline.rule_registry.events import RuleEvent

from .test_release import BURST, STREAM

NOW_MS = 1_767_225_600_000  # 2026-01-01T00:00:00Z
ID = "0" * 31 + "1"
PLACE = ("place", "--key", "account=a1", "--action", "block", "--until", "24h", "--reason", "looked at")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rules").mkdir()
    (tmp_path / "stream.yaml").write_text(STREAM, encoding="utf-8")
    (tmp_path / "rules/burst.yaml").write_text(BURST, encoding="utf-8")
    (tmp_path / "policy.yaml").write_text("schema_version: 1\nversion: 1\n", encoding="utf-8")
    pipeline = {
        "schema_version": 1,
        "name": "payments",
        "streams": "stream.yaml",
        "rules": {"kind": "directory", "path": "rules"},
        "sources": {"payments": {"kind": "files", "path": "in"}},
        "sinks": [{"kind": "sqlite", "path": "out.db"}],
        "policy": "policy.yaml",
    }
    (tmp_path / "pipeline.yaml").write_text(json.dumps(pipeline), encoding="utf-8")
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["holds", *arguments])


def pipeline_runs(now_ms: int) -> list[RuleEvent]:
    log = DirectoryRuleLog("rules", "payments", load_streams(STREAM, "stream.yaml"))
    log.start(now_ms)
    _, events = log.take_up(log.poll(), {}, now_ms)
    log.close()
    return events


def test_a_hold_is_placed_listed_and_released(project: Path) -> None:
    me = getpass.getuser()
    pipeline_runs(NOW_MS)
    done = run(*PLACE, "--id", ID)
    assert done.stdout.startswith(f"{ID}: account=a1 held until ")
    assert done.stdout.endswith(
        f", by {me}; effective when a pipeline loads it; a running one does within two seconds\n"
    )
    again = run(*PLACE, "--id", ID, "--until", "25h")
    assert isinstance(again.exception, PermanentError)
    assert "asks for something else" in str(again.exception)
    assert "no holds by people" in run("list").stderr
    (event,) = pipeline_runs(NOW_MS + 1_000)
    assert (event.event, event.hold_id, event.who, event.action) == ("held", ID, me, "block")
    (row,) = map(json.loads, run("list", "--json").stdout.splitlines())
    assert (row["hold_id"], row["key"], row["since"], row["placed_by"]) == (
        ID,
        {"account": "a1"},
        "2026-01-01T00:00:01.000Z",
        me,
    )
    assert "looked at" in run("list").stdout
    ended = run("release", ID, "--reason", "it was him", "--json")
    assert json.loads(ended.stdout) == {"hold_id": ID, "released": True, "reason": "it was him", "who": me}
    (event,) = pipeline_runs(NOW_MS + 2_000)
    assert (event.event, event.text, event.begins_ms) == ("released", "it was him", {"payments": NOW_MS + 2_000})
    assert run("list", "--json").stdout == ""
    both = ("--key", "account=a1", "--key", "device=7")
    assert run("place", *both, "--rule", "burst", "--until", "2100-01-01T00:00:00Z", "--reason", "x").exit_code == 1
    assert run("place", *both, "--rule", "burst", "--until", "24h", "--reason", "looked at").exit_code == 0
    pipeline_runs(NOW_MS + 3_000)
    history = " ".join(CliRunner().invoke(app, ["rules", "history", "burst"]).stdout.split())
    assert "held" in history
    assert "account=a1, device=7: allow until" in history


def test_what_is_no_hold_is_refused_and_nothing_is_written(project: Path) -> None:
    """Also before any pipeline has run: by the rules as they stand in the folder."""
    wrong = [
        (("--action", "allow"), 'found action "allow"; expected one of review, step_up, block'),
        (("--until", "2020-01-01T00:00:00Z"), "which is past; expected an instant to come"),
        (("--until", "tomorrow"), "--until takes an instant or a time such as 24h"),
        (("--reason", " "), "found no reason; expected why: --reason TEXT"),
        (("--rule", "burst"), "a value for each of account, device, as alerts have them"),
        (("--stream", "nope"), "found stream nope; expected one of payments"),
        (("--key", "device=x"), "found device=x; expected a whole number, as the field has"),
    ]
    for more, shown in wrong:
        done = run(*PLACE, *more)
        assert isinstance(done.exception, PermanentError | UsageError), done.output
        assert shown in str(done.exception)
    done = run("release", ID, "--reason", "x")
    assert "expected one that is loaded: see crossline holds list" in str(done.exception)
    assert "of files in a folder who owns them counts" in str(run(*PLACE, "--as", "bob").exception)
    for wrong_id in ("../x", "../../pipeline", "x", ID[:-1], f"{ID}/release", ""):
        for command in ((*PLACE, "--id", wrong_id), ("release", wrong_id, "--reason", "x")):
            if wrong_id or command[0] == "release":
                assert "expected an id of 32 hex digits" in str(run(*command).exception), command
    assert list(project.parent.glob("*.json")) == list(project.rglob("*.json")) == []
    assert not (project / "rules/.holds").exists()
    text = (project / "pipeline.yaml").read_text()
    found = {name: value for name, value in json.loads(text).items() if name != "policy"}
    (project / "pipeline.yaml").write_text(json.dumps(found))
    assert "found a pipeline without a policy" in str(run(*PLACE).exception)
