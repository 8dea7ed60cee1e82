from __future__ import annotations

import getpass
from pathlib import Path

import pytest

from crossline.basics.errors import PermanentError, UsageError
from crossline.basics.streams.schema import load_streams
from crossline.rule_registry.directory import DirectoryRuleLog

from .test_rules import lines, run

NOW_MS = 1_767_225_600_000  # 2026-01-01T00:00:00Z
STREAM = """\
schema_version: 1
streams:
  payments:
    id: payment_id
    event_time: {field: at}
    fields: {payment_id: string, at: integer, account: string, device: integer}
"""
BURST = """\
rule_id: burst
version: 1
rule_type: velocity
source_topic: payments
group_by: [account, device]
window: 1m
aggregation_type: count
aggregation_threshold: 3
hold: 30m
"""
A1 = ("--key", "account=a1", "--key", "device=7")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rules").mkdir()
    (tmp_path / "stream.yaml").write_text(STREAM, encoding="utf-8")
    (tmp_path / "rules/burst.yaml").write_text(BURST, encoding="utf-8")
    return tmp_path


def pipeline_runs(now_ms: int) -> None:
    log = DirectoryRuleLog("rules", "payments", load_streams(STREAM, "stream.yaml"))
    log.start(now_ms)
    log.take_up(log.poll(), {}, now_ms)
    log.close()


def test_a_release_is_applied_and_is_in_the_history(project: Path) -> None:
    pipeline_runs(NOW_MS)
    me = getpass.getuser()
    assert run("release", "burst", *A1, "--reason", "the customer called").stdout == (
        f"burst, account=a1, device=7: released by {me}; effective when a pipeline loads it\n"
    )
    pipeline_runs(NOW_MS + 1_000)
    pipeline_runs(NOW_MS + 2_000)
    released = [row for row in lines(run("history", "burst", "--json")) if row["event"] == "released"]
    assert [(row["key"], row["who"], row["text"], row["effective_from"]) for row in released] == [
        ({"account": "a1", "device": "7"}, me, "the customer called", "2026-01-01T00:00:01.000Z")
    ]
    found = run("history", "burst").stdout
    assert "released" in found
    assert "account=a1, device=7" in found
    assert "the customer called" in found
    assert lines(run("release", "burst", *A1, "--reason", "again", "--json")) == [
        {"rule_id": "burst", "released": {"account": "a1", "device": "7"}, "reason": "again", "who": me}
    ]
    assert len(list((project / "rules/.releases").iterdir())) == 1, "one file a key"


def test_what_cannot_be_released_is_reported_at_once(project: Path) -> None:
    wrong: list[tuple[tuple[str, ...], type[Exception], str]] = [
        (("brust", *A1, "--reason", "x"), PermanentError, "found no rule brust; expected burst; did you mean burst"),
        (("burst", "--key", "account=a1", "--reason", "x"), PermanentError, "a value for each of account, device"),
        (("burst", "--key", "a1", "--reason", "x"), UsageError, "--key takes field=value"),
        (("burst", *A1, "--key", "account=a2", "--reason", "x"), UsageError, "found account=a1 and account=a2"),
        (("burst", *A1, "--reason", " "), UsageError, "found no reason"),
        (("burst", *A1, "--reason", "x", "--as", "bob"), UsageError, "of files in a folder who owns them counts"),
    ]
    for arguments, error, found in wrong:
        with pytest.raises(error, match=found):
            run("release", *arguments)
    assert not (project / "rules/.releases").exists()
    assert run("release", "burst", *A1).exit_code == 2
