"""The hot routes over a real socket: bad requests get a problem, a batch is answered in its order."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import orjson
import pytest
from starlette.applications import Starlette

from crossline.basics.errors import UsageError
from crossline.serve.app.hot import BATCH_MAX, HotRoutes
from crossline.serve.app.server import listening, serve
from crossline.settings.process.serve import ServeSettings
from crossline.settings.watch import Address

from ..decisions.fakes import Harness, payment  # noqa: TID252 - the fakes of the parts beside


def with_server(work: Callable[[httpx.AsyncClient, Harness], Awaitable[None]]) -> None:
    async def run() -> None:
        harness = Harness()
        app = HotRoutes(harness.decisions, "peek", 30_000, Starlette())
        bound, place = listening(Address("127.0.0.1", 0))
        stop, up = asyncio.Event(), asyncio.Event()
        serving = asyncio.create_task(serve(app, bound, ServeSettings(open=True), stop, up.set))
        await up.wait()
        try:
            async with httpx.AsyncClient(base_url=f"http://{place}", timeout=60) as client:
                await work(client, harness)
        finally:
            stop.set()
            await serving

    asyncio.run(run())


def test_a_record_is_answered() -> None:
    async def work(client: httpx.AsyncClient, _: Harness) -> None:
        first = await client.post("/v1/decisions/payments", content=payment("t1"))
        again = await client.post("/v1/decisions/payments?mode=exact&timeout_ms=30000", content=payment("t1"))
        assert (first.status_code, first.json()["record_id"]) == (200, "t1")
        assert (again.content, again.headers["idempotency-replayed"]) == (first.content, "true")
        assert "server" not in first.headers

    with_server(work)


@pytest.mark.parametrize(
    ("query", "pointer"),
    [
        ("mode=guess", "?mode"),
        ("mode=", "?mode"),
        ("timeout_ms=4", "?timeout_ms"),
        ("timeout_ms=30001", "?timeout_ms"),
        ("timeout_ms=-50", "?timeout_ms"),
        ("timeout_ms=5e1", "?timeout_ms"),
        ("timeout_ms=" + "9" * 5_000, "?timeout_ms"),
        ("timeout_ms=%D9%A5%D9%A0", "?timeout_ms"),
        ("dry_run=maybe", "?dry_run"),
        ("dryrun=true", "?dryrun"),
    ],
)
def test_a_bad_query_parameter_is_a_problem(query: str, pointer: str) -> None:
    async def work(client: httpx.AsyncClient, harness: Harness) -> None:
        reply = await client.post(f"/v1/decisions/payments?{query}", content=payment("t1"))
        assert (reply.status_code, reply.headers["content-type"]) == (400, "application/problem+json")
        assert reply.json()["errors"][0]["pointer"] == pointer
        assert reply.json()["type"] == "urn:crossline:problem:invalid"
        assert harness.log.there == []

    with_server(work)


def test_a_batch_is_answered_in_its_order_each_by_itself() -> None:
    async def work(client: httpx.AsyncClient, harness: Harness) -> None:
        records: list[Any] = [orjson.loads(payment(f"t{number}")) for number in range(BATCH_MAX - 2)]
        reply = await client.post("/v1/decisions/payments:batch", json={"records": [*records, {"id": "bad"}, 7]})
        body = reply.json()
        assert [each["record_id"] for each in body[:-2]] == [each["id"] for each in records]
        assert [each["status"] for each in body[-2:]] == [422, 422]
        assert harness.log.there == [each["id"] for each in records]

    with_server(work)


def test_a_record_of_a_batch_is_read_as_its_client_wrote_it() -> None:
    """A key that stands twice is refused by itself, as it is where the record is asked about alone."""
    twice = payment("t1").replace(b'"cents":100', b'"cents":1, "cents":90000')
    huge = payment("t2").replace(b'"cents":100', b'"cents":100,"x":1e400')
    spread = payment("t3").replace(b",", b" ,\n\t")
    deep = payment("t4").replace(b'"cents":100', b'"cents":100,"x":' + b"[" * 400 + b"]" * 400)

    async def work(client: httpx.AsyncClient, harness: Harness) -> None:
        body = b' {\n"records" : [ %s ]}\n' % b" ,\n".join([twice, huge, spread, deep])
        reply = await client.post("/v1/decisions/payments:batch", content=body)
        alone = [await client.post("/v1/decisions/payments", content=each) for each in (twice, huge, deep)]
        assert [each["detail"] for each in (reply.json()[at] for at in (0, 1, 3))] == [
            each.json()["detail"] for each in alone
        ]
        assert "key cents stands twice" in reply.json()[0]["detail"]
        assert (reply.json()[2]["record_id"], harness.log.there) == ("t3", ["t3"])

    with_server(work)


NO_BATCHES = [
    *(b"", b"[]", b"{}", b'{"records": {}}', b'{"records": []}', b'{"records": [1], "mode": "peek"}', b"\xff"),
    *(b'{"records": [1]} {}', b'{"records": [1], "records": [2]}', b'{"records": [1,]}', b'{"records": [1'),
    *(b"9" * 5_000, b'{"records": [' + b"[" * 60_000 + b"]" * 60_000 + b"]}"),
]


@pytest.mark.parametrize("body", NO_BATCHES, ids=lambda body: repr(body[:30]))
def test_a_batch_that_is_none_is_a_problem(body: bytes) -> None:
    async def work(client: httpx.AsyncClient, _: Harness) -> None:
        assert (await client.post("/v1/decisions/payments:batch", content=body)).status_code == 400

    with_server(work)


def test_a_batch_has_a_bound() -> None:
    async def work(client: httpx.AsyncClient, harness: Harness) -> None:
        reply = await client.post("/v1/decisions/payments:batch", json={"records": [{}] * (BATCH_MAX + 1)})
        assert (reply.status_code, harness.log.there) == (400, [])

    with_server(work)


def test_a_dry_run_of_many_is_one_call_of_the_replica() -> None:
    async def work(client: httpx.AsyncClient, harness: Harness) -> None:
        records = [orjson.loads(payment(f"t{number}")) for number in range(BATCH_MAX - 3)]
        wrong, other = {"id": 7}, orjson.loads(payment("t1", 5))
        whole = [*records, wrong, records[0], other]
        reply = await client.post("/v1/decisions/payments:batch?dry_run=true", json={"records": whole})
        body = reply.json()
        assert [each["record_id"] for each in body[: len(records)]] == [each["id"] for each in records]
        assert [each["receipt"] for each in body[: len(records)]] == [None] * len(records)
        assert [each.get("status") for each in body[-3:]] == [422, None, 409]
        assert body[-2] == body[0]
        assert (harness.judge.dry_calls, harness.log.there) == (1, [])

    with_server(work)


def test_a_place_that_is_taken_is_reported() -> None:
    bound, place = listening(Address("127.0.0.1", 0))
    try:
        with pytest.raises(UsageError, match=r"serve: cannot listen at 127\.0\.0\.1:\d+: Address already in use"):
            listening(place)
    finally:
        bound.close()
