"""Decisions in Redis: many by one command or by a script, the same is there."""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
import redis
from dev.services.redis import LocalRedis

from crossline.basics.errors import PermanentError
from crossline.io.redis import decision_writes
from crossline.io.redis.decision_writes import DecisionWrites
from crossline.io.redis.sink import RedisSink
from crossline.io.sinks.base import Delivery
from crossline.settings.redis import RedisSettings

WITHOUT = "crossline_without_the_command"
WORD = "a-word"


@pytest.fixture(params=["known", "unknown", "forbidden", "refused"])
def client(request: pytest.FixtureRequest, redis_server: LocalRedis, monkeypatch: Any) -> Iterator[Any]:
    """Of a server that knows the command, of others that do not or take it otherwise, of a user who may not give it."""
    if request.param == "unknown":
        monkeypatch.setattr(decision_writes, "SET_MANY", "MSETNOTHING")
    if request.param == "refused":
        monkeypatch.setattr(decision_writes, "SET_MANY", "GETEX")  # which these arguments are an error to
    user: dict[str, Any] = {}
    if request.param == "forbidden":
        with redis_server.client() as owner:
            owner.execute_command("ACL", "SETUSER", WITHOUT, "on", f">{WORD}", "~*", "+@all", "-msetex")
        user = {"username": WITHOUT, "password": WORD}
    with closing[Any](redis.Redis(redis_server.host, redis_server.port, **user)) as found:
        yield found


def calls(server: LocalRedis, command: str) -> int:
    with server.client() as client:
        stats: Any = client.info("commandstats")
        return int(stats.get(f"cmdstat_{command}", {"calls": 0})["calls"])


def text(version: int, revision: int, step: int) -> bytes:
    return json.dumps({"policy_version": version, "revision": revision, "step": step}).encode()


def test_what_is_there_is_what_one_after_the_other_leaves(client: Any, monkeypatch: Any) -> None:
    """Deliveries drawn with new, known and doubled records, in pieces of three and groups of a few."""
    monkeypatch.setattr(decision_writes, "SET_EACH", 3)
    monkeypatch.setattr(decision_writes, "SCRIPT_EACH", 2)
    monkeypatch.setattr(decision_writes, "PIPELINE_BYTES", 400)
    drawn, start = random.Random(11), f"t:{uuid.uuid4()}:"
    writes, expected = DecisionWrites(1_000), dict[bytes, tuple[int, int, int]]()
    for step in range(60):
        records = drawn.choices(range(step * 4), k=drawn.randrange(20)) if step % 3 else range(step * 4, step * 4 + 10)
        keys = [f"{start}{each}".encode() for each in records]
        given = [(drawn.randrange(2), drawn.randrange(3), step) for _ in keys]
        writes.write(client, keys, [text(*each) for each in given])
        for key, each in zip(keys, given, strict=True):
            if expected.get(key, (0, 0, 0))[:2] <= each[:2]:
                expected[key] = each
        if keys:
            values = client.mget(keys)
            assert [tuple(json.loads(value).values()) for value in values] == [expected[key] for key in keys]
    values = client.mget(list(expected))
    assert [tuple(json.loads(value).values()) for value in values] == list(expected.values())
    assert all(0 < client.ttl(key) <= 1_000 for key in expected)


def test_new_ones_are_set_without_a_script(redis_server: LocalRedis) -> None:
    start = f"t:{uuid.uuid4()}:"
    keys = [f"{start}{n}".encode() for n in range(2 * decision_writes.SET_EACH + 1)]
    lines = [text(1, 0, n) for n in range(len(keys))]
    with closing[Any](redis.Redis(redis_server.host, redis_server.port)) as client:
        before = [calls(redis_server, each) for each in ("msetex", "evalsha")]
        DecisionWrites(60).write(client, keys, lines)
        assert [calls(redis_server, each) for each in ("msetex", "evalsha")] == [before[0] + 3, before[1]]
        assert client.mget(keys) == lines
        client.delete(*keys[: decision_writes.SET_EACH])  # as after a kill in the middle
        DecisionWrites(60).write(client, keys, lines)
        assert client.mget(keys) == lines


def test_the_command_is_asked_for_once_where_it_is_not_there(client: Any, redis_server: LocalRedis) -> None:
    writes, start = DecisionWrites(60), f"t:{uuid.uuid4()}:"
    writes.write(client, [f"{start}a".encode()], [text(1, 0, 0)])
    known = writes._sets_many
    with redis_server.client() as owner:
        refused = sum(each["count"] for each in owner.acl_log())
    writes.write(client, [f"{start}b".encode()], [text(1, 0, 0)])
    with redis_server.client() as owner:
        assert sum(each["count"] for each in owner.acl_log()) == refused
    assert known == writes._sets_many
    assert client.exists(f"{start}a", f"{start}b") == 2


def test_a_key_that_the_user_may_not_write_ends_the_pipeline(redis_server: LocalRedis, monkeypatch: Any) -> None:
    with redis_server.client() as owner:
        owner.execute_command("ACL", "SETUSER", "crossline_elsewhere", "on", f">{WORD}", "~other:*", "+@all")
    monkeypatch.setenv("CROSSLINE_TEST_REDIS", WORD)
    settings = RedisSettings(
        kind="redis", port=redis_server.port, username="crossline_elsewhere", password_env="CROSSLINE_TEST_REDIS"
    )
    sink = RedisSink(settings, "p")
    sink.open()
    decision = {"decision_id": "d", "stream": "s", "record_id": "r", "decision": "allow", "policy_version": 1}
    with pytest.raises(PermanentError, match="refuses the user"):
        sink.deliver(Delivery("p", 0, decisions=[{**decision, "revision": 0}]))
    sink.close()
