"""Erasure from PostgreSQL and Redis: rows of the person go, mentions become pseudonyms, others stay."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
import redis
from dev.services.postgres import LocalPostgres
from dev.services.redis import LocalRedis

from crossline.basics.deadletter import DeadLetter
from crossline.erasure.place import Place
from crossline.erasure.places.postgres_tables import PostgresPlace, store_row
from crossline.erasure.places.redis_keys import RedisPlace
from crossline.erasure.subject import Key, Subject
from crossline.io.postgres.sink import PostgresSink
from crossline.io.redis.sink import RedisSink
from crossline.io.sinks.base import Delivery, LateRecord
from crossline.settings.redis import RedisSettings

from .makers import alert
from .postgres_kit import place_in, rows
from .test_decisions import decision

PERSON = "acct,jo@example"
AT_MS = 1_767_225_600_000


def subject() -> Subject:
    return Subject((Key("account_id", PERSON),), b"0123456789abcdef")


def batch() -> Delivery:
    """An alert of the person at record ``own``, and one of others with it in its evidence."""
    mine = alert("own", key={"account_id": PERSON}, message=f"many by {PERSON}")
    mine["evidence"] = {"count": 2, "record_ids": ["first", "own"]}
    other = alert("other", evidence={"count": 10, "record_ids": ["own", "other"]}, value=2**80)
    letter = DeadLetter("payments", "bad", f"found {PERSON}", "f", 1, b'\xff"' + PERSON.encode() + b'"')
    late = LateRecord("payments", "own", AT_MS, AT_MS, 1, "f", 2, b"{}")
    decided = [decision("own"), decision("other")]
    return Delivery("p", 0, alerts=[mine, other], decisions=decided, dead=[letter], late=[late])


def check(place: Place, mine: Subject) -> tuple[int, int]:
    place.find(mine)
    found = place.find(mine)
    assert mine.ids["payments"] == {"own", "first"}
    done = place.erase(mine)
    assert (done.gone, done.changed) == (found.gone, found.changed)
    assert not place.find(mine).found
    return done.gone, done.changed


def test_tables_of_postgresql(postgres_server: LocalPostgres, postgres_schema: str) -> None:
    address = place_in(postgres_server, postgres_schema)
    sink = PostgresSink(address, "p")
    sink.open()
    sink.deliver(batch())
    mine = subject()
    assert check(PostgresPlace("store", address, store_row), mine) == (1 + 1 + 1 + 1, 1)
    ((ids, value),) = rows(address, "SELECT body -> 'evidence' ->> 'record_ids', body ->> 'value' FROM alerts")
    assert ids == f'["{mine.pseudonym("own")}","other"]'
    assert value == str(2**80), "figures stay as they are"
    assert [row[0] for row in rows(address, "SELECT record_id FROM decisions")] == ["other"]
    sink.deliver(Delivery("p", 1, alerts=[alert("later")]))
    sink.close()


@pytest.fixture
def client(redis_server: LocalRedis) -> Iterator[redis.Redis]:
    made = redis.Redis(port=redis_server.port)
    yield made
    made.close()


def test_keys_of_redis(redis_server: LocalRedis, client: Any) -> None:
    prefix = f"t:[{uuid.uuid4()}"  # a prefix is no pattern
    sink = RedisSink(RedisSettings(kind="redis", port=redis_server.port, prefix=prefix), "p")
    sink.open()
    sink.deliver(batch())
    mine = subject()
    gone, changed = check(RedisPlace(client, prefix), mine)
    assert gone >= 1 + 2 + 2 + 1, "alert, both entries of the stream, status and figure of the entity, decision"
    assert changed == 1
    names = {key.decode().removeprefix(prefix) for key in client.scan_iter(match="t:*") if prefix.encode() in key}
    assert not any("jo%40example" in name or name.endswith(":own") for name in names)
    assert {":alert:id-other", ":entity:account_id=a1", ":decision:payments:other"} <= names
    assert client.ttl(f"{prefix}:alert:id-other") > 0, "it goes when it would have gone"
    sink.close()
