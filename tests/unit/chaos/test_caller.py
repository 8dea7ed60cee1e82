"""The client of the chaos drill: it repeats requests without an answer, and logs every request."""

from __future__ import annotations

import asyncio
import random
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from chaos.api_load import caller as calling
from chaos.api_load.caller import Asker
from chaos.api_load.request_log import Ask, Notes, asked_id, read_notes

from crossline.client import ConflictError, Decision

RECORDS = 300
OPEN_MAX = 5


class Api:
    """Answers the second ask about a record, and each after that; knows a body by its id."""

    def __init__(self) -> None:
        self.bodies: dict[str, list[dict[str, Any]]] = defaultdict(list)
        self.all = asyncio.Event()

    async def decide(self, stream: str, record: dict[str, Any], *, mode: str, timeout: float) -> Decision:  # noqa: ASYNC109 - as the client's
        assert (stream, mode in {"peek", "exact"}, timeout > 0) == ("payments", True, True)
        known = self.bodies[record["id"]]
        known.append(record)
        if len(self.bodies) >= RECORDS:
            self.all.set()
        await asyncio.sleep(0)
        if record != known[0]:
            raise ConflictError(409, {"title": "Conflict"})
        if len(known) == 1:
            return Decision("review", "unreachable")
        return Decision("allow", "peek", decision_id="d", receipt="r", replayed=len(known) > 2)


@pytest.fixture
def asks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Ask]:
    for name in ("AGAIN_S", "AGAIN_S_MAX"):
        monkeypatch.setattr(calling, name, 0.0)
    monkeypatch.setattr(calling, "PAUSE_S", (0.0, 0.0))

    async def ask() -> None:
        api = Api()
        with Notes(tmp_path / "asks") as notes:
            asker = Asker([api], notes, random.Random(7), 10)  # type: ignore[list-item]
            asker.clock = (3_600_000, float("inf"))
            running = asyncio.create_task(asker.run(5_000.0))
            await api.all.wait()
            asker.stopping.set()
            await running

    asyncio.run(ask())
    return read_notes(tmp_path / "asks")


def test_every_record_is_asked_about_until_it_is_answered(asks: list[Ask]) -> None:
    by_record: dict[str, list[Ask]] = defaultdict(list)
    for ask in asks:
        assert ask.answer is not None
        by_record[ask.record_id].append(ask)
    assert {asked_id(number) for number in range(RECORDS)} <= set(by_record)
    assert [ask.number for ask in asks] == list(range(len(asks)))
    for mine in by_record.values():
        assert any(ask.answer is not None and ask.answer.by_the_api for ask in mine)
    assert {ask.clock_ms for ask in asks} == {3_600_000}
    assert {ask.why for ask in asks} == {"first", "again", "twice", "other"}
    assert {ask.mode for ask in asks} == {"peek", "exact"}


def test_another_body_is_refused_and_noted_so(asks: list[Ask]) -> None:
    others = [ask.answer for ask in asks if ask.why == "other" and ask.answer is not None]
    assert {(each.answered, each.problem.startswith("409 ")) for each in others} == {("refused", True)}


class Turns(asyncio.Event):
    """Counts how often the loop that it stops has waited until the next payment is due."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.over = sys.maxsize, asyncio.Event()

    async def go_on(self, turns: int) -> None:
        self.left = turns
        await self.over.wait()

    async def wait(self) -> Any:
        self.left -= 1
        if self.left <= 0:
            self.over.set()
        return await super().wait()


class SilentApi(Api):
    """Answers nobody until it is told to; counts who waits."""

    def __init__(self) -> None:
        super().__init__()
        self.open = asyncio.Event()
        self.waiting = self.waiting_most = 0
        self.many = asyncio.Event()

    async def decide(self, stream: str, record: dict[str, Any], *, mode: str, timeout: float) -> Decision:  # noqa: ASYNC109 - as the client's
        self.waiting += 1
        self.waiting_most = max(self.waiting, self.waiting_most)
        if self.waiting >= OPEN_MAX:
            self.many.set()
        await self.open.wait()
        self.waiting -= 1
        return await super().decide(stream, record, mode=mode, timeout=timeout)


def test_no_new_payment_is_asked_about_while_so_many_have_no_answer(tmp_path: Path) -> None:
    async def ask() -> SilentApi:
        api, turns = SilentApi(), Turns()
        with Notes(tmp_path / "asks") as notes:
            asker = Asker([api], notes, random.Random(7), 10, OPEN_MAX, stopping=turns)  # type: ignore[list-item]
            running = asyncio.create_task(asker.run(5_000.0))
            await api.many.wait()
            await turns.go_on(100)
            turns.set()
            api.open.set()
            await running
        return api

    api = asyncio.run(ask())
    # One that is sent twice at once is one payment.
    assert OPEN_MAX <= api.waiting_most <= 2 * OPEN_MAX
    assert all(ask.answer is not None for ask in read_notes(tmp_path / "asks"))
