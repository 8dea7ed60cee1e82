"""The token store in a real PostgreSQL: processes agree, and a destroyed key is gone from the table."""

from __future__ import annotations

import threading

import pytest
from dev.services.postgres import LocalPostgres

from crossline.basics.errors import StateError
from crossline.io.tokens.master_key import MasterKey
from crossline.io.tokens.postgres_store import PostgresTokenStore

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
