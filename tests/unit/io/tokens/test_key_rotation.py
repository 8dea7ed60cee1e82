"""The master key is rotated: tokens stay, a kill between any two steps leaves a store that opens, others go on."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from crossline.basics.errors import StateError, UsageError
from crossline.cli.main import run_command
from crossline.io.tokens import rotation
from crossline.io.tokens.master_key import MasterKey
from crossline.io.tokens.opening import close_stores
from crossline.io.tokens.rotation import end, rotate
from crossline.io.tokens.sqlite_store import SqliteTokenStore

OLD, NEW, OTHER = (MasterKey(letter * 64) for letter in (b"o", b"n", b"x"))
PEOPLE = [f"person {number}" for number in range(25)]
LATER = ["later 1", "later 2"]


class Killed(BaseException):
    """The process ends here."""


@pytest.fixture(autouse=True)
def closed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(rotation, "_AT_ONCE", 10)
    yield
    while _opened:
        _opened.pop().close()
    close_stores()


_opened: list[SqliteTokenStore] = []


def store(folder: Path, master: MasterKey = OLD) -> SqliteTokenStore:
    _opened.append(SqliteTokenStore(folder / "tokens.db", master))
    return _opened[-1]


def wrapped_in(folder: Path) -> dict[bytes, bytes]:
    with closing(sqlite3.connect(folder / "tokens.db")) as db:
        return dict(db.execute("SELECT person, wrapped FROM keys"))


def test_every_key_is_wrapped_anew_and_stays_the_same(tmp_path: Path) -> None:
    keys = store(tmp_path).keys("a", PEOPLE)
    before = wrapped_in(tmp_path)
    done = rotate(store(tmp_path), NEW)
    assert (done.before, done.now, done.keys, done.ended) == (OLD.name, NEW.name, len(PEOPLE), False)
    after = wrapped_in(tmp_path)
    assert before.keys() == after.keys()
    assert not {*before.values()} & {*after.values()}
    for person, wrapped in after.items():
        assert OLD.unwrap(person, wrapped) is None
        assert NEW.unwrap(person, wrapped) in keys
    for master in (OLD, NEW):
        assert store(tmp_path, master).keys("a", PEOPLE) == keys
        assert store(tmp_path, master).has("a", PEOPLE[0])
    again = rotate(store(tmp_path), NEW)
    assert (again.keys, again.before) == (0, OLD.name)
    assert wrapped_in(tmp_path) == after


def test_at_the_end_the_key_before_opens_nothing(tmp_path: Path) -> None:
    keys = store(tmp_path).keys("a", PEOPLE)
    rotate(store(tmp_path), NEW)
    with pytest.raises(UsageError, match=f"found master key {OLD.name} in the settings, which was rotated to"):
        end(store(tmp_path))
    done = end(store(tmp_path, NEW))
    assert (done.before, done.now, done.ended) == (OLD.name, NEW.name, True)
    assert end(store(tmp_path, NEW)).before is None
    assert store(tmp_path, NEW).keys("a", PEOPLE) == keys
    found = f"found keys under another master key, {NEW.name}; expected those of the one that is given, {OLD.name}"
    with pytest.raises(StateError, match=found):
        store(tmp_path).keys("a", PEOPLE)
    with pytest.raises(StateError, match=found):
        rotate(store(tmp_path), OTHER)
    bytes_left = b"".join(each.read_bytes() for each in tmp_path.iterdir())
    assert OLD.root not in bytes_left
    assert NEW.root not in bytes_left
    rotate(store(tmp_path, NEW), OTHER)  # and once more
    end(store(tmp_path, OTHER))
    assert store(tmp_path, OTHER).keys("a", PEOPLE) == keys


def steps_of(call: Callable[[Callable[[str], None]], object]) -> list[str]:
    seen: list[str] = []
    call(seen.append)
    return seen


@pytest.mark.parametrize("at", range(6))
def test_a_kill_between_two_steps_leaves_a_store_that_opens(tmp_path: Path, at: int) -> None:
    keys = store(tmp_path).keys("a", PEOPLE)
    seen: list[str] = []

    def kill(step: str) -> None:
        seen.append(step)
        if len(seen) == at + 1:
            raise Killed

    if at < 5:
        with pytest.raises(Killed):
            rotate(store(tmp_path), NEW, kill)
    else:
        rotate(store(tmp_path), NEW)
        with pytest.raises(Killed):
            end(
                store(tmp_path, NEW),
                lambda step: kill(step) if step == "ended" else seen.extend("....."[: 5 - len(seen)]),
            )
    steps = ["begun", "wrapped", "wrapped", "wrapped", "forgotten"]
    assert at == 5 or seen == steps[: at + 1]
    for master in (OLD, NEW) if at < 5 else (NEW,):
        assert store(tmp_path, master).keys("a", PEOPLE) == keys
    later = store(tmp_path, NEW).keys("a", LATER)
    with pytest.raises((UsageError, StateError)):
        rotate(store(tmp_path), OTHER)
    given = NEW if at % 2 or at == 5 else OLD  # the settings may have either
    rotate(store(tmp_path, given), NEW)
    end(store(tmp_path, NEW))
    assert store(tmp_path, NEW).keys("a", [*PEOPLE, *LATER]) == [*keys, *later]
    with pytest.raises(StateError, match="another master key"):
        store(tmp_path).generation()


def test_a_process_goes_on_beside_a_rotation(tmp_path: Path) -> None:
    running, reading = store(tmp_path), store(tmp_path)
    keys = running.keys("a", PEOPLE)
    reading.generation()
    made: list[bytes] = []
    left: list[str] = []

    def meanwhile(_: str) -> None:
        name = f"meanwhile {len(made)}"
        made.extend(running.keys("a", [name]))  # with the key that it was started with
        left.append(name)
        assert store(tmp_path, NEW).keys("a", [name]) == made[-1:]

    rotate(store(tmp_path), NEW, meanwhile)
    assert len(made) == 5
    assert reading.keys("a", [*PEOPLE, *left]) == [*keys, *made]
    for person, wrapped in wrapped_in(tmp_path).items():
        assert NEW.unwrap(person, wrapped), "no key is left under the key before"
    end(store(tmp_path, NEW))
    assert reading.keys("a", ["somebody else"]) == store(tmp_path, NEW).keys("a", ["somebody else"])


def test_a_process_that_missed_the_rotation_is_stopped_and_makes_nothing(tmp_path: Path) -> None:
    asleep, reading = store(tmp_path), store(tmp_path)
    asleep.generation()
    reading.generation()
    store(tmp_path).keys("a", PEOPLE)
    rotate(store(tmp_path), NEW)
    end(store(tmp_path, NEW))
    before = wrapped_in(tmp_path)
    with pytest.raises(StateError, match=f"found keys under another master key, {NEW.name}"):
        asleep.keys("a", ["new"])
    with pytest.raises(StateError, match=f"found keys under another master key, {NEW.name}"):
        reading.keys("a", PEOPLE[:1])
    assert wrapped_in(tmp_path) == before


def test_a_key_that_is_destroyed_meanwhile_stays_away(tmp_path: Path) -> None:
    keys = store(tmp_path).keys("a", PEOPLE)
    running = store(tmp_path)

    def destroy(step: str) -> None:
        if step == "begun":
            assert running.destroy("a", PEOPLE[0], 1)
            assert running.destroy("a", PEOPLE[1], 2)
            assert running.keys("a", PEOPLE[1:2]) != keys[1:2]

    assert rotate(store(tmp_path), NEW, destroy).keys == len(PEOPLE) - 2
    ended = store(tmp_path, NEW)
    assert not ended.has("a", PEOPLE[0])
    assert ended.keys("a", PEOPLE[1:2]) == running.keys("a", PEOPLE[1:2])
    assert ended.keys("a", PEOPLE[2:]) == keys[2:]
    assert ended.generation() == 2


def test_two_rotations_at_once(tmp_path: Path) -> None:
    keys = store(tmp_path).keys("a", PEOPLE)

    def beside(step: str) -> None:
        if step == "begun":
            with pytest.raises(UsageError, match=f"found a rotation to master key {NEW.name} that was not ended"):
                rotate(store(tmp_path), OTHER)
        if step == "wrapped" and not done:
            done.append(rotate(store(tmp_path), NEW).keys)

    done: list[int] = []
    rotate(store(tmp_path), NEW, beside)
    assert done == [len(PEOPLE) - 10]
    assert store(tmp_path, NEW).keys("a", PEOPLE) == keys


def test_a_changed_key_stops_a_rotation(tmp_path: Path) -> None:
    store(tmp_path).keys("a", PEOPLE)
    with closing(sqlite3.connect(tmp_path / "tokens.db")) as db:
        db.execute("UPDATE keys SET wrapped = zeroblob(64) WHERE person = (SELECT max(person) FROM keys)")
        db.commit()
    with pytest.raises(StateError, match="found a key of a person that was changed"):
        rotate(store(tmp_path), NEW)


STREAM = """
schema_version: 1
streams:
  s:
    id: id
    event_time: {field: at, unit: ms}
    fields: {id: string, at: integer, account_id: string}
    sensitive: {account_id: {}}
"""


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    secrets = {name: f"{name}-" * 16 for name in ("one", "two")}
    (tmp_path / "s.yaml").write_text(STREAM)
    (tmp_path / "two.key").write_text(secrets["two"])
    monkeypatch.setenv("CROSSLINE_TOKEN_KEY", secrets["one"])
    stream = ["--stream", str(tmp_path / "s.yaml")]
    shown = []

    def run(*arguments: str) -> int:
        close_stores()
        code = run_command(["tokens", *arguments, *stream])
        captured = capsys.readouterr()
        shown.append(captured.out + captured.err)
        return code

    assert run("account_id", "a1") == 0
    token = shown[-1]
    assert run("rotate") == 1
    assert "environment variable CROSSLINE_TOKEN_KEY_NEW is not set" in shown[-1]
    assert run("rotate", "--end", "--new-key-file", "x") == 2
    assert run("rotate", "--new-key-env", "A", "--new-key-file", "x") == 2
    assert run("rotate", "--new-key-file", str(tmp_path / "two.key")) == 0
    names = [MasterKey(secrets[each].encode()).name for each in ("one", "two")]
    assert f"keys wrapped anew: 1; the store is of master key {names[1]}" in shown[-1]
    assert f"master key {names[0]} opens the store too" in shown[-1]
    assert run("make", "account_id", "a1") == 0
    assert shown[-1] == token
    assert run("rotate", "--end") == 2
    monkeypatch.setenv("CROSSLINE_TOKEN_KEY", secrets["two"])
    assert run("rotate", "--end", "--json") == 0
    assert f'"before":"{names[0]}","now":"{names[1]}","keys":0,"ended":true' in shown[-1]
    assert run("account_id", "a1") == 0
    assert shown[-1] == token
    assert not any(secret in each for secret in secrets.values() for each in shown)
