"""One request and many: what is answered, when, and what is kept, whatever does not answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import orjson
import pytest
from structlog.testing import capture_logs

from crossline.basics.errors import RetryableError
from crossline.serve.decisions.replies import HttpReply
from crossline.serve.decisions.values import NotJudgedError

from .fakes import Harness, payment

LONG_S = 30.0
SHORT_S = 0.03


def with_harness(work: Callable[[Harness], Awaitable[Any]], by_broker: frozenset[str] = frozenset()) -> Any:
    async def run() -> Any:
        harness = Harness(by_broker=by_broker)
        try:
            return await work(harness)
        finally:
            for each in harness.held():
                each.set()
            await harness.decisions.close()

    return asyncio.run(run())


def body_of(reply: HttpReply) -> dict[str, Any]:
    found: dict[str, Any] = orjson.loads(reply.body)
    return found


def test_a_record_is_judged_kept_and_answered() -> None:
    async def work(harness: Harness) -> None:
        reply = await harness.decisions.decide("payments", payment("t1"), "peek", LONG_S)
        body = body_of(reply)
        assert (reply.status, body["decision"], body["answered"]) == (200, "review", "peek")
        assert (body["record_id"], body["as_of"]) == ("t1", {"batch": 7, "age_ms": 40, "laid_over": 0})
        assert harness.log.there == harness.judge.seen == ["t1"]
        assert list(harness.judge.placed_at) == [1]
        assert harness.outbox.waiting == []

    with_harness(work)


def test_who_judges_knows_a_record_before_it_has_its_place_though_it_is_busy_with_others() -> None:
    async def work(harness: Harness) -> None:
        harness.judge.held.clear()
        ids = ["t1", "t2", "t3"]
        ask = harness.decisions.decide
        asking = [asyncio.create_task(ask("payments", payment(each), "peek", LONG_S)) for each in ids]
        async with asyncio.timeout(LONG_S):  # the log answers while who judges has not answered the first
            while len(harness.judge.placed_at) < len(ids):  # noqa: ASYNC110 - there is no event for it
                await asyncio.sleep(0)
        harness.judge.held.set()
        assert [body_of(await each)["answered"] for each in asking] == ["peek"] * 3
        assert sorted(harness.judge.placed_at) == [1, 2, 3]

    with_harness(work)


def test_exact_is_what_the_pipeline_says_and_the_replica_sees_the_record_too() -> None:
    async def work(harness: Harness) -> None:
        body = body_of(await harness.decisions.decide("payments", payment("t1"), "exact", LONG_S))
        assert (body["decision"], body["answered"]) == ("block", "exact")
        assert harness.judge.seen == ["t1"]

    with_harness(work)


def test_exact_asks_no_replica_where_the_broker_has_the_ingest_time() -> None:
    async def work(harness: Harness) -> None:
        harness.judge.held.clear()  # it would never answer
        body = body_of(await harness.decisions.decide("payments", payment("t1"), "exact", LONG_S))
        assert (body["decision"], body["answered"]) == ("block", "exact")
        assert (harness.judge.seen, harness.judge.laid) == ([], ["t1"])
        assert list(harness.judge.placed_at) == [1]

    with_harness(work, frozenset({"payments"}))


def test_the_same_again_is_the_same_body_and_another_content_a_conflict() -> None:
    async def work(harness: Harness) -> None:
        first = await harness.decisions.decide("payments", payment("t1"), "peek", LONG_S)
        again = await harness.decisions.decide("payments", b" " + payment("t1") + b"\n", "exact", LONG_S)
        other = await harness.decisions.decide("payments", payment("t1", 7), "peek", LONG_S)
        assert (again.body, dict(again.headers)) == (first.body, {"Idempotency-Replayed": "true"})
        assert other.status == 409
        assert harness.log.there == ["t1"]

    with_harness(work)


def test_two_at_once_are_one_question() -> None:
    async def work(harness: Harness) -> None:
        harness.judge.held.clear()
        one = asyncio.create_task(harness.decisions.decide("payments", payment("t1"), "peek", LONG_S))
        two = asyncio.create_task(harness.decisions.decide("payments", payment("t1"), "peek", LONG_S))
        await harness.judge.asked.wait()
        other = await harness.decisions.decide("payments", payment("t1", 7), "peek", LONG_S)
        harness.judge.held.set()
        assert (await one).body == (await two).body
        assert other.status == 409
        assert harness.log.there == harness.judge.seen == ["t1"]

    with_harness(work)


def test_past_the_deadline_the_fallback_answers_and_the_record_is_kept() -> None:
    async def work(harness: Harness) -> None:
        harness.judge.held.clear()
        small = body_of(await harness.decisions.decide("payments", payment("t1"), "peek", SHORT_S))
        large = body_of(await harness.decisions.decide("payments", payment("t2", 60_000), "peek", SHORT_S))
        assert (small["decision"], small["answered"], small["reasons"]) == ("allow", "fallback", [])
        assert (large["decision"], large["degraded"][0]["part"]) == ("review", "replica")
        assert harness.log.there == ["t1", "t2"]

    with_harness(work)


def test_the_most_hurried_of_those_who_ask_the_same_decides_when_it_is_answered() -> None:
    async def work(harness: Harness) -> None:
        harness.judge.held.clear()
        patient = asyncio.create_task(harness.decisions.decide("payments", payment("t1"), "peek", LONG_S))
        await harness.judge.asked.wait()
        hurried = await harness.decisions.decide("payments", payment("t1"), "peek", SHORT_S)
        assert body_of(hurried)["answered"] == "fallback"
        assert (await patient).body == hurried.body

    with_harness(work)


def test_what_cannot_be_judged_is_answered_by_the_fallback_at_once_and_says_why() -> None:
    async def work(harness: Harness) -> None:
        harness.judge.error = NotJudgedError("replica", "2,400 ms behind (bound 1,000)")
        body = body_of(await harness.decisions.decide("payments", payment("t1"), "peek", LONG_S))
        assert body["degraded"] == [{"part": "replica", "why": "2,400 ms behind (bound 1,000)"}]
        assert body["answered"] == "fallback"
        harness.judge.error = ValueError("secret of the machine")
        with capture_logs() as lines:
            body = body_of(await harness.decisions.decide("payments", payment("t2"), "peek", LONG_S))
        (line,) = (each for each in lines if "fault" in each)
        why = f"it failed (fault {line['fault']}, of which the log of the server has more)"
        assert body["degraded"] == [{"part": "replica", "why": why}]
        assert "secret of the machine" in line["error"]
        for held, fails in (
            (harness.log, "broker 10.0.0.7:9092 said no"),
            (harness.ledger, "/var/lib/ledger.db is locked"),
        ):
            held.error = RetryableError(fails)
            with capture_logs() as lines:
                reply = await harness.decisions.decide("payments", payment("t3"), "peek", LONG_S)
            (line,) = (each for each in lines if "fault" in each)
            assert (reply.status, line["fault"] in body_of(reply)["detail"]) == (503, True)
            assert fails in line["error"]
            assert fails not in reply.body.decode()

    with_harness(work)


def test_a_stream_that_does_not_take_it_in_time_gets_it_from_the_outbox() -> None:
    async def work(harness: Harness) -> None:
        harness.log.held.clear()
        body = body_of(await harness.decisions.decide("payments", payment("t1"), "peek", SHORT_S))
        assert (body["decision"], body["answered"]) == ("review", "peek")
        assert [each["part"] for each in body["degraded"]] == ["stream"]
        assert (harness.outbox.waiting, harness.outbox.sent) == (["t1"], [])
        harness.log.held.set()
        await harness.decisions.close()
        assert harness.outbox.sent == ["t1"]

    with_harness(work)


def test_what_cannot_be_kept_is_not_answered_and_may_be_asked_again() -> None:
    async def work(harness: Harness) -> None:
        harness.log.error = RetryableError("/srv/in: the disk is full")
        reply = await harness.decisions.decide("payments", payment("t1"), "peek", LONG_S)
        assert (reply.status, reply.headers["Retry-After"]) == (503, "1")
        assert "its stream does not take it now" in body_of(reply)["detail"]
        assert "/srv" not in body_of(reply)["detail"]
        assert harness.judge.gone == [1]
        harness.log.error = None
        assert (await harness.decisions.decide("payments", payment("t1"), "peek", LONG_S)).status == 200

    with_harness(work)


def test_a_ledger_that_takes_nothing_is_reported() -> None:
    async def work(harness: Harness) -> None:
        harness.ledger.error = RetryableError("locked")
        reply = await harness.decisions.decide("payments", payment("t1"), "peek", LONG_S)
        assert reply.status == 503
        assert harness.log.there == []

    with_harness(work)


def test_an_id_that_another_process_answers_is_asked_again() -> None:
    async def work(harness: Harness) -> None:
        harness.ledger.elsewhere.add("t1")
        reply = await harness.decisions.decide("payments", payment("t1"), "peek", LONG_S)
        assert (reply.status, reply.headers["Retry-After"]) == (503, "1")

    with_harness(work)


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        (b"", "found nothing"),
        (b"[]", "object"),
        (b'{"id": "t1"}', "account"),
        (payment("t1") + b"\n" + payment("t2"), ""),
        (b"\xef\xbb\xbf" + payment("t1"), ""),
        (b'{"id": "t1", "account": "a1", "cents": "many", "at": 1767225600000}', "cents"),
        (b"{" * 5_000, ""),
        (b"\xff\xfe", ""),
        (payment("t1")[:-1] + b', "x": 1e400}', ""),
        (b'{"id": "t1", "id": "t2", "account": "a", "at": 1767225600000}', "twice"),
    ],
)
def test_a_record_that_does_not_fit_its_stream_is_a_problem_and_is_not_kept(body: bytes, detail: str) -> None:
    async def work(harness: Harness) -> None:
        good, bad = await asyncio.gather(
            harness.decisions.decide("payments", payment("good"), "peek", LONG_S),
            harness.decisions.decide("payments", body, "peek", LONG_S),
        )
        assert (good.status, bad.status, bad.form) == (200, 422, "application/problem+json")
        assert detail in body_of(bad)["detail"]
        assert harness.log.there == ["good"]

    with_harness(work)


def test_a_stream_that_is_not_there_is_not_found() -> None:
    async def work(harness: Harness) -> None:
        assert (await harness.decisions.decide("refunds", payment("t1"), "peek", LONG_S)).status == 404

    with_harness(work)


def test_a_dry_run_leaves_nothing() -> None:
    async def work(harness: Harness) -> None:
        body = body_of(await harness.decisions.decide("payments", payment("t1"), "peek", LONG_S, dry_run=True))
        assert (body["decision"], body["receipt"]) == ("review", None)
        assert (harness.judge.dry, harness.judge.seen, harness.log.there, harness.ledger.known) == (["t1"], [], [], {})

    with_harness(work)


def test_a_dry_run_may_ask_about_a_stream_whose_records_come_another_way() -> None:
    async def work(harness: Harness) -> None:
        body = body_of(await harness.decisions.decide("generated", payment("t1"), "peek", LONG_S, dry_run=True))
        assert (body["decision"], body["stream"], body["receipt"]) == ("review", "generated", None)
        assert (await harness.decisions.decide("generated", payment("t1"), "peek", LONG_S)).status == 404
        for stream in ("files", "refunds"):  # what is no JSON cannot be asked about
            assert (await harness.decisions.decide(stream, payment("t1"), "peek", LONG_S, dry_run=True)).status == 404

    with_harness(work)


def test_all_that_comes_at_once_reaches_stream_and_replica_in_one_order() -> None:
    async def work(harness: Harness) -> None:
        names = [f"t{number}" for number in range(600)]
        await asyncio.gather(*(harness.decisions.decide("payments", payment(name), "peek", LONG_S) for name in names))
        assert harness.log.there == harness.judge.seen == names

    with_harness(work)


def test_what_a_batch_has_already_is_decided_by_the_stream() -> None:
    async def work(harness: Harness) -> None:
        harness.judge.error = NotJudgedError("record", "known already")
        body = body_of(await harness.decisions.decide("payments", payment("t1"), "peek", LONG_S))
        assert (body["decision"], body["answered"]) == ("block", "exact")

    with_harness(work)
