"""Servers that hang, trickle, reset, refuse: a decision comes in any case, and nothing of it is left behind.

Each server goes on with what it does until the test is over; a client that waited for it would wait that long.
"""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from crossline.client import AsyncClient, Client, Decision, UnreachableError

from . import fake
from .fake import WAIT_S, Connection, Hostile

RECORD = {"transaction_id": "t1", "account_id": "a1", "amount_cents": 1200, "event_time": 1767225607120}
SHORT_S = 0.2

# anyio loses sight of a connection that is made just as the deadline cancels it (its connect_tcp then returns nothing);
# Python closes it when it collects garbage, and warns. That is awaited here, so that no other test has it.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")


@pytest.fixture(scope="module", autouse=True)
def _collected() -> Iterator[None]:
    yield
    gc.collect()


HOSTILE = [fake.hang, fake.hang_at_once, fake.trickle_head, fake.trickle_body]
BROKEN = [fake.reset_at_once, fake.reset_after_request, fake.cut, fake.says("503 Unavailable", b"{}")]
BROKEN += [fake.says("200 OK", b"{"), fake.says("200 OK", b"")]


def in_time(ask: Callable[[], Any]) -> Any:
    """What ``ask`` gives, in a thread: where it hangs, the test fails and does not."""
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(ask()), daemon=True)
    thread.start()
    thread.join(WAIT_S / 2)
    assert found, "it hangs"
    return found[0]


def sync(url: str, **more: Any) -> Decision:
    with Client(url, timeout=SHORT_S, **more) as client:
        return client.decide("payments", RECORD)


def not_sync(url: str, **more: Any) -> Decision:
    async def ask() -> Decision:
        async with AsyncClient(url, timeout=SHORT_S, **more) as client:
            return await client.decide("payments", RECORD)

    return asyncio.run(ask())


BOTH = pytest.mark.parametrize("ask", [sync, not_sync])


@BOTH
@pytest.mark.parametrize("play", [*HOSTILE, *BROKEN])
def test_the_fallback_answers(ask: Callable[..., Decision], play: Callable[[Connection], None]) -> None:
    with Hostile(play) as server:
        found = in_time(lambda: ask(server.url, fallback="block"))
        assert (found.answered, found.decision, found.stream) == ("unreachable", "block", "payments")
        assert "no answer within 200 ms" in found.degraded[0].why
        if play is not fake.hang_at_once:
            assert server.gone.acquire(timeout=WAIT_S), "the connection was not let go"


@BOTH
@pytest.mark.parametrize("play", BROKEN)
def test_what_is_broken_at_first_is_asked_again(
    ask: Callable[..., Decision], play: Callable[[Connection], None]
) -> None:
    def once(connection: Connection) -> None:
        play(connection) if play not in BROKEN[3:] else _first(connection)

    def _first(connection: Connection) -> None:
        connection.request()
        connection.say("503 Unavailable", b"{}")

    with Hostile(once, fake.good) as server, Client(server.url, timeout=WAIT_S) as client:
        found = client.decide("payments", RECORD) if ask is sync else asyncio.run(_patient(server.url))
        assert found.answered == "peek"


async def _patient(url: str) -> Decision:
    async with AsyncClient(url, timeout=WAIT_S) as client:
        return await client.decide("payments", RECORD)


@BOTH
def test_a_refused_connection_is_unreachable(ask: Callable[..., Decision]) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        found = in_time(lambda: ask(f"http://127.0.0.1:{bound.getsockname()[1]}"))
    assert (found.answered, found.decision) == ("unreachable", "review")
    assert "tries failed" in found.degraded[0].why


@BOTH
def test_an_unknown_host_is_unreachable(ask: Callable[..., Decision]) -> None:
    assert in_time(lambda: ask("http://nobody.invalid:8080")).answered == "unreachable"


def test_the_fallback_may_be_a_function_of_the_record() -> None:
    def decide(stream: str, record: Mapping[str, Any]) -> str:
        return "block" if (stream, record["amount_cents"]) == ("payments", 1200) else "allow"

    assert sync("http://127.0.0.1:1", fallback=decide).decision == "block"


@pytest.mark.parametrize("fallback", [lambda *_: 1 / 0, lambda *_: "approve", lambda *_: None, lambda: "allow"])
def test_a_fallback_that_fails_is_review(fallback: Any) -> None:
    found = sync("http://127.0.0.1:1", fallback=fallback)
    assert found.decision == "review"
    assert [each.part for each in found.degraded] == ["client", "client.fallback"]


def test_a_slow_fallback_delays_no_other_call() -> None:
    in_it, over = threading.Event(), threading.Event()

    def slow(_: str, record: Mapping[str, Any]) -> str:
        if record["transaction_id"] == "slow":
            in_it.set()
            over.wait(WAIT_S)
        return "allow"

    with Client("http://127.0.0.1:1", timeout=0.01, fallback=slow) as client, ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(client.decide, "payments", {**RECORD, "transaction_id": "slow"})
        assert in_it.wait(WAIT_S)
        found = in_time(lambda: client.decide("payments", RECORD, timeout=1))
        over.set()
        assert "did not get to" not in found.degraded[0].why
        assert waiting.result(WAIT_S).decision == "allow"


def test_other_calls_raise_without_an_answer() -> None:
    with Hostile(fake.hang) as server, Client(server.url, call_timeout=SHORT_S) as client:
        for ask in (lambda: client.decision("d1"), lambda: client.dry_run("payments", RECORD)):
            with pytest.raises(UnreachableError, match="no answer within 200 ms"):
                ask()


def test_connections_that_hung_are_given_back() -> None:
    """Many more than the pool has: had each kept its place, the last would have found none."""
    with Hostile(*[fake.hang] * 130, fake.good) as server, Client(server.url, timeout=0.02) as client:
        with ThreadPoolExecutor(16) as threads:
            found = list(threads.map(lambda _: client.decide("payments", RECORD).answered, range(130)))
        assert set(found) == {"unreachable"}
        for _ in range(130 - server.opened):  # where a machine was too busy to connect in time
            client.decide("payments", RECORD, timeout=1)
        assert client.decide("payments", RECORD, timeout=WAIT_S).answered == "peek"


def test_threads_share_a_client_and_each_has_its_own_answer() -> None:
    with Hostile(fake.good) as server, Client(server.url, timeout=WAIT_S) as client, ThreadPoolExecutor(8) as threads:
        asked = [{**RECORD, "transaction_id": f"t{number}"} for number in range(200)]
        found = list(threads.map(lambda record: client.decide("payments", record).record_id, asked))
        assert found == [record["transaction_id"] for record in asked]
        assert server.opened <= 8  # one connection a thread at most: they are kept


def test_a_connection_that_the_server_closed_meanwhile_is_made_anew() -> None:
    answered, closed = threading.Event(), threading.Event()

    def once(connection: Connection) -> None:
        request = connection.request()
        assert request
        connection.say("200 OK", b'{"decision": "allow", "answered": "exact"}')
        assert answered.wait(WAIT_S)
        connection.reset()
        closed.set()

    with Hostile(once, fake.good) as server, Client(server.url, timeout=WAIT_S) as client:
        assert client.decide("payments", RECORD).answered == "exact"
        answered.set()
        assert closed.wait(WAIT_S)
        assert client.decide("payments", RECORD).answered == "peek"


def test_a_process_that_was_forked_off_asks_by_itself() -> None:
    with Hostile(fake.good) as server, Client(server.url, timeout=WAIT_S) as client:
        assert client.decide("payments", RECORD).answered == "peek"
        child = os.fork()
        if child == 0:
            try:
                ok = client.decide("payments", RECORD).answered == "peek"
                client.close()
                os._exit(0 if ok else 1)
            finally:
                os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert client.decide("payments", RECORD).answered == "peek"
        assert server.opened == 2


def test_a_stuck_event_loop_delays_no_answer() -> None:
    over = threading.Event()
    with Hostile(fake.good) as server, Client(server.url, timeout=SHORT_S) as client:
        client._loop._loop.call_soon_threadsafe(over.wait)
        try:
            found = in_time(lambda: client.decide("payments", RECORD))
        finally:
            over.set()
        assert found.answered == "unreachable"
        assert "did not get to the answer in time" in found.degraded[0].why


def test_closing_ends_what_is_asked() -> None:
    with Hostile(fake.hang) as server:
        client = Client(server.url, timeout=WAIT_S)
        asking, found = threading.Event(), []

        def ask() -> None:
            asking.set()
            try:
                found.append(client.decide("payments", RECORD))
            except RuntimeError as error:
                found.append(error)

        thread = threading.Thread(target=ask, daemon=True)
        thread.start()
        assert asking.wait(WAIT_S)
        while not server.opened:
            threading.Event().wait(0.001)
        client.close()
        thread.join(WAIT_S / 2)
        assert found, "it hangs"
