"""The store of keys: processes agree, keys are wrapped, and a destroyed one is gone."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from crossline.basics.errors import PermanentError, StateError, UsageError
from crossline.basics.streams.schema import StreamSpec, load_streams
from crossline.basics.streams.sensitive import TokenSettings
from crossline.ingest.tokens.token import token_of
from crossline.io.tokens.lookup import destroy_keys, key_as_tokens, list_tokens
from crossline.io.tokens.master_key import MasterKey, read_master_key
from crossline.io.tokens.opening import check_stores, close_stores, tokeniser_of
from crossline.io.tokens.sqlite_store import SqliteTokenStore

SECRET = b"0123456789abcdef" * 4
PEOPLE = [f"person {number}" for number in range(1_200)]


_opened: list[SqliteTokenStore] = []


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    while _opened:
        _opened.pop().close()
    close_stores()


def store(path: Path, secret: bytes = SECRET) -> SqliteTokenStore:
    _opened.append(SqliteTokenStore(path / "tokens.db", MasterKey(secret)))
    return _opened[-1]


def test_a_key_is_made_once(tmp_path: Path) -> None:
    one, other = store(tmp_path), store(tmp_path)
    keys = one.keys("account_id", PEOPLE)
    assert other.keys("account_id", PEOPLE[::-1]) == keys[::-1]
    assert len({*keys}) == len(PEOPLE)
    assert {len(each) for each in keys} == {32}
    assert one.keys("email", PEOPLE[:1]) != keys[:1]
    assert one.keys("account_id", ["a", "b", "a"])[0] == one.keys("account_id", ["a"])[0]
    assert one.keys("account_id", []) == []


def test_the_file_has_no_person_and_no_key(tmp_path: Path) -> None:
    (key,) = store(tmp_path).keys("account_id", ["bob@example.com"])
    data = b"".join(each.read_bytes() for each in tmp_path.iterdir())
    assert b"bob" not in data
    assert key not in data
    assert stat.S_IMODE((tmp_path / "tokens.db").stat().st_mode) == 0o600


def test_two_processes_make_the_same_keys(tmp_path: Path) -> None:
    program = """
import hashlib, sys
from pathlib import Path
from crossline.io.tokens.master_key import MasterKey
from crossline.io.tokens.sqlite_store import SqliteTokenStore
store = SqliteTokenStore(Path(sys.argv[1]), MasterKey(sys.argv[2].encode()))
keys = [key for start in range(0, 600, 20) for key in store.keys("a", [str(n) for n in range(start, start + 20)])]
print(hashlib.sha256(b"".join(keys)).hexdigest())
"""
    arguments = [sys.executable, "-c", program, str(tmp_path / "tokens.db"), SECRET.decode()]
    running = [subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    one, other = (each.communicate(timeout=60)[0] for each in running)
    assert one == other
    assert len(one.strip()) == 64


def test_a_fork_has_a_connection_of_its_own(tmp_path: Path) -> None:
    shared = store(tmp_path)
    before = shared.keys("a", ["x"])
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(write, b"".join(shared.keys("a", ["x", "y"])))
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        theirs = pipe.read()
    os.waitpid(pid, 0)
    assert theirs == b"".join(shared.keys("a", ["x", "y"]))
    assert before == shared.keys("a", ["x"])


def test_a_destroyed_key_is_gone(tmp_path: Path) -> None:
    mine, other = store(tmp_path), store(tmp_path)
    old = mine.keys("a", ["bob", "eve"])
    assert other.keys("a", ["bob", "eve"]) == old
    wrapped = _wrapped(tmp_path, mine.master.person_id("a", "bob"))
    token = token_of(old[0], "email", "bob@example.com")
    assert mine.generation() == other.generation() == 0
    assert mine.has("a", "bob")
    assert mine.destroy("a", "bob", 1_000)
    assert not mine.has("a", "bob")
    assert not mine.destroy("a", "bob", 1_001)  # again, as after a kill: nothing to do, and noted
    assert mine.generation() == other.generation() == 2
    for each in tmp_path.iterdir():
        assert wrapped not in each.read_bytes()
    again = other.keys("a", ["bob", "eve"])
    assert again[0] != old[0]
    assert again[1] == old[1]
    assert again == mine.keys("a", ["bob", "eve"])
    assert token_of(again[0], "email", "bob@example.com") != token


def test_another_master_key_is_refused(tmp_path: Path) -> None:
    store(tmp_path).keys("a", ["x"])
    with pytest.raises(StateError, match="found keys under another master key"):
        store(tmp_path, b"x" * 64).keys("a", ["x"])


def test_a_changed_key_is_refused(tmp_path: Path) -> None:
    mine = store(tmp_path)
    mine.keys("a", ["x", "y"])
    x, y = (mine.master.person_id("a", each) for each in "xy")
    with closing(sqlite3.connect(tmp_path / "tokens.db")) as db:
        db.execute("UPDATE keys SET wrapped = (SELECT wrapped FROM keys WHERE person = ?) WHERE person = ?", (y, x))
        db.commit()
    with pytest.raises(StateError, match="found a key of a person that was changed"):
        store(tmp_path).keys("a", ["x"])


def test_what_is_no_store_is_refused(tmp_path: Path) -> None:
    (tmp_path / "tokens.db").write_bytes(b"no database, but of some length" * 100)
    (tmp_path / "tokens.db").chmod(0o600)
    with pytest.raises(StateError, match="found what is no token store"):
        store(tmp_path).keys("a", ["x"])


def test_a_store_that_others_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "tokens.db").write_bytes(b"")
    (tmp_path / "tokens.db").chmod(0o644)
    with pytest.raises(StateError, match="expected 0600"):
        store(tmp_path).keys("a", ["x"])


def test_says_which_master_key_is_missing(tmp_path: Path) -> None:
    with pytest.raises(
        PermanentError, match=r"environment variable CROSSLINE_TOKEN_KEY is not set; expected the master"
    ):
        read_master_key(TokenSettings(), {})
    with pytest.raises(PermanentError, match=r"environment variable MINE: found 5 characters, expected .* at least 32"):
        read_master_key(TokenSettings(master_key_env="MINE"), {"MINE": "short"})
    with pytest.raises(PermanentError, match=r"key\.txt cannot be read: No such file"):
        read_master_key(TokenSettings(master_key_file=str(tmp_path / "key.txt")))
    (tmp_path / "key.txt").write_bytes(SECRET + b"\n")
    by_file = read_master_key(TokenSettings(master_key_file=str(tmp_path / "key.txt")))
    assert by_file.check == read_master_key(TokenSettings(), {"CROSSLINE_TOKEN_KEY": SECRET.decode()}).check


def _wrapped(folder: Path, person_id: bytes) -> bytes:
    with closing(sqlite3.connect(folder / "tokens.db")) as db:
        (found,) = db.execute("SELECT wrapped FROM keys WHERE person = ?", (person_id,)).fetchone()
        return bytes(found)


def spec_in(folder: Path) -> StreamSpec:
    text = """
schema_version: 1
streams:
  s:
    id: id
    event_time: {field: at, unit: ms}
    fields: {id: string, at: integer, account_id: string, email: string, country: string}
    sensitive: {account_id: {}, email: {person: account_id}}
tokens: {path: keys/tokens.db}
"""
    return load_streams(text, str(folder / "stream.yaml"))["s"]


def test_what_is_asked_for_becomes_a_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CROSSLINE_TOKEN_KEY", SECRET.decode())
    spec = spec_in(tmp_path)
    streams = {"s": spec}
    tokens = tokeniser_of(spec)
    assert tokens is not None
    assert tokens is tokeniser_of(spec)
    key = {"account_id": "a1", "country": "NO"}
    assert key_as_tokens(streams, key, make=False) == key  # nobody of that name was ever seen
    made = key_as_tokens(streams, key, make=True)
    assert made == {"account_id": tokens.value("account_id", "a1"), "country": "NO"}
    assert key_as_tokens(streams, key, make=False) == made
    assert key_as_tokens(streams, made, make=False) == made
    assert key_as_tokens(streams, {"email": "a@x"}, make=True) == {"email": "a@x"}
    assert (tmp_path / "keys" / "tokens.db").exists()


def test_a_person_is_destroyed_by_value(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CROSSLINE_TOKEN_KEY", SECRET.decode())
    spec = spec_in(tmp_path)
    tokens = tokeniser_of(spec)
    assert tokens is not None
    account, email = tokens.value("account_id", "a1"), tokens.value("email", "a@x", "a1")
    other = tokens.value("email", "a@x", "a2")
    assert destroy_keys({"s": spec}, "account_id", "a1", 1)
    assert not destroy_keys({"s": spec}, "account_id", "a1", 2)
    assert tokens.value("account_id", "a1") != account
    assert tokens.value("email", "a@x", "a1") != email
    assert tokens.value("email", "a@x", "a2") == other
    with pytest.raises(UsageError, match="found a token; expected the value itself"):
        destroy_keys({"s": spec}, "account_id", account, 3)
    with pytest.raises(UsageError, match="found field email; expected one that names a person: account_id"):
        destroy_keys({"s": spec}, "email", "a@x", 3)


def test_a_file_is_for_one_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CROSSLINE_TOKEN_KEY", SECRET.decode())
    check_stores({"s": spec_in(tmp_path)})
    with pytest.raises(UsageError, match="executors on other machines"):
        check_stores({"s": spec_in(tmp_path)}, one_machine=False)


def test_lists_of_sensitive_values_have_tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CROSSLINE_TOKEN_KEY", SECRET.decode())
    spec = spec_in(tmp_path)
    assert spec.tokens is not None
    listed = spec.model_copy(update={"tokens": spec.tokens.model_copy(update={"lists": {"watched": "account_id"}})})
    tokens = tokeniser_of(spec)
    assert tokens is not None
    assert list_tokens({"s": spec}) == {}
    assert list_tokens({"s": listed})["watched"](["a1", "a2"]) == tokens.values("account_id", ["a1", "a2"])
