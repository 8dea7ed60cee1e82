"""The client, a process of its own: sends requests in an open loop, as a payment system does, and logs the answers.

``python -m chaos.api_load.caller JSON``. A line of JSON on its standard input sets its clock wrong for a while. The end
of the input ends it, once all its requests have an answer.
"""

from __future__ import annotations

import asyncio
import random
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import orjson

from chaos.api_load.request_log import Answer, Ask, Notes, Why, asked_id
from chaos.api_load.scheduling_delay import Pace
from chaos.load.producer import KINDS, SKEW
from chaos.pipeline import ID, STREAM
from crossline.client import ApiError, AsyncClient, Decision

PEEK_SHARE = 0.75
DEADLINES_S = {"peek": (0.05, 0.1, 0.25, 1.0), "exact": (1.0, 2.0, 5.0)}
# Of asks: the same again later; twice at once; another body under the id, once it is answered.
AGAIN, TWICE, OTHER = 0.05, 0.02, 0.02
PAUSE_S = (0.5, 3.0)  # before an ask that comes again
AGAIN_S, AGAIN_S_MAX = 2.0, 16.0  # pause after no answer: it grows, since constant retries would keep a server down
PATIENCE_S = 120.0  # at the end: for answers to all open requests
LAST_DEADLINE_S = 2.0  # of asks that come again
# The pool of connections of one client looks at each of them for each try: where hundreds wait, that is all it does.
CLIENTS, CONNECTIONS = 8, 50

Record = dict[str, Any]
_statuses: ContextVar[list[int]] = ContextVar("statuses")


class Noting(httpx.AsyncBaseTransport):
    """Notes the status of each try."""

    def __init__(self) -> None:
        limits = httpx.Limits(max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS, keepalive_expiry=4.0)
        self._inner = httpx.AsyncHTTPTransport(limits=limits, trust_env=False)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """As the client's own does."""
        seen = _statuses.get()
        seen.append(0)
        place = len(seen) - 1
        response = await self._inner.handle_async_request(request)
        seen[place] = response.status_code
        return response

    async def aclose(self) -> None:
        """Close all connections."""
        await self._inner.aclose()


@dataclass(slots=True)
class Asker:
    """Asks until it is stopped. ``clock``: by how much event times are off, until when (monotonic).

    ``open_max``: while so many payments have no answer, it asks about no new one.
    """

    clients: Sequence[AsyncClient]
    notes: Notes
    draw: random.Random
    accounts: int
    open_max: int = sys.maxsize
    pace: Pace = field(default_factory=Pace)
    clock: tuple[int, float] = (0, 0.0)
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    _asks: int = 0
    _records: int = 0
    _open: set[asyncio.Task[Any]] = field(default_factory=set)

    async def run(self, per_s: float) -> None:
        """An open loop: a request without an answer delays no other."""
        beating = asyncio.create_task(self.pace.beat())
        began_s, count = time.monotonic(), 0
        while not self.stopping.is_set():
            count += 1
            wait_s = began_s + count / per_s - time.monotonic()
            if wait_s > 0:
                try:
                    await asyncio.wait_for(self.stopping.wait(), wait_s)
                except TimeoutError:
                    pass
                else:
                    break
            if len(self._open) < self.open_max:
                self._begin(self._life())
        await self._to_the_end()
        beating.cancel()

    async def _to_the_end(self) -> None:
        """A request without an answer is sent again by its client, until there is a decision."""
        ends_s = time.monotonic() + PATIENCE_S
        while self._open and time.monotonic() < ends_s:
            await asyncio.wait(self._open, timeout=1.0)
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    def _begin(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._open.add(task)
        task.add_done_callback(self._open.discard)

    async def _life(self) -> None:
        """Of a payment: asked about until it is answered; then, now and then, again."""
        record, clock_ms = self._made()
        mode = "peek" if self.draw.random() < PEEK_SHARE else "exact"
        deadline_s, fate = self.draw.choice(DEADLINES_S[mode]), self.draw.random()
        if fate < TWICE:
            self._begin(self._ask(record, "twice", mode, deadline_s, clock_ms))
        answer = await self._ask(record, "first", mode, deadline_s, clock_ms)
        pause_s = AGAIN_S
        while answer.answered == "unreachable":
            await asyncio.sleep(self.draw.uniform(pause_s / 2, pause_s))
            pause_s = min(2 * pause_s, AGAIN_S_MAX)
            answer = await self._ask(record, "again", mode, LAST_DEADLINE_S, clock_ms)
        if not answer.by_the_api or fate < 1 - AGAIN - OTHER:
            return
        await asyncio.sleep(self.draw.uniform(*PAUSE_S))
        if fate < 1 - OTHER:
            await self._ask(record, "again", mode, deadline_s, clock_ms)
        else:
            await self._ask({**record, "amount": record["amount"] + 1}, "other", mode, deadline_s, clock_ms)

    def _made(self) -> tuple[Record, int]:
        number, self._records = self._records, self._records + 1
        by_ms, until_s = self.clock
        clock_ms = by_ms if time.monotonic() < until_s else 0
        return {
            ID: asked_id(number),
            "account": f"a{int(self.accounts * self.draw.random() ** SKEW):05d}",
            "amount": max(1, round(2_500 * 2.718 ** self.draw.gauss(0, 1.2))),
            "kind": self.draw.choice(KINDS),
            "event_time": int(time.time() * 1000) + clock_ms,
        }, clock_ms

    async def _ask(self, record: Record, why: Why, mode: str, deadline_s: float, clock_ms: int) -> Answer:
        number, self._asks = self._asks, self._asks + 1
        self.notes.asked(Ask(number, record[ID], why, mode, deadline_s * 1e3, time.time(), clock_ms))
        seen: list[int] = []
        _statuses.set(seen)
        began_s = time.monotonic()
        fields: dict[str, Any]
        try:
            client = self.clients[number % len(self.clients)]
            decided = await client.decide(STREAM, record, mode=mode, timeout=deadline_s)  # type: ignore[arg-type]
        except ApiError as error:
            fields = {"answered": "refused", "problem": str(error)[:500]}
        else:
            fields = _of(decided)
        ended_s = time.monotonic()
        late_s = self.pace.late_s(began_s + deadline_s, ended_s)
        answer = Answer((ended_s - began_s) * 1e3, late_s * 1e3, **fields, statuses=tuple(seen))
        self.notes.answered(number, answer)
        return answer


def _of(decided: Decision) -> dict[str, Any]:
    return {
        "answered": decided.answered,
        "decision": decided.decision,
        "decision_id": decided.decision_id or "",
        "receipt": decided.receipt or "",
        "replayed": decided.replayed,
        "degraded": tuple(f"{each.part}: {each.why}" for each in decided.degraded),
        "took_ms": decided.took_ms,
    }


async def _obey(asker: Asker) -> None:
    """Lines of the standard input; its end stops the asking."""
    reader = asyncio.StreamReader()
    make: Callable[[], asyncio.Protocol] = lambda: asyncio.StreamReaderProtocol(reader)  # noqa: E731
    await asyncio.get_running_loop().connect_read_pipe(make, sys.stdin)
    while line := await reader.readline():
        message = orjson.loads(line)
        asker.clock = message["clock_ms"], time.monotonic() + message["seconds"]
    asker.stopping.set()


async def ask(settings: dict[str, Any]) -> None:
    """Until the standard input ends."""
    async with AsyncExitStack() as stack:
        notes = stack.enter_context(Notes(Path(settings["notes"])))
        made = [
            AsyncClient(settings["url"], fallback="review", options={"transport": Noting()}) for _ in range(CLIENTS)
        ]
        clients = [await stack.enter_async_context(each) for each in made]
        asker = Asker(clients, notes, random.Random(settings["seed"]), settings["accounts"], settings["open_max"])
        obeying = asyncio.create_task(_obey(asker))
        await asker.run(settings["per_s"])
        obeying.cancel()


if __name__ == "__main__":
    asyncio.run(ask(orjson.loads(sys.argv[1])))
