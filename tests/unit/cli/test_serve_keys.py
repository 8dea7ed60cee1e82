"""``crossline serve keys`` and ``serve audit``, and that ``serve FILE`` stands beside them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated

import orjson
import pytest
import typer

from crossline.cli.main import run_command
from crossline.serve.access.keyfile import KEY, KeyFile
from crossline.serve.access.keyring import KeyRing

PIPELINE = """schema_version: 1
name: payments
streams: stream.yaml
sources: {payments: {kind: api, path: in/payments}}
rules: {kind: directory, path: rules/}
sinks: [{kind: sqlite, path: out/alerts.db}]
policy: policy.yaml
serve: {keys: keys.db, path: out/serve}
"""
STREAM = """schema_version: 1
streams:
  payments: {format: json, id: id, event_time: {field: at, unit: ms}, fields: {id: string, at: integer}}
"""
POLICY = """schema_version: 1
version: 1
"""


@pytest.fixture
def pipeline(tmp_path: Path) -> Path:
    (tmp_path / "stream.yaml").write_text(STREAM)
    (tmp_path / "policy.yaml").write_text(POLICY)
    (tmp_path / "rules").mkdir()
    path = tmp_path / "pipeline.yaml"
    path.write_text(PIPELINE)
    return path


def run(*arguments: str | Path) -> int:
    return run_command(["serve", *map(str, arguments)])


def made(pipeline: Path, capsys: pytest.CaptureFixture[str], *more: str) -> str:
    assert run("keys", "create", "--pipeline", pipeline, "--name", "checkout", "--scope", "decide:payments", *more) == 0
    return capsys.readouterr().out.strip()


def listed(pipeline: Path, capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    capsys.readouterr()
    assert run("keys", "list", "--pipeline", pipeline, "--json") == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_a_key_is_printed_once_and_stands_nowhere(pipeline: Path, capsys: pytest.CaptureFixture[str]) -> None:
    key = made(pipeline, capsys, "--expires", "90d")
    assert KEY.fullmatch(key)
    found = listed(pipeline, capsys)
    assert [(each["name"], each["scopes"], each["state"]) for each in found] == [
        ("checkout", ["decide:payments"], "good")
    ]
    assert found[0]["expires_ms"] - found[0]["created_ms"] == 90 * 86_400_000  # type: ignore[operator]
    secret = key.removeprefix("clk_").encode()
    files = [path for path in pipeline.parent.rglob("*") if path.is_file()]
    assert len(files) >= 5
    assert [path for path in files if secret in path.read_bytes()] == []
    for private in (pipeline.parent / "keys.db", pipeline.parent / "out" / "serve" / "audit" / "audit.jsonl"):
        assert private.stat().st_mode & 0o777 == 0o600


def test_both_keys_hold_while_the_grace_lasts(pipeline: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old = made(pipeline, capsys)
    assert run("keys", "rotate", "--pipeline", pipeline, "--name", "checkout", "--grace", "1h") == 0
    new = capsys.readouterr().out.strip()
    first, second = listed(pipeline, capsys)
    assert first["scopes"] == second["scopes"]
    end, now = first["expires_ms"], second["created_ms"]
    assert isinstance(end, int)
    assert isinstance(now, int)
    assert end - now == 3_600_000
    ring = KeyRing(pipeline.parent / "keys.db")
    assert [ring.find(key.encode(), end - 1) is not None for key in (old, new)] == [True, True]
    assert [ring.find(key.encode(), end) is not None for key in (old, new)] == [False, True]
    ring.close()


def test_revoked_keys_end(pipeline: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made(pipeline, capsys)
    assert run("keys", "revoke", "--pipeline", pipeline, "--name", "checkout") == 0
    assert [each["state"] for each in listed(pipeline, capsys)] == ["revoked"]
    again = made(pipeline, capsys)  # the name is free
    assert KEY.fullmatch(again)
    good = [each["key_id"] for each in listed(pipeline, capsys) if each["state"] == "good"]
    assert run("keys", "revoke", "--pipeline", pipeline, "--id", str(good[0])) == 0
    assert {each["state"] for each in listed(pipeline, capsys)} == {"revoked"}


@pytest.mark.parametrize(
    ("more", "text"),
    [
        (["--scope", "decide:paymnts"], "did you mean payments?"),
        (["--scope", "read:alert"], "did you mean read:alerts?"),
        (["--scope", "decide:"], "expected decide: and a stream"),
        (["--role", "analist"], "did you mean analyst?"),
        (["--expires", "soon"], "--expires"),
        ([], "no scope"),
        (["--name", "a\u0430", "--scope", "admin"], "CYRILLIC"),
    ],
)
def test_what_is_wrong_is_stated(
    pipeline: Path, more: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    name = [] if "--name" in more else ["--name", "shop"]
    assert run("keys", "create", "--pipeline", pipeline, *name, *more) == 2
    assert text in capsys.readouterr().err
    assert KeyFile(pipeline.parent / "keys.db").listed() == []


def test_a_name_that_looks_like_another_is_refused(pipeline: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made(pipeline, capsys)
    for name in ("checkout", "Checkout", "check0ut"):
        assert run("keys", "create", "--pipeline", pipeline, "--name", name, "--scope", "admin") == 2
        assert "rotate" in capsys.readouterr().err


def test_changes_of_keys_stand_in_the_audit_log(pipeline: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made(pipeline, capsys)
    run("keys", "rotate", "--pipeline", pipeline, "--name", "checkout")
    run("keys", "rotate", "--pipeline", pipeline, "--name", "nobody")
    run("keys", "revoke", "--pipeline", pipeline, "--name", "checkout")
    capsys.readouterr()
    log = pipeline.parent / "out" / "serve" / "audit" / "audit.jsonl"
    events = [orjson.loads(line) for line in log.read_bytes().splitlines()]
    assert [(each.get("route"), each["outcome"]) for each in events] == [
        ("serve keys create", "begun"),
        (None, "done"),
        ("serve keys rotate", "begun"),
        (None, "done"),
        ("serve keys rotate", "begun"),
        (None, "failed"),
        ("serve keys revoke", "begun"),
        (None, "done"),
    ]
    assert run("audit", "verify", "--pipeline", pipeline, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["events"], found["problems"], found["open_writes"]) == (8, [], [])
    log.write_bytes(log.read_bytes().replace(b"nobody", b"nobodi"))
    assert run("audit", "verify", "--pipeline", pipeline) == 1
    assert "line 5" in capsys.readouterr().err


def test_no_audit_log_is_no_problem_unless_one_was_there(pipeline: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("audit", "verify", "--pipeline", pipeline) == 0
    assert "nothing was written yet" in capsys.readouterr().err
    assert run("audit", "verify", "--pipeline", pipeline, "--head", "ab" * 32) == 1


def test_serve_takes_a_pipeline_or_a_command(
    pipeline: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[tuple[Path, bool]] = []

    def start(pipeline: Annotated[Path, typer.Argument()], dry: Annotated[bool, typer.Option("--dry")] = False) -> None:
        started.append((pipeline, dry))

    def register(app: typer.Typer) -> None:
        app.command(name="start")(start)

    monkeypatch.setitem(sys.modules, "crossline.cli.serve.start", SimpleNamespace(register=register))
    assert run(pipeline) == 0
    assert run("--dry", pipeline) == 0
    assert run("start", pipeline) == 0
    assert started == [(pipeline, False), (pipeline, True), (pipeline, False)]
    assert run("keys", "list", "--pipeline", pipeline) == 0
    assert run("--help") == 0
    page = capsys.readouterr().out
    assert all(name in page for name in ("start", "keys", "audit"))
    assert run("keys", "--help") == 0
    page = capsys.readouterr().out
    assert all(name in page for name in ("create", "list", "rotate", "revoke"))


def test_a_file_that_others_read_is_refused(pipeline: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made(pipeline, capsys)
    (pipeline.parent / "keys.db").chmod(0o640)
    assert run("keys", "list", "--pipeline", pipeline) == 1
    assert "chmod 600" in capsys.readouterr().err


def test_a_pipeline_without_the_section_is_reported(pipeline: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pipeline.write_text(PIPELINE.replace("serve:", "# serve:"))
    assert run("keys", "list", "--pipeline", pipeline) == 2
    assert "no section serve" in capsys.readouterr().err
