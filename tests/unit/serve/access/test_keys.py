"""Keys in their file, and as a running server knows them."""

from __future__ import annotations

import hashlib
import multiprocessing
import sqlite3
import stat
from pathlib import Path

import pytest

from crossline.basics.errors import PermanentError, StateError, UsageError
from crossline.serve.access import keyring
from crossline.serve.access.keyfile import KEY, KeyFile, new_key
from crossline.serve.access.keyring import KeyRing, KeysUnknownError

NOW = 1_767_225_600_000
HOUR = 3_600_000


class Clock:
    def __init__(self) -> None:
        self.s = 100.0

    def __call__(self) -> float:
        return self.s


@pytest.fixture
def file(tmp_path: Path) -> KeyFile:
    return KeyFile(tmp_path / "new" / "keys.db")


def make(file: KeyFile, name: str = "shop", expires_ms: int | None = None) -> str:
    return file.create(name, ["decide:payments"], now_ms=NOW, expires_ms=expires_ms)[0]


def test_keys_have_256_bits() -> None:
    keys = {new_key() for _ in range(1_000)}
    assert len(keys) == 1_000
    assert all(KEY.fullmatch(key) for key in keys)
    assert 62**43 > 2**256
    assert len({key[-1] for key in keys}) > 10  # the last letter has what is left of the bits


def test_the_file_is_its_owners_alone(file: KeyFile) -> None:
    make(file)
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.path.parent.stat().st_mode) == 0o700
    for mode in (0o640, 0o604, 0o620, 0o602):
        file.path.chmod(mode)
        with pytest.raises(StateError, match="0600"):
            file.listed()


def test_the_journal_is_as_private_as_the_file(file: KeyFile) -> None:
    make(file)
    with sqlite3.connect(file.path) as db:
        db.execute("UPDATE keys SET used_ms = 1")
        journals = [path for path in file.path.parent.iterdir() if path != file.path]
        assert journals
        assert {stat.S_IMODE(path.stat().st_mode) for path in journals} == {0o600}
    db.close()


def test_what_is_kept_is_the_hash(file: KeyFile) -> None:
    key = make(file)
    (kept,) = file.listed()
    assert kept.digest == hashlib.sha256(key.encode()).digest()
    assert kept.key_id == hashlib.sha256(key.encode()).hexdigest()[:12]


def test_a_symlink_is_not_followed_to_make_the_file(file: KeyFile, tmp_path: Path) -> None:
    file.path.parent.mkdir()
    file.path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises((OSError, PermanentError)):
        make(file)
    assert not (tmp_path / "elsewhere").exists()


def test_rotation_leaves_no_gap_and_shortens_only(file: KeyFile) -> None:
    first = make(file, expires_ms=NOW + HOUR)
    second, _, old = file.rotate("shop", now_ms=NOW, grace_ms=24 * HOUR, expires_ms=None)
    assert [each.expires_ms for each in old] == [NOW + HOUR]  # its own end comes before that of the grace
    third, made, old = file.rotate("shop", now_ms=NOW + 1, grace_ms=60_000, expires_ms=None)
    assert {each.expires_ms for each in old} == {NOW + 60_001}
    assert made.scopes == ("decide:payments",)
    ring = KeyRing(file.path)
    for at_ms, good in ((NOW + 60_000, [True, True, True]), (NOW + 60_001, [False, False, True])):
        assert [ring.find(key.encode(), at_ms) is not None for key in (first, second, third)] == good
    ring.close()


def test_a_revoked_key_is_not_rotated(file: KeyFile) -> None:
    make(file)
    file.revoke("shop", None, now_ms=NOW)
    with pytest.raises(PermanentError, match="no good key of shop"):
        file.rotate("shop", now_ms=NOW, grace_ms=HOUR, expires_ms=None)
    with pytest.raises(PermanentError, match="did you mean shop"):
        file.revoke("shpo", None, now_ms=NOW)


def test_names_are_those_of_principals(file: KeyFile) -> None:
    for name in ("", " shop", "shop\n", "sh\u200bop", "a" * 201):
        with pytest.raises(UsageError, match="--name"):
            make(file, name)


def test_a_running_server_sees_a_change_within_a_quarter_of_a_second(file: KeyFile) -> None:
    key, clock = make(file), Clock()
    ring = KeyRing(file.path, clock)
    found = ring.find(key.encode(), NOW)
    assert found is not None
    assert (found.name, found.scopes, found.kind) == ("shop", frozenset({"decide:payments"}), "key")
    file.revoke("shop", None, now_ms=NOW)
    clock.s += keyring.CHECK_S - 0.01
    assert ring.find(key.encode(), NOW) is found  # the file was not read yet
    clock.s += 0.02
    assert ring.find(key.encode(), NOW) is None
    new = make(file)
    clock.s += keyring.CHECK_S
    assert ring.find(new.encode(), NOW) is not None
    ring.close()


def test_a_file_that_is_put_in_its_place_or_taken_away_counts(file: KeyFile, tmp_path: Path) -> None:
    key, clock = make(file), Clock()
    ring = KeyRing(file.path, clock)
    assert ring.find(key.encode(), NOW) is not None
    other = KeyFile(tmp_path / "other.db")
    theirs = make(other)
    other.path.replace(file.path)
    clock.s += 1
    assert ring.find(key.encode(), NOW) is None
    assert ring.find(theirs.encode(), NOW) is not None
    file.path.unlink()
    clock.s += 1
    assert ring.find(theirs.encode(), NOW) is None
    clock.s += 100
    assert ring.find(theirs.encode(), NOW) is None  # no file has no keys; that is known, and no fault
    mine = make(file)
    clock.s += 1
    assert ring.find(mine.encode(), NOW) is not None
    ring.close()


def test_a_file_that_cannot_be_read_is_trusted_for_half_a_minute(file: KeyFile) -> None:
    key, clock = make(file), Clock()
    ring = KeyRing(file.path, clock)
    assert ring.find(key.encode(), NOW) is not None
    db = sqlite3.connect(file.path, isolation_level=None)
    db.execute("BEGIN EXCLUSIVE")
    clock.s += keyring.KNOWN_S - 1
    assert ring.find(key.encode(), NOW) is not None
    clock.s += 2
    with pytest.raises(KeysUnknownError, match="locked"):
        ring.find(key.encode(), NOW)
    db.execute("ROLLBACK")
    db.close()
    clock.s += 1
    assert ring.find(key.encode(), NOW) is not None
    ring.close()


def test_what_is_no_file_of_keys_is_reported(file: KeyFile) -> None:
    file.path.parent.mkdir()
    file.path.touch(0o600)
    file.path.write_bytes(b"no database" * 100)
    with pytest.raises(StateError, match="no file of keys"):
        file.listed()
    ring = KeyRing(file.path)
    with pytest.raises(KeysUnknownError):
        ring.find(b"clk_", NOW)
    file.path.unlink()
    make(file)
    with sqlite3.connect(file.path) as db:
        db.execute("PRAGMA user_version = 9")
    db.close()
    with pytest.raises(StateError, match="version 9"):
        file.listed()


def test_last_use_is_noted_to_the_hour_and_once(file: KeyFile) -> None:
    key = make(file)
    ring = KeyRing(file.path)
    assert ring.find(key.encode(), NOW + HOUR + 5) is not None
    ring.note_used()
    assert [each.used_ms for each in file.listed()] == [NOW + HOUR]
    changed = file.path.stat().st_mtime_ns
    fresh = KeyRing(file.path)
    for minute in range(59):
        fresh.find(key.encode(), NOW + HOUR + minute * 60_000)
        fresh.note_used()
    assert file.path.stat().st_mtime_ns == changed
    ring.close()
    fresh.close()


def _make_many(path: str, first: int) -> None:
    for number in range(first, first + 10):
        KeyFile(Path(path)).create(f"shop-{number}", ["admin"], now_ms=NOW, expires_ms=None)


def test_several_may_make_keys_at_once(file: KeyFile) -> None:
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_make_many, args=(str(file.path), first)) for first in (2, 14)]
    for each in processes:
        each.start()
    for each in processes:
        each.join()
    assert [each.exitcode for each in processes] == [0, 0]
    assert len({each.name for each in file.listed()}) == 20
