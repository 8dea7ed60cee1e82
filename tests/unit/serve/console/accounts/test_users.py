"""Local users: their file, their passwords, the commands."""

from __future__ import annotations

import io
import json
import sqlite3
from pathlib import Path

import pytest
from argon2 import PasswordHasher

from crossline.basics.errors import CrosslineError, StateError, UsageError
from crossline.cli.main import run_command
from crossline.serve.console.accounts.passwords import Passwords, check_password
from crossline.serve.console.accounts.users import UserFile

from ..kit import FAST, NOW_MS, PASSWORD, PIPELINE, STREAM  # noqa: TID252 - the kit of the console's tests


def test_of_a_password_argon2id_alone_is_kept(tmp_path: Path) -> None:
    users = UserFile(tmp_path / "users.db")  # as production has it
    made = users.create("ines.vale", ["analyst"], PASSWORD, now_ms=NOW_MS)
    assert made.password.startswith("$argon2id$v=19$m=65536,t=3,p=4$")
    assert users.passwords.fits(made.password, PASSWORD)
    assert not users.passwords.fits(made.password, PASSWORD + " ")
    assert not users.passwords.fits(None, "of nobody")  # what nobody's is compared with opens nothing
    assert not users.passwords.fits("no hash", PASSWORD)
    assert not users.passwords.fits(made.password, PASSWORD + "x" * 2_000)
    assert (tmp_path / "users.db").stat().st_mode & 0o777 == 0o600


def test_what_is_typed_alike_is_one_password() -> None:
    kept = FAST.hash("caf\u00e9 am Markt 12")
    assert FAST.fits(kept, "cafe\u0301 am Markt 12")


def test_a_hash_of_other_parameters_is_made_anew(tmp_path: Path) -> None:
    users = UserFile(tmp_path / "users.db", FAST)
    users.create("ines.vale", ["analyst"], PASSWORD, now_ms=NOW_MS)
    later = UserFile(tmp_path / "users.db", Passwords(PasswordHasher(time_cost=2, memory_cost=8, parallelism=1)))
    found = later.find("ines.vale")
    assert found is not None
    assert later.passwords.is_old(found.password)
    later.renew_hash(found, PASSWORD)
    renewed = later.find("ines.vale")
    assert renewed is not None
    assert not later.passwords.is_old(renewed.password)
    assert (renewed.password_ms, later.passwords.fits(renewed.password, PASSWORD)) == (NOW_MS, True)


@pytest.mark.parametrize(
    ("password", "found"),
    [
        ("short", "5 characters"),
        ("aaaaaaaaaaaaaaaa", "fewer than 5 different"),
        ("INES.VALE and more", "the user's name"),
        ("\u20ac" * 342 + "abcdefg", "more than 1,024 bytes"),
    ],
)
def test_what_is_tried_first_is_no_password(password: str, found: str) -> None:
    with pytest.raises(UsageError, match=found):
        check_password(password, "ines.vale")


def test_names_are_principals_and_are_reported_apart(tmp_path: Path) -> None:
    users = UserFile(tmp_path / "users.db", FAST)
    users.create("ines.vale", ["analyst", "viewer"], PASSWORD, now_ms=NOW_MS)
    for name, found in (("lnes.vale", "looks like ines.vale"), ("a\nb", "character 2"), ("", "without a character")):
        with pytest.raises(UsageError, match=found):
            users.create(name, ["viewer"], PASSWORD, now_ms=NOW_MS)
    with pytest.raises(UsageError, match="did you mean approver"):
        users.create("tomas", ["aprover"], PASSWORD, now_ms=NOW_MS)
    with pytest.raises(UsageError, match="no role"):
        users.set_roles("ines.vale", [])
    with pytest.raises(CrosslineError, match=r"found no user ines\.wale"):
        users.disable("ines.wale", now_ms=NOW_MS)
    assert [(each.name, each.roles) for each in users.listed()] == [("ines.vale", ("viewer", "analyst"))]


def test_a_file_that_is_none_or_of_others_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "users.db"
    assert UserFile(path, FAST).listed() == []
    path.write_bytes(b"no database, but of some length, so that it is read" * 40)
    path.chmod(0o600)
    with pytest.raises(StateError, match="no database"):
        UserFile(path, FAST).listed()
    path.chmod(0o640)
    with pytest.raises(StateError, match="0640"):
        UserFile(path, FAST).listed()
    path.unlink()
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 9")
    path.chmod(0o600)
    with pytest.raises(StateError, match="version 9"):
        UserFile(path, FAST).listed()


def test_the_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "rules").mkdir()
    (tmp_path / "stream.yaml").write_text(STREAM)
    pipeline = tmp_path / "pipeline.yaml"
    pipeline.write_text(PIPELINE + "policy: policy.yaml\nserve: {path: out/serve}\n")
    (tmp_path / "policy.yaml").write_text("schema_version: 1\nversion: 1\n")
    secret = tmp_path / "password"
    secret.write_text(f"{PASSWORD}\nnot this\n")
    given = ["--pipeline", str(pipeline), "--name", "ines.vale"]
    assert run_command(["serve", "users", "create", *given, "--role", "analyst", "--password-file", str(secret)]) == 0
    assert UserFile(tmp_path / "users.db").passwords.fits(
        UserFile(tmp_path / "users.db").listed()[0].password, PASSWORD
    )
    monkeypatch.setattr("sys.stdin", io.StringIO("another long password\n"))
    assert run_command(["serve", "users", "password", *given, "--password-file", "-"]) == 0
    assert run_command(["serve", "users", "roles", *given, "--role", "operator"]) == 0
    assert run_command(["serve", "users", "disable", *given]) == 0
    capsys.readouterr()
    assert run_command(["serve", "users", "list", "--pipeline", str(pipeline), "--json"]) == 0
    caption = json.loads(capsys.readouterr().out)
    assert (caption["name"], caption["roles"], caption["disabled_ms"] > 0, "password" in caption) == (
        "ines.vale",
        ["operator"],
        True,
        False,
    )
    assert run_command(["serve", "users", "disable", *given, "--undo"]) == 0
    assert run_command(["serve", "users", "password", *given]) == 2  # no terminal to ask at
    assert "--password-file" in capsys.readouterr().err
    log = (tmp_path / "out/serve/audit/audit.jsonl").read_text()
    routes = [each["route"] for line in log.splitlines() if (each := json.loads(line))["outcome"] == "begun"]
    assert routes == [
        f"serve users {each}" for each in ("create", "password", "roles", "disable", "enable", "password")
    ]
    assert "argon2id" not in log
    assert PASSWORD not in log
