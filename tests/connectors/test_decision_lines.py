"""Decisions as lines: a sink that reads them has of them what it has of the same decisions as values."""

from __future__ import annotations

import json

import pytest
from dev.services.postgres import LocalPostgres
from dev.services.redis import LocalRedis

from crossline.io.sinks.base import Delivery

from .decision_lines import as_lines
from .postgres_kit import opened, place_in, rows
from .test_decisions import decision
from .test_redis import Seen
from .test_redis import decision as decided


@pytest.mark.parametrize("name", ["t1", "a:b", "ü", "%", "\u2028"])
def test_lines_and_values_have_the_same_keys_and_the_newest_stays(redis_server: LocalRedis, name: str) -> None:
    of_values, of_lines = Seen(redis_server), Seen(redis_server)
    steps = [
        [decided(name, "block"), decided("t2", "allow")],
        [decided(name, "review")],
        [decided(name, "allow", revision=1)],
        [decided(name, "step_up")],
        [decided(name, "review", version=2)],
        [decided(name, "block", revision=3)],
    ]
    for step, newest in zip(steps, ("block", "review", "allow", "allow", "review", "review"), strict=True):
        of_values.write(decisions=tuple(step))
        revised = [number for number, each in enumerate(step) if each["revision"]]
        of_lines.sink.deliver(Delivery("p", 0, decisions=as_lines(step, revised)))
        kept = [
            {
                key.removeprefix(each.prefix): json.loads(each.client.get(key))
                for key in each.client.keys(f"{each.prefix}:decision:*")
            }
            for each in (of_values, of_lines)
        ]
        assert kept[0] == kept[1]
        assert {each["record_id"]: each["decision"] for each in kept[1].values()} == {name: newest, "t2": "allow"}
    for each in (of_values, of_lines):
        each.sink.close()
        each.client.close()


def test_decisions_as_lines_are_stored_as_their_values_are(
    postgres_server: LocalPostgres, postgres_schema: str
) -> None:
    names = ["t1", "\0", "a\0b", "\\.", "\\N", '"', "\t", "ü", "\uf8fe", "\U0001f600", "x" * 300, "ü" * 600, "%s"]
    times = [
        "2026-01-01T00:00:07.120Z",
        "0001-01-01T00:00:00.000Z",
        "9999-12-31T23:59:59.999Z",
        "1969-12-31T23:59:59.999Z",
    ]
    given = [
        decision(name, decision_id=f"d{n}{name}", reasons=[{"message": name}], event_time=times[n % 4], score=n % 3)
        for n, name in enumerate(names)
    ]
    given += [
        decision("r", decision_id="r", revision=1, revises="d0", because=name, decided_at=None) for name in names[:1]
    ]
    given += [decision("t1", decision_id="d0t1", decision="block")]  # a second one under the id of the first
    found = []
    for suffix, wrapped in (("v", given), ("l", as_lines(given, [13])), ("m", as_lines(given))):
        place = place_in(postgres_server, f"{postgres_schema}_{suffix}")
        with opened(place) as sink:
            for cut in (wrapped[:3], wrapped) if suffix == "v" else (wrapped, wrapped):
                sink.deliver(Delivery("p", 0, decisions=cut))
        columns = "decision_id, kind, decision, score, policy_version, revision, revises, because, stream, record_id"
        query = (
            f"SELECT {columns}, event_time::text, decided_at::text, pipeline, body::text FROM decisions ORDER BY seq"  # noqa: S608 - of ours
        )
        keys = rows(place, "SELECT identity, month FROM delivered ORDER BY 1")
        found.append((rows(place, query), keys))
        with place.connect() as owner:
            owner.execute(f"DROP SCHEMA {place.schema} CASCADE".encode())
    assert found[0][0] == found[1][0] == found[2][0]
    assert len(found[0][0]) == len(names) + 1
    assert {str(month) for _, month in found[0][1]} >= {"0001-01-01", "9999-12-01", "1969-12-01", "2026-01-01"}
