"""Dry runs: judged each by itself, beside those who really ask, and never more than a share of the time."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.oracle.replicated import Pipeline, comparable

from crossline.serve.decisions.values import AsOf, NotJudgedError, RecordVerdict
from crossline.serve.replica import dry_runs
from crossline.serve.replica.dry_runs import AT_ONCE, SHARE, DryRunQueue, laid_of
from crossline.serve.replica.messages import DRY, ForkReply, Hello, packed
from crossline.serve.replica.overlay import JudgedRecord

from .conftest import Asks, lines, ready
from .test_replicas import decisions, run


class Clock:
    """A loop's, of which the test says how it goes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.later_s = 0.0
        loop = asyncio.get_running_loop()
        real = loop.time
        monkeypatch.setattr(loop, "time", lambda: real() + self.later_s)


class ForkReplies(asyncio.StreamReader):
    """The replies of a copy of a fork, and then the end."""

    def __init__(self, *replies: ForkReply) -> None:
        super().__init__()
        for each in replies:
            self.feed_data(packed(each))
        self.feed_eof()


class Gone:
    """The other end of its connection."""

    def close(self) -> None:
        pass


def hello(token: int) -> Hello:
    return Hello(DRY, 0, os.getpid(), 3, token)


def found(token: int) -> Any:
    return ForkReply(dry=[[(JudgedRecord({"decision": "review", "token": token}), "")]])


def played(monkeypatch: pytest.MonkeyPatch, work: Callable[[DryRunQueue, Clock, list[str]], Awaitable[None]]) -> None:
    async def whole() -> None:
        woken: list[str] = []
        await work(DryRunQueue(lambda: woken.append("now"), lambda _: None), Clock(monkeypatch), woken)

    asyncio.run(whole())


def test_one_copy_is_under_way_at_a_time_and_the_next_leaves_time_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(runs: DryRunQueue, clock: Clock, _: list[str]) -> None:
        waiting = [runs.put([Asks().record()]) for _ in range(AT_ONCE + 5)]
        first = runs.take()
        assert len(first) == AT_ONCE
        token = runs.begin(first)
        runs.judged_on(token, AsOf(7, 1, 0))
        assert runs.take() == [], "one is under way"
        clock.later_s += 0.1
        answer = ForkReply(dry=[[(JudgedRecord({"decision": "review"}), "")]] * AT_ONCE)
        await runs.receive(hello(token), ForkReplies(answer), Gone())  # type: ignore[arg-type]
        assert [each.done() for each in waiting] == [True] * AT_ONCE + [False] * 5
        (verdict,) = await waiting[0]
        assert isinstance(verdict, RecordVerdict)
        assert (verdict.decision["decision"], verdict.as_of.batch) == ("review", 7)
        clock.later_s += 0.1 * (1 / SHARE - 1) - 0.05
        assert runs.take() == [], "the share is used up"
        clock.later_s += 0.1
        assert len(runs.take()) == 5

    played(monkeypatch, work)


def test_a_copy_that_ends_or_fails_reports_it_to_its_own_callers_only(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(runs: DryRunQueue, clock: Clock, _: list[str]) -> None:
        for shown, why in (
            ((), "the process that judged it ended"),
            ((ForkReply(error="KeyError: x"),), "KeyError: x"),
        ):
            answer = runs.put([Asks().record()])
            token = runs.begin(runs.take())
            runs.judged_on(token, AsOf(7, 1, 0))
            await runs.receive(hello(token - 1), ForkReplies(found(token - 1)), Gone())  # type: ignore[arg-type]
            assert not answer.done(), "what an earlier copy says is not about this"
            await runs.receive(hello(token), ForkReplies(*shown), Gone())  # type: ignore[arg-type]
            (failed,) = await answer
            assert str(failed) == f"record: a dry run failed: {why}"
            clock.later_s += 10

    played(monkeypatch, work)


def test_a_copy_that_says_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dry_runs, "WITHIN_S", 0.01)

    async def work(runs: DryRunQueue, _: Clock, woken: list[str]) -> None:
        answer = runs.put([Asks().record()])
        runs.begin(runs.take())
        (failed,) = await answer
        assert str(failed) == "record: a dry run failed: a dry run took too long"
        assert woken

    played(monkeypatch, work)


def test_where_the_fork_is_lost_that_was_to_make_the_copy_the_next_one_does(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(runs: DryRunQueue, _: Clock, __: list[str]) -> None:
        answer = runs.put([Asks().record()])
        token = runs.begin(runs.take())
        runs.lost(token)
        assert len(runs) == 1
        again = runs.begin(runs.take())
        runs.judged_on(again, AsOf(7, 1, 0))
        await runs.receive(hello(again), ForkReplies(found(again)), Gone())  # type: ignore[arg-type]
        (verdict,) = await answer
        assert isinstance(verdict, RecordVerdict)

    played(monkeypatch, work)


def test_who_does_not_wait_any_more_is_not_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(runs: DryRunQueue, _: Clock, __: list[str]) -> None:
        gone, here = runs.put([Asks().record()]), runs.put([Asks().record("a2")])
        gone.cancel()
        assert [[each.raw for each in one] for one in laid_of(runs.take())] == [[Asks().record("a2").raw]]
        runs.fail("no replica is ready")
        assert not here.done()

    played(monkeypatch, work)


def test_dry_runs_at_once_see_what_is_there_and_not_each_other(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More than one copy judges; those who really ask are answered meanwhile, as if there were no trials."""
    monkeypatch.setattr(dry_runs, "AT_ONCE", 3)
    asks = Asks()
    pipeline.batch(lines(asks.records(1)))

    async def play(replicas: Any) -> None:
        await ready(replicas, 0)
        asked = asks.records(3)
        dry = [asyncio.create_task(replicas.judge(asks.records(2), keep=False)) for _ in range(5)]
        shown = decisions([each for one in asked for each in await replicas.judge([one])])
        for each in await asyncio.gather(*dry):
            assert not any(isinstance(one, NotJudgedError) for one in each)
        assert replicas._dry.copies == 2
        assert shown == [comparable(each) for each in pipeline.batch(lines(asked))]
        first = [one.decision["decision"] for one in await replicas.judge(asks.records(2, "b"), keep=False)]
        assert first == ["allow", "allow"], "the third of an account is looked at, and no trial counts"

    run(pipeline, play)
