"""The token store in a real PostgreSQL: processes agree, and a destroyed key is gone from the table."""

from __future__ import annotations

import threading

import pytest
from dev.services.postgres import LocalPostgres

from crossline.basics.errors import StateError, UsageError
from crossline.io.tokens.master_key import MasterKey
from crossline.io.tokens.postgres_store import PostgresTokenStore
from crossline.io.tokens.rotation import end, rotate

from .postgres_kit import place_in, rows

SECRET = b"0123456789abcdef" * 4
PEOPLE = [f"person {number}" for number in range(500)]


def test_processes_agree_and_a_destroyed_key_is_gone(postgres_server: LocalPostgres, postgres_schema: str) -> None:
    place = place_in(postgres_server, postgres_schema)
    one, other = (PostgresTokenStore(place, MasterKey(SECRET)) for _ in range(2))
    made: dict[int, list[bytes]] = {}

    def make(number: int, store: PostgresTokenStore, people: list[str]) -> None:
        made[number] = store.keys("account_id", people)

    threads = [
        threading.Thread(target=make, args=(0, one, PEOPLE)),
        threading.Thread(target=make, args=(1, other, PEOPLE[::-1])),
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert made[0] == made[1][::-1]
    assert len({*made[0]}) == len(PEOPLE)
    assert one.generation() == 0
    assert other.destroy("account_id", PEOPLE[0], 7)
    assert not other.destroy("account_id", PEOPLE[0], 8)
    assert not one.has("account_id", PEOPLE[0])
    assert one.generation() == other.generation() == 2
    assert len(rows(place, "SELECT * FROM token_keys")) == len(PEOPLE) - 1
    again = one.keys("account_id", PEOPLE)
    assert again[0] != made[0][0]
    assert again[1:] == made[0][1:]
    assert other.keys("account_id", PEOPLE[:1]) == again[:1]
    one.close()
    other.close()
    with pytest.raises(StateError, match="found keys under another master key"):
        PostgresTokenStore(place, MasterKey(b"x" * 64)).keys("account_id", PEOPLE[:1])


def test_a_connection_that_ends_is_opened_again(postgres_server: LocalPostgres, postgres_schema: str) -> None:
    place = place_in(postgres_server, postgres_schema)
    store = PostgresTokenStore(place, MasterKey(SECRET))
    keys = store.keys("a", ["x"])
    with postgres_server.connect() as owner:
        owner.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'crossline'")
        owner.commit()
    with pytest.raises(Exception, match="cannot be read now"):
        store.generation()
    assert store.generation() == 0
    assert store.keys("a", ["x"]) == keys
    store.close()
    assert store.keys("a", ["x"]) == keys
    store.close()


def test_the_master_key_is_rotated_beside_a_run(postgres_server: LocalPostgres, postgres_schema: str) -> None:
    place = place_in(postgres_server, postgres_schema)
    old, new = MasterKey(SECRET), MasterKey(b"n" * 64)
    running, asleep = (PostgresTokenStore(place, old) for _ in range(2))
    keys = running.keys("a", PEOPLE)
    asleep.generation()
    made: list[bytes] = []

    def meanwhile(step: str) -> None:
        if step == "begun":
            assert running.destroy("a", PEOPLE[0], 1)
        if step in {"begun", "wrapped"}:
            made.extend(running.keys("a", [f"meanwhile {len(made)}"]))

    done = rotate(PostgresTokenStore(place, old), new, meanwhile)
    assert (done.before, done.now, done.keys) == (old.name, new.name, len(PEOPLE) - 1)
    after = {bytes(person): bytes(wrapped) for person, wrapped in rows(place, "SELECT * FROM token_keys")}
    assert len(after) == len(PEOPLE) - 1 + len(made)
    assert all(new.unwrap(*each) for each in after.items())
    rotated = PostgresTokenStore(place, new)
    assert rotated.keys("a", PEOPLE[1:]) == running.keys("a", PEOPLE[1:]) == keys[1:]
    with pytest.raises(UsageError, match="which was rotated to"):
        end(PostgresTokenStore(place, old))
    assert end(PostgresTokenStore(place, new)).ended
    assert [name for name, _ in rows(place, "SELECT * FROM token_meta ORDER BY name")] == ["master", "naming"]
    for each in ("new", PEOPLE[1]):
        with pytest.raises(StateError, match="found keys under another master key"):
            asleep.keys("a", [each])
    assert rotated.keys("a", PEOPLE[1:]) == keys[1:]
    for store in (running, asleep, rotated):
        store.close()
