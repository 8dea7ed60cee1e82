"""``Idempotency-Key``: what is sent again is answered as the first time, and done once."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from starlette.types import Message
from tests.unit.serve.http.kit import NOW_MS, Client, Someone, detail, example, served

from crossline.serve.http.idempotency import KEPT_MS, IdempotentWrites, ResponseStore, StoredResponse
from crossline.serve.http.problems import ProblemError

KEY = {"Idempotency-Key": "k-1"}


def titles(client: Client) -> list[str]:
    return [each["title"] for each in client.get("/v1/cases").json()["items"]]


def test_the_same_key_is_answered_the_same(reading: Client) -> None:
    first = reading.post("/v1/cases", json={"title": "one"}, headers=KEY)
    again = reading.post("/v1/cases", json={"title": "one"}, headers=KEY)
    assert (again.status_code, again.content) == (first.status_code, first.content)
    assert {name: again.headers[name] for name in ("etag", "location", "content-type")} == {
        name: first.headers[name] for name in ("etag", "location", "content-type")
    }
    assert again.headers["idempotency-replayed"] == "true"
    assert "idempotency-replayed" not in first.headers
    assert titles(reading) == ["one"]


def test_the_same_key_with_something_else_is_refused(reading: Client) -> None:
    reading.post("/v1/cases", json={"title": "one"}, headers=KEY)
    for answer in (
        reading.post("/v1/cases", json={"title": "two"}, headers=KEY),
        reading.post("/v1/cases/C-1/notes", json={"title": "one"}, headers=KEY),
        reading.post("/v1/cases", json={"title": "one"}, headers={**KEY, "If-Match": "*"}),
    ):
        assert "was sent with another request before" in detail(answer, 409)
    assert titles(reading) == ["one"]
    assert reading.post("/v1/cases", json={"title": "two"}, headers={**KEY, "x-who": "tom"}).status_code == 201
    assert titles(reading) == ["two", "one"], "the key of another user is another one"


def test_what_failed_is_answered_again_as_it_failed(reading: Client) -> None:
    for _ in range(2):
        assert "/title" in detail(reading.post("/v1/cases", json={}, headers=KEY), 422)


def test_a_fault_is_tried_again(tmp_path: Path) -> None:
    class Broken:
        def create_case(self, *_: object) -> Any:
            raise OSError("disk")

    deps: Any = {"cases": Broken()}
    with served(example(), tmp_path / "serve", **deps) as client:
        found = detail(client.post("/v1/cases", json={"title": "x"}, headers=KEY), 500)
        assert "disk" not in found
    with served(example(), tmp_path / "serve") as client:
        assert client.post("/v1/cases", json={"title": "x"}, headers=KEY).status_code == 201


def test_keys_outlive_the_server(tmp_path: Path) -> None:
    with served(example(), tmp_path / "serve") as client:
        first = client.post("/v1/cases", json={"title": "one"}, headers=KEY)
    with served(example(), tmp_path / "serve") as client:
        assert client.post("/v1/cases", json={"title": "one"}, headers=KEY).content == first.content
        assert titles(client) == ["one"], "it was done once"
    assert (tmp_path / "serve/idempotency.db").stat().st_mode & 0o077 == 0


def test_keys_that_are_none(reading: Client) -> None:
    for key in ("", "a b", "x" * 201):
        answer = reading.post("/v1/cases", json={"title": "x"}, headers={"Idempotency-Key": key})
        assert "1 to 200 visible ASCII characters" in detail(answer, 400)
    twice = [("Idempotency-Key", "a"), ("Idempotency-Key", "b")]
    assert detail(reading.request("POST", "/v1/cases", json={"title": "x"}, headers=twice), 400)
    assert titles(reading) == []


def test_of_two_at_once_one_is_done(tmp_path: Path) -> None:
    """The second comes while the first is in work, and gets that as its answer; later it gets the first's answer."""
    entered, go = asyncio.Event(), asyncio.Event()
    calls: list[str] = []

    async def slow(scope: Any, receive: Any, send: Any) -> None:
        calls.append(scope["path"])
        entered.set()
        await go.wait()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"x-a", b"1")]})
        await send({"type": "http.response.body", "body": b"done"})

    async def ask(app: IdempotentWrites) -> list[Message]:
        sent: list[Message] = []

        async def send(message: Message) -> None:
            sent.append(message)

        async def receive() -> Message:
            return {"type": "http.request", "body": b"{}", "more_body": False}

        headers = [(b"idempotency-key", b"k")]
        scope = {"type": "http", "method": "POST", "path": "/x", "query_string": b"", "headers": headers}
        await app({**scope, "principal": Someone()}, receive, send)
        return sent

    async def main() -> None:
        answers = ResponseStore(tmp_path / "a.db", lambda: NOW_MS)
        app = IdempotentWrites(slow, answers)
        first = asyncio.create_task(ask(app))
        await entered.wait()
        assert (await ask(app))[0]["status"] == 409
        go.set()
        assert [each.get("status") for each in await first] == [200, None]
        again = await ask(app)
        assert (again[0]["status"], again[1]["body"]) == (200, b"done")
        assert calls == ["/x"]
        answers.close()

    asyncio.run(main())


def test_a_write_without_an_answer_is_retried(tmp_path: Path) -> None:
    now = [NOW_MS]
    clocks = (lambda: now[0], lambda: now[0] / 1_000)
    first = ResponseStore(tmp_path / "a.db", *clocks)
    assert first.claim("mary", "k", "digest") is None
    second = ResponseStore(tmp_path / "a.db", *clocks)  # the process was killed meanwhile
    assert second.claim("mary", "k", "digest") is None
    first.keep("mary", "k", StoredResponse(200, [], b"late"))
    with pytest.raises(ProblemError, match="is still being answered"):
        second.claim("mary", "k", "digest")
    second.keep("mary", "k", StoredResponse(201, [(b"etag", b'"x"')], b"done"))
    assert second.claim("mary", "k", "digest") == StoredResponse(201, [(b"etag", b'"x"')], b"done")
    now[0] += KEPT_MS + 1
    assert second.claim("mary", "k", "other") is None, "a day later it is forgotten"
    first.close()
    second.close()
