"""Reads, writes and live events against a real server; what the client loads; what it uses of the API."""

from __future__ import annotations

import asyncio
import itertools
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from crossline.client import (
    AsyncClient,
    BadAnswerError,
    Client,
    CredentialError,
    Event,
    PreconditionError,
    UnreachableError,
)
from crossline.client.events import Parser

from .fake import KEY, Connection, Fake, Hostile, hang, problem, says, serving, stream_of

TIMEOUT_S = 20.0
NOON = datetime(2026, 1, 1, 14, 0, 0, 250_999, timezone(timedelta(hours=2)))


@pytest.fixture(scope="module")
def server() -> Iterator[Fake]:
    with serving(Fake()) as fake:
        yield fake


@pytest.fixture
def fake(server: Fake) -> Fake:
    server.asked.clear()
    server.script.clear()
    return server


@pytest.fixture
def client(fake: Fake) -> Iterator[Client]:
    with Client(fake.url, key=KEY, timeout=TIMEOUT_S) as made:
        yield made


Ask = Callable[[Client], Any]
CALLS: list[tuple[Ask, str, str, dict[str, Any] | None]] = [
    (lambda c: c.decision("d/1"), "GET", "/v1/decisions/d/1", None),
    (lambda c: c.receipt("d1"), "GET", "/v1/decisions/d1/receipt", None),
    (lambda c: c.decisions("t1"), "GET", "/v1/decisions", None),
    (lambda c: c.alert("x1"), "GET", "/v1/alerts/x1", None),
    (lambda c: c.alert_records("x1"), "GET", "/v1/alerts/x1/records", None),
    (lambda c: c.entity("account_id", "ü/1"), "GET", "/v1/entities/account_id/ü/1", None),
    (
        lambda c: c.label("payments", "t1", is_fraud=True, known_at=NOON, reason="told by the bank"),
        "PUT",
        "/v1/labels/payments/t1",
        {"is_fraud": True, "known_at": "2026-01-01T12:00:00.250Z", "reason": "told by the bank"},
    ),
    (
        lambda c: c.hold({"account_id": "a1"}, action="block", until="2026-01-02T00:00:00Z", reason="looked at"),
        "POST",
        "/v1/holds",
        {"key": {"account_id": "a1"}, "action": "block", "until": "2026-01-02T00:00:00Z", "reason": "looked at"},
    ),
    (lambda c: c.holds({"account_id": "a1"}), "GET", "/v1/holds", None),
    (lambda c: c.release("h1", reason="a mistake"), "DELETE", "/v1/holds/h1", {"reason": "a mistake"}),
    (lambda c: c.list_put("bad", "c1", until=NOON), "PUT", "/v1/lists/bad/c1", {"until": "2026-01-01T12:00:00.250Z"}),
    (lambda c: c.list_delete("bad", "c1"), "DELETE", "/v1/lists/bad/c1", None),
    (lambda c: c.rules(), "GET", "/v1/rules", None),
    (lambda c: c.rule_versions("r1"), "GET", "/v1/rules/r1/versions", None),
    (lambda c: c.rules_check({"text": "x"}), "POST", "/v1/rules:check", {"text": "x"}),
    (lambda c: c.rules_test({"text": "x"}), "POST", "/v1/rules:test", {"text": "x"}),
    (lambda c: c.rules_backtest({"text": "x"}), "POST", "/v1/rules:backtest", {"text": "x"}),
    (lambda c: c.rules_publish({"text": "x"}), "POST", "/v1/rules:publish", {"text": "x"}),
    (lambda c: c.rules_approve({"rule_id": "x"}), "POST", "/v1/rules:approve", {"rule_id": "x"}),
    (lambda c: c.rule_set_status("r1", {"status": "off"}), "POST", "/v1/rules/r1:set-status", {"status": "off"}),
    (lambda c: c.rule_set_share("r1", {"share": "5%"}), "POST", "/v1/rules/r1:set-share", {"share": "5%"}),
    (lambda c: c.job("j1"), "GET", "/v1/jobs/j1", None),
    (lambda c: c.job_cancel("j1"), "DELETE", "/v1/jobs/j1", None),
]


@pytest.mark.parametrize(("ask", "method", "path", "body"), CALLS, ids=[each[2] for each in CALLS])
def test_a_call_goes_where_the_contract_says(
    client: Client, ask: Ask, method: str, path: str, body: dict[str, Any] | None
) -> None:
    assert ask(client) == {"method": method, "path": path, "body": body}


def test_a_write_is_sent_again_under_its_idempotency_key(client: Client, fake: Fake) -> None:
    fake.script += [lambda _: problem(503, "Unavailable", "starting")] * 2
    client.label("payments", "t1", is_fraud=False)
    client.label("payments", "t1", is_fraud=False)
    keys = [each.headers["idempotency-key"] for each in fake.asked]
    assert len(keys) == 4
    assert keys[0] == keys[1] == keys[2] != keys[3]


def test_a_write_may_require_an_unchanged_version(client: Client, fake: Fake) -> None:
    fake.script += [lambda _: problem(412, "Precondition Failed", "changed by b")]
    with pytest.raises(PreconditionError, match="changed by b"):
        client.list_put("bad", "c1", if_match='"7"')
    assert fake.asked[0].headers["if-match"] == '"7"'


def test_an_instant_without_a_zone_is_refused(client: Client) -> None:
    with pytest.raises(ValueError, match="no time zone"):
        client.list_put("bad", "c1", until=datetime(2026, 1, 1))  # noqa: DTZ001 - that is what is tried


def pages(request: Request) -> Response:
    """Five alerts, as many a page as asked."""
    start, size = int(request.query_params.get("cursor", 0)), int(request.query_params["limit"])
    items = [{"alert_id": f"x{number}"} for number in range(start, min(5, start + size))]
    return JSONResponse({"items": items, "next_cursor": str(start + size) if start + size < 5 else None})


def test_alerts_come_page_by_page_as_they_are_read(client: Client, fake: Fake) -> None:
    fake.script += [pages] * 3
    found = client.alerts(rule_id="r1", key={"account_id": "a1"}, since=NOON, page=2)
    assert next(found)["alert_id"] == "x0"
    assert len(fake.asked) == 1
    assert [each["alert_id"] for each in found] == ["x1", "x2", "x3", "x4"]
    asked = dict(fake.asked[2].query_params)
    assert asked == {
        "rule_id": "r1",
        "key.account_id": "a1",
        "from": "2026-01-01T12:00:00.250Z",
        "limit": "2",
        "cursor": "4",
    }


def test_alerts_of_the_async_client(fake: Fake) -> None:
    async def ask() -> list[Mapping[str, Any]]:
        async with AsyncClient(fake.url, key=KEY) as client:
            return [each async for each in client.alerts(page=3)]

    fake.script += [pages] * 2
    assert len(asyncio.run(ask())) == 5


@pytest.mark.parametrize("body", [[], {}, {"items": 3}])
def test_a_page_of_another_form_is_refused(client: Client, fake: Fake, body: Any) -> None:
    fake.script += [lambda _: JSONResponse(body)]
    with pytest.raises(BadAnswerError, match="page"):
        list(client.alerts())


def test_pages_that_never_end_are_refused(client: Client, fake: Fake) -> None:
    fake.script += [lambda _: JSONResponse({"items": [], "next_cursor": "1"})] * 3
    with pytest.raises(BadAnswerError, match="never end"):
        list(client.alerts())


def sse(number: int, kind: str = "alert") -> bytes:
    return f"id: {number}\nevent: {kind}\ndata: {json.dumps({'n': number})}\n\n".encode()


def test_events_go_on_after_the_last_that_was_whole(client: Client, fake: Fake) -> None:
    fake.script += [
        lambda _: stream_of(b": hello\n\n", sse(1), sse(2)[:9], sse(2)[9:], b"id: 3\nevent: alert\nda"),
        lambda _: problem(503, "Unavailable", "starting"),
        lambda _: stream_of(sse(3, "revision"), sse(4)),
    ]
    found = list(itertools.islice(client.events(kinds=["alert", "revision"], key={"account_id": "a1"}), 4))
    assert found == [
        Event("1", "alert", {"n": 1}),
        Event("2", "alert", {"n": 2}),
        Event("3", "revision", {"n": 3}),
        Event("4", "alert", {"n": 4}),
    ]
    assert [each.headers.get("last-event-id") for each in fake.asked[:3]] == [None, "2", "2"]
    assert dict(fake.asked[0].query_params) == {"kinds": "alert,revision", "key.account_id": "a1"}


def test_events_after_one_of_an_earlier_run(client: Client, fake: Fake) -> None:
    fake.script += [lambda _: stream_of(sse(8))]
    found = client.events(last_id="7")
    assert next(found).id == "8"
    assert fake.asked[0].headers["last-event-id"] == "7"


def test_a_stream_that_is_silent_is_opened_anew() -> None:
    def silent(connection: Connection) -> None:
        connection.request()
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
        connection.sock.sendall(head + sse(opened := server.opened))
        assert opened
        hang(connection)

    with Hostile(silent) as server, Client(server.url) as client:
        found = [each.data["n"] for each in itertools.islice(client.events(silence=0.1), 3)]
    assert found == [1, 2, 3]


def test_events_that_are_refused_raise(client: Client, fake: Fake) -> None:
    fake.script += [lambda _: problem(401, "Unauthorized", "expired")]
    with pytest.raises(CredentialError, match="expired"):
        next(client.events())


def test_events_of_something_else_raise(client: Client) -> None:
    with pytest.raises(BadAnswerError, match="expected an event stream"):
        next(client.events())


@pytest.mark.parametrize("play", [says("503 Unavailable"), lambda connection: connection.reset()])
def test_events_may_be_given_up(play: Callable[[Connection], None]) -> None:
    with Hostile(play) as server, Client(server.url) as client, pytest.raises(UnreachableError, match="no events for"):
        next(client.events(give_up_after=0.05))


def test_closing_ends_the_wait_for_an_event() -> None:
    with Hostile(hang) as server:
        client = Client(server.url)
        found = client.events()
        import threading  # noqa: PLC0415

        def close() -> None:
            while not server.opened:
                threading.Event().wait(0.001)
            client.close()

        thread = threading.Thread(target=close)
        thread.start()
        with pytest.raises(RuntimeError, match="closed"):
            next(found)
        thread.join()


EVENTS = b": c\r\nid: 1\r\nevent: alert\r\ndata: {\r\ndata: }\r\n\r\nid\ndata:3\n\nid: a\0b\ndata: 4\r\rretry: 5\n\n"


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1_000])
def test_events_are_read_alike_however_they_are_cut(size: int) -> None:
    parser = Parser()
    cuts = [EVENTS[at : at + size] for at in range(0, len(EVENTS), size)]
    found = [event for cut in cuts for event in parser.feed(cut)]
    assert found == [Event("1", "alert", {}), Event(None, "message", 3), Event(None, "message", 4)]


def test_an_event_without_an_end_is_refused() -> None:
    line = b"data: " + b"x" * (1 << 20) + b"\n"
    with pytest.raises(BadAnswerError, match="more than 16 MiB"):
        Parser().feed(line * 17)


def test_the_client_loads_nothing_else_of_crossline() -> None:
    code = "import sys, crossline.client; print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = done.stdout.split()
    ours = {name for name in loaded if name.startswith("crossline.")}
    assert {name.split(".")[1] for name in ours} == {"client"}
    heavy = {"fastapi", "numba", "numpy", "orjson", "pandas", "pyarrow", "pydantic", "pyspark", "starlette", "yaml"}
    assert heavy & {name.partition(".")[0] for name in loaded} == set()


def test_a_first_decision_loads_nothing_more() -> None:
    """What httpx loads at its first request would be of the time that a first decision has."""
    code = (
        "import sys; from crossline.client import Client; client = Client('http://127.0.0.1:1', timeout=0.01); "
        "before = set(sys.modules); client.decide('payments', {}); "
        "print(*sorted(set(sys.modules) - before)); client.close()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_noon_is_in_utc() -> None:
    assert NOON.astimezone(UTC).hour == 12
