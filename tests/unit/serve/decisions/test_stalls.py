"""A disk that stands still holds no request beyond its deadline; what could not be judged in part says so."""

from __future__ import annotations

import asyncio

import orjson
import pytest

from crossline.basics.errors import RetryableError
from crossline.serve.decisions import service
from crossline.serve.decisions.values import Degraded, LogPosition, OutcomeUnknownError

from .fakes import Harness, payment
from .test_service import LONG_S, SHORT_S, body_of, with_harness

MODEL = Degraded("rule:scored", "a score that is no finite number")


def test_an_answer_that_is_not_kept_in_time_is_reported_to_who_asks_again() -> None:
    async def work(harness: Harness) -> None:
        harness.ledger.keeps.clear()
        loop = asyncio.get_running_loop()
        begun_s = loop.time()
        reply = await harness.decisions.decide("payments", payment("t1"), "peek", SHORT_S)
        assert loop.time() - begun_s < LONG_S / 2, "the ledger stands still for ever here"
        assert (reply.status, reply.headers["Retry-After"]) == (503, "1")
        assert "nothing was decided" not in body_of(reply)["detail"]
        assert (harness.log.there, harness.answers) == (["t1"], [])
        harness.ledger.keeps.set()
        await harness.decisions.close()
        again = await harness.decisions.decide("payments", payment("t1"), "peek", LONG_S)
        assert (again.status, dict(again.headers)) == (200, {"Idempotency-Replayed": "true"})
        assert body_of(again)["decision"] == "review"
        assert harness.log.there == ["t1"], "it is in its stream once"
        assert [answer.asked.record_id for answer, _ in harness.answers] == ["t1"], (
            "it is held to what the stream decides"
        )

    with_harness(work)


def test_who_joins_while_an_answer_is_kept_waits_no_longer_than_it_may() -> None:
    async def work(harness: Harness) -> None:
        harness.ledger.keeps.clear()
        loop = asyncio.get_running_loop()
        first = asyncio.create_task(harness.decisions.decide("payments", payment("t1"), "peek", LONG_S))
        async with asyncio.timeout(LONG_S / 2):
            while not harness.ledger.asked:  # noqa: ASYNC110 - there is no event for it
                await asyncio.sleep(0)
        begun_s = loop.time()
        reply = await harness.decisions.decide("payments", payment("t1"), "peek", SHORT_S)
        assert loop.time() - begun_s < LONG_S / 2, "the ledger stands still for ever here"
        assert (reply.status, (await first).status) == (503, 503)

    with_harness(work)


def test_an_answer_that_cannot_be_kept_after_all_is_given_up() -> None:
    async def work(harness: Harness) -> None:
        harness.ledger.keeps.clear()
        assert (await harness.decisions.decide("payments", payment("t1"), "peek", SHORT_S)).status == 503
        harness.ledger.fails = RetryableError("the disk is gone")
        harness.ledger.keeps.set()
        await harness.decisions.close()
        assert harness.ledger.known == {}
        harness.ledger.fails = None
        again = await harness.decisions.decide("payments", payment("t1"), "peek", LONG_S)
        assert (again.status, body_of(again)["answered"]) == (200, "peek")

    with_harness(work)


def test_a_claim_that_cannot_be_released_in_time_delays_no_answer() -> None:
    async def work(harness: Harness) -> None:
        harness.ledger.frees.clear()
        harness.log.error = RetryableError("the disk is full")
        reply = await harness.decisions.decide("payments", payment("t1"), "peek", SHORT_S)
        assert reply.status == 503
        assert ("payments", "t1") in harness.ledger.known
        harness.ledger.frees.set()
        await harness.decisions.close()
        assert harness.ledger.known == {}

    with_harness(work)


def test_a_blocked_outbox_delays_no_answer() -> None:
    async def work(harness: Harness) -> None:
        harness.log.held.clear()
        harness.outbox.takes.clear()
        reply = await harness.decisions.decide("payments", payment("t1"), "peek", SHORT_S)
        assert reply.status == 503
        assert "neither its stream nor the outbox takes it now" in body_of(reply)["detail"]

    with_harness(work)


def test_a_disk_that_was_slow_lately_gets_more_of_the_time_of_the_next_request() -> None:
    """It is a part of the time of all who come after, and a fifth of it at most."""

    async def work(harness: Harness) -> None:
        harness.decisions._keeping_s = 0.015
        harness.judge.held.clear()
        loop = asyncio.get_running_loop()
        begun_s = loop.time()
        asked = asyncio.create_task(harness.decisions.decide("payments", payment("t1"), "peek", 0.2))
        await harness.judge.asked.wait()
        (flight,) = harness.decisions._flights.values()
        assert abs(flight.until_s - begun_s - 0.2) < 0.05
        assert abs(flight.until_s - flight.deadline_s - 0.030) < 1e-6
        assert body_of(await asked)["answered"] == "fallback"

    with_harness(work)


def test_where_a_rule_could_not_be_judged_the_graver_of_two_words_is_answered() -> None:
    """The fallback says review above 50,000 cents, and else allow."""

    async def work(harness: Harness) -> None:
        harness.judge.says, harness.judge.degraded = "allow", (MODEL,)
        small = body_of(await harness.decisions.decide("payments", payment("t1"), "peek", LONG_S))
        large = body_of(await harness.decisions.decide("payments", payment("t2", 60_000), "peek", LONG_S))
        harness.judge.says = "block"
        blocked = body_of(await harness.decisions.decide("payments", payment("t3", 60_000), "peek", LONG_S))
        for body in (small, large, blocked):
            assert body["degraded"] == [{"part": "rule:scored", "why": "a score that is no finite number"}]
        assert [(each["decision"], each["answered"]) for each in (small, large, blocked)] == [
            ("allow", "peek"),
            ("review", "fallback"),
            ("block", "peek"),
        ]

    with_harness(work)


def test_an_answer_of_unknown_state_is_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ledger's server was lost during a commit and is away for a while: no caller gets "not kept" as an answer."""
    monkeypatch.setattr(service, "LATE_PAUSE_S", 0.001)

    async def work(harness: Harness) -> None:
        harness.ledger.fails = OutcomeUnknownError("the connection was lost")
        reply = await harness.decisions.decide("payments", payment("t1"), "peek", LONG_S)
        assert (reply.status, reply.headers["Retry-After"]) == (503, "1")
        assert "nothing was decided" not in body_of(reply)["detail"]
        harness.ledger.fails = RetryableError("the server is away")
        tried = harness.ledger.asked
        async with asyncio.timeout(LONG_S):
            while harness.ledger.asked < tried + 2:  # noqa: ASYNC110 - there is no event for it
                await asyncio.sleep(0)
        assert ("payments", "t1") in harness.ledger.known, "its claim is not given up"
        harness.ledger.fails = None
        async with asyncio.timeout(LONG_S):
            while not harness.answers:  # noqa: ASYNC110 - there is no event for it
                await asyncio.sleep(0)
        again = await harness.decisions.decide("payments", payment("t1"), "peek", LONG_S)
        assert (again.status, dict(again.headers)) == (200, {"Idempotency-Replayed": "true"})
        assert [answer.asked.record_id for answer, _ in harness.answers] == ["t1"]

    with_harness(work)


def test_the_answer_that_was_kept_before_is_sent_and_held_to_what_the_stream_decides() -> None:
    """Another process had claimed the id, was taken for dead, and answered first."""
    other = {"decision_id": "d-other", "decision": "block", "answered": "fallback", "receipt": "r"}

    async def work(harness: Harness) -> None:
        harness.ledger.other = orjson.dumps(other)
        reply = await harness.decisions.decide("payments", payment("t1"), "peek", LONG_S)
        assert body_of(reply) == other
        ((answer, place),) = harness.answers
        assert (answer.decision["decision_id"], answer.decision["decision"]) == ("d-other", "block")
        assert (answer.answered, place) == ("fallback", LogPosition("log", 1))

    with_harness(work)
