"""Many requests at one ledger: one transaction a turn, those who wait, those who are cancelled, those refused."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from crossline.basics.errors import RetryableError, StateError
from crossline.serve.ledger.base import Claimed
from crossline.serve.ledger.group import LedgerGroup
from crossline.serve.ledger.reports import check_ledger
from crossline.serve.ledger.sqlite import SqliteLedger

from .ledgerkit import asked, decision_of, entry

Turns = list[tuple[int, int]]


class Noting(SqliteLedger):
    """A ledger that notes how many claims and answers each of its turns had."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.turns: Turns = []

    def exchange(self, asked: Any, entries: Any) -> Any:
        self.turns.append((len(asked), len(entries)))
        return super().exchange(asked, entries)


def run(path: Path, work: Callable[[LedgerGroup], Coroutine[Any, Any, None]]) -> Turns:
    ledger = Noting(path)

    async def whole() -> None:
        group = LedgerGroup(ledger)
        try:
            await work(group)
        finally:
            await group.close()

    asyncio.run(whole())
    assert check_ledger(path).faults == []
    return ledger.turns


def test_what_is_asked_at_once_is_one_transaction(tmp_path: Path) -> None:
    async def work(group: LedgerGroup) -> None:
        claimed = await asyncio.gather(*(group.claim(asked(f"t{n}")) for n in range(50)))
        assert {each.outcome for each in claimed} == {"fresh"}
        kept = await asyncio.gather(*(group.answer(entry(f"t{n}")) for n in range(50)), group.claim(asked("t1")))
        assert kept[50].outcome == "answered", "answers come first"

    assert run(tmp_path / "ledger.db", work) == [(50, 0), (1, 50)]


def test_a_turn_has_a_bound(tmp_path: Path) -> None:
    async def work(group: LedgerGroup) -> None:
        await asyncio.gather(*(group.claim(asked(f"t{n}")) for n in range(600)))

    assert run(tmp_path / "ledger.db", work) == [(256, 0), (256, 0), (88, 0)]


def test_who_asks_meanwhile_waits_for_the_answer(tmp_path: Path) -> None:
    async def work(group: LedgerGroup) -> None:
        await group.claim(asked("t1"))
        waiting = [asyncio.create_task(group.settled(asked("t1"), timeout_s=60)) for _ in range(3)]
        await asyncio.sleep(0)
        assert group._waiting
        kept = await group.answer(entry("t1"))
        assert kept is not None
        assert {(each.outcome, each.body) for each in await asyncio.gather(*waiting)} == {("answered", kept.body)}
        await group.claim(asked("t2"))
        assert (await group.settled(asked("t2"), timeout_s=0.01)).outcome == "pending"
        assert group._waiting == {}

    run(tmp_path / "ledger.db", work)


def test_who_waits_for_another_process_that_ends(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    other = SqliteLedger(path)
    other.claim([asked("t1"), asked("t2")])

    async def work(group: LedgerGroup) -> None:
        first = asyncio.create_task(group.settled(asked("t1"), timeout_s=60))
        second = asyncio.create_task(group.settled(asked("t2"), timeout_s=60))
        await asyncio.sleep(0)
        assert len(group._waiting) == 2
        (kept,) = other.answer([entry("t1")])
        assert kept is not None
        assert (await first).body == kept.body
        other.close()
        assert (await second).outcome == "fresh"

    run(path, work)


def test_a_request_that_goes_gives_its_claim_up(tmp_path: Path) -> None:
    async def work(group: LedgerGroup) -> None:
        going = asyncio.create_task(group.claim(asked("t1")))
        await asyncio.sleep(0)
        going.cancel()
        # In the same turn the id is still claimed; in the next one it is free again.
        assert (await group.claim(asked("t1", "{1}"))).outcome == "differs"
        assert (await group.claim(asked("t1", "{1}"))) == Claimed("fresh")

    run(tmp_path / "ledger.db", work)


def test_a_request_that_goes_in_the_moment_of_its_claim(tmp_path: Path) -> None:
    async def work(group: LedgerGroup) -> None:
        other = asyncio.create_task(group.claim(asked("t0")))
        going = asyncio.create_task(group.claim(asked("t1")))
        await asyncio.sleep(0)
        # Called once both claims are made, before the second request knows of its own.
        group._next.claims[0][1].add_done_callback(lambda _: going.cancel())
        found = await asyncio.gather(other, going, return_exceptions=True)
        assert found[0] == Claimed("fresh")
        assert isinstance(found[1], asyncio.CancelledError)
        assert await group.claim(asked("t1", "{1}")) == Claimed("fresh")

    run(tmp_path / "ledger.db", work)


def test_an_answer_is_kept_though_its_request_has_gone(tmp_path: Path) -> None:
    async def work(group: LedgerGroup) -> None:
        going = asyncio.create_task(group.answer(entry("t1")))
        await asyncio.sleep(0)
        going.cancel()
        assert (await group.settled(asked("t1"), timeout_s=60)).outcome == "answered"

    run(tmp_path / "ledger.db", work)


def test_all_of_a_turn_that_fails_are_reported_and_the_next_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"

    async def work(group: LedgerGroup) -> None:
        path.rename(path.with_name("away.db"))
        found = await asyncio.gather(
            *(group.claim(asked(f"t{n}")) for n in range(3)), group.answer(entry("t9")), return_exceptions=True
        )
        assert [type(each).__mro__[1] for each in found] == [RetryableError] * 4
        path.with_name("away.db").rename(path)
        assert (await group.claim(asked("t1"))).outcome == "fresh"

    run(path, work)


def test_an_answer_that_cannot_be_written_fails_by_itself(tmp_path: Path) -> None:
    """What a client sent must not fail the requests of others that came in the same moment."""

    async def work(group: LedgerGroup) -> None:
        found = await asyncio.gather(
            group.claim(asked("t1")),
            group.answer(entry("t2")),
            group.answer(replace(entry("t3"), figures={"huge": {"value": 2**70}})),
            group.answer(entry("t4")),
            return_exceptions=True,
        )
        assert found[0] == Claimed("fresh")
        assert [getattr(each, "decision_id", None) for each in (found[1], found[3])] == [
            decision_of("t2")["decision_id"],
            decision_of("t4")["decision_id"],
        ]
        assert isinstance(found[2], TypeError)
        assert (await group.claim(asked("t3"))).outcome == "fresh"

    run(tmp_path / "ledger.db", work)


def test_other_questions_go_the_same_way(tmp_path: Path) -> None:
    async def work(group: LedgerGroup) -> None:
        kept = await group.answer(entry("t1"))
        assert kept is not None
        found = await group.call(lambda ledger: ledger.by_record("payments", "t1"))
        assert found is not None
        assert found.body == kept.body
        receipt = await group.call(lambda ledger: ledger.receipt(kept.decision_id))
        assert receipt is not None
        assert receipt["decision"] == decision_of("t1")

    run(tmp_path / "ledger.db", work)


def test_a_closed_one_takes_nothing(tmp_path: Path) -> None:
    async def work(group: LedgerGroup) -> None:
        await group.close()
        with pytest.raises(StateError, match="the ledger is closed"):
            await group.claim(asked("t1"))

    run(tmp_path / "ledger.db", work)
