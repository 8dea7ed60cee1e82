"""``/v1/events``: the events, their order, where a client resumes, and how a slow client is cut off."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from starlette.types import Message
from tests.unit.serve.http.kit import Admitting, Client, FakeEvents, dependencies, detail, example, served

from crossline.serve.http.api import create_api
from crossline.serve.http.events.routes import Listeners
from crossline.serve.http.events.source import EventsGoneError, LiveEvent
from crossline.serve.http.events.stream import StreamLimits
from crossline.serve.http.problems import ProblemError


def event(number: int, kind: Any = "alert", **key: str) -> LiveEvent:
    return LiveEvent(f"e{number}", kind, orjson.dumps({"n": number}), key)


EVENTS = [
    event(1, account_id="a1"),
    event(2, "decision", account_id="a1"),
    event(3, account_id="a2"),
    event(4, "revision", account_id="a1", card="c1"),
]


def events_of(answer: Any) -> list[tuple[str | None, str, Any]]:
    """Id, kind and data of each event."""
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    found = []
    for block in answer.text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.split("\n") if line and not line.startswith(":"))
        if "event" in fields:
            found.append((fields.get("id"), fields["event"], orjson.loads(fields["data"])))
    return found


def listen(path: Path, query: str = "", headers: Mapping[str, str] | None = None, events: Any = None) -> Any:
    with served(example(), path / "serve", events=events or FakeEvents(EVENTS)) as client:
        return client.get(f"/v1/events{query}", headers=headers)


def ids(answer: Any) -> list[str | None]:
    return [each[0] for each in events_of(answer) if each[0] is not None]


def test_events_have_ids_and_are_reported_in_order(tmp_path: Path) -> None:
    assert events_of(listen(tmp_path)) == [
        ("e1", "alert", {"n": 1}),
        ("e2", "decision", {"n": 2}),
        ("e3", "alert", {"n": 3}),
        ("e4", "revision", {"n": 4}),
        (None, "end", {"why": "the server ends: listen again, with Last-Event-ID"}),
    ]


def test_filters(tmp_path: Path) -> None:
    assert ids(listen(tmp_path, "?kinds=alert,revision")) == ["e1", "e3", "e4"]
    assert ids(listen(tmp_path, "?key.account_id=a1")) == ["e1", "e2", "e4"]
    assert ids(listen(tmp_path, "?kinds=alert&key.account_id=a1")) == ["e1"]
    assert ids(listen(tmp_path, "?key.account_id=a1&key.card=c1")) == ["e4"]
    assert "did you mean alert?" in detail(listen(tmp_path, "?kinds=alerts"), 422)


def test_it_goes_on_where_it_broke_off(tmp_path: Path) -> None:
    assert ids(listen(tmp_path, headers={"Last-Event-ID": "e2"})) == ["e3", "e4"]
    assert ids(listen(tmp_path, headers={"Last-Event-ID": "e4"})) == []


def test_what_is_not_kept_any_more_is_a_gap(tmp_path: Path) -> None:
    first = events_of(listen(tmp_path, headers={"Last-Event-ID": "gone"}))
    assert first[0] == (None, "gap", {"after": "gone", "why": "gone is not kept"})
    assert [each[0] for each in first[1:5]] == ["e1", "e2", "e3", "e4"]


def test_what_an_event_holds_stays_on_its_line(tmp_path: Path) -> None:
    hostile = LiveEvent("e1\nevent: x", "alert", b'{"a": 1}\r\n\r\ndata: {}', {})
    (first, _) = events_of(listen(tmp_path, events=FakeEvents([replace(hostile, body=b'{"a":\n1}')])))
    assert first == ("e1 event: x", "alert", {"a": 1})


def test_a_source_that_breaks_ends_it(tmp_path: Path) -> None:
    class Broken(FakeEvents):
        async def follow(self, after: str | None) -> AsyncIterator[LiveEvent]:
            del after
            yield event(1)
            raise OSError("the checkpoint")

    found = events_of(listen(tmp_path, events=Broken()))
    assert [each[1] for each in found] == ["alert", "end"]
    assert "checkpoint" not in str(found)


def test_without_a_source_it_is_stated(tmp_path: Path) -> None:
    with served(example(), tmp_path / "serve", events=None) as client:
        assert "has no events" in detail(client.get("/v1/events"), 409)


class Live:
    """Events that a test lets happen."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[LiveEvent] = asyncio.Queue()
        self.followed = asyncio.Event()
        self.left = asyncio.Event()

    async def follow(self, after: str | None) -> AsyncIterator[LiveEvent]:
        if after == "gone":
            raise EventsGoneError
        self.followed.set()
        try:
            while True:
                yield await self.queue.get()
        finally:
            self.left.set()


class Listener:
    """A client at the wire: it takes what it is sent when the test says so."""

    def __init__(self) -> None:
        self.taken: list[bytes] = []
        self.takes = asyncio.Event()
        self.takes.set()
        self.gone = asyncio.Event()
        self.received = asyncio.Condition()

    async def send(self, message: Message) -> None:
        await self.takes.wait()
        async with self.received:
            self.taken.append(message.get("body", b""))
            self.received.notify_all()

    async def receive(self) -> Message:
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def wait_for(self, what: bytes) -> None:
        async with asyncio.timeout(30), self.received:
            await self.received.wait_for(lambda: any(what in each for each in self.taken))


def run(tmp_path: Path, bounds: StreamLimits, work: Any) -> None:
    async def main() -> None:
        source = Live()
        app = create_api(replace(dependencies(example(), tmp_path / "serve"), events=source), bounds=bounds)
        client = Listener()
        headers: Sequence[tuple[bytes, bytes]] = []
        scope = {"type": "http", "method": "GET", "path": "/v1/events", "query_string": b"", "headers": headers}
        scope |= {"root_path": "", "scheme": "http", "server": ("api", 80), "http_version": "1.1", "raw_path": b""}
        task = asyncio.create_task(Admitting(app)(scope, client.receive, client.send))
        async with asyncio.timeout(60):
            await source.followed.wait()
            await work(source, client, task)
            await task
        await app.state.close()

    asyncio.run(main())


def test_a_client_that_goes_is_left(tmp_path: Path) -> None:
    async def work(source: Live, client: Listener, task: Any) -> None:
        del task
        source.queue.put_nowait(event(1))
        await client.wait_for(b"id: e1")
        client.gone.set()
        await source.left.wait()

    run(tmp_path, StreamLimits(), work)


def test_a_client_without_events_gets_a_heartbeat(tmp_path: Path) -> None:
    async def work(source: Live, client: Listener, task: Any) -> None:
        del source, task
        await client.wait_for(b": heartbeat")
        client.gone.set()

    run(tmp_path, StreamLimits(heartbeat_s=0.01), work)


def test_a_slow_client_is_cut_off_and_reported(tmp_path: Path) -> None:
    async def work(source: Live, client: Listener, task: Any) -> None:
        client.takes.clear()
        for number in range(20):
            source.queue.put_nowait(event(number))
        await source.left.wait()
        client.takes.set()
        await task
        text = b"".join(client.taken)
        assert text.count(b"id: e") <= 7
        assert text.rstrip().endswith(b'"}')
        assert b"event: cut_off" in text.split(b"\n\n")[-2]

    run(tmp_path, StreamLimits(queue_max=5), work)


def test_a_client_that_takes_nothing_holds_nothing(tmp_path: Path) -> None:
    async def work(source: Live, client: Listener, task: Any) -> None:
        client.takes.clear()
        source.queue.put_nowait(event(1))
        await task
        await source.left.wait()

    run(tmp_path, StreamLimits(send_s=0.01), work)


def test_only_so_many_may_listen(reading: Client) -> None:
    listeners = Listeners(1)
    listeners.take()
    with pytest.raises(ProblemError, match="1 clients listen already"):
        listeners.take()
    listeners.leave()
    listeners.take()
    assert reading.get("/v1/events").status_code == 200
