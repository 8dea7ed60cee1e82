"""The figures of a key as a replica has them now: with what is laid over, and leaving nothing."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.oracle.replicated import Pipeline, comparable

from crossline.basics.errors import RetryableError
from crossline.basics.times import instant_text
from crossline.serve.decisions.values import AsOf
from crossline.serve.replica.dry_runs import DryRunQueue
from crossline.serve.replica.entity import KeyAsked, KeyFigures
from crossline.serve.replica.messages import ForkReply
from crossline.serve.replica.replicas import Replicas

from .conftest import BURST, START_MS, STREAM, Asks, lines, ready, snapshot_of
from .test_dry import Clock, ForkReplies, Gone, hello, played
from .test_replicas import decisions, run

MORE: list[dict[str, Any]] = [
    {
        "rule_id": "share",
        "version": 2,
        "rule_type": "formula",
        "source_topic": STREAM,
        "status": "shadow",
        "figures": {
            "spent": {"sum": "amount", "group_by": "account", "window": "10s"},
            "usual": {"avg": "amount", "group_by": "account", "window": "30d", "resolution": "1h"},
        },
        "when": "spent > 1000 and usual < 50",
        "value": "spent",
    },
    {
        **BURST,
        "rule_id": "again",
        "aggregation_type": "max",
        "aggregation_field": "amount",
        "late_policy": "reevaluate",
    },
    {**BURST, "rule_id": "held", "aggregation_threshold": 50, "hold": "10m"},
    {**BURST, "rule_id": "of_all", "group_by": None},
    {**BURST, "rule_id": "often", "source_topic": "rule:burst", "window": "1h"},
    {**BURST, "rule_id": "gone", "status": "paused"},
    {
        "rule_id": "then",
        "version": 1,
        "rule_type": "sequence",
        "source_topic": STREAM,
        "group_by": "account",
        "within": "60s",
        "steps": [{"name": "some", "times": 2, "conditions": [{"field": "amount", "operator": ">", "value": 0}]}],
    },
]


def at(second: int) -> str:
    return instant_text(START_MS + 1_000 * second)


def shown(reported: KeyFigures) -> dict[tuple[str, str], Any]:
    return {(each["rule_id"], each["name"]): (each["value"], each["count"]) for each in reported.figures}


def test_they_are_of_now_and_nothing_comes_of_asking(pipeline: Pipeline) -> None:
    pipeline.publish(snapshot_of(BURST, *MORE))
    asks = Asks()
    pipeline.batch(lines([asks.record("a1", amount=7), asks.record("a1", amount=30), asks.record("b")]))

    async def play(replicas: Replicas) -> None:
        await ready(replicas, 0)
        asked = [asks.record("a1", amount=5)]
        await replicas.judge(asked)
        now = await replicas.figures("account", "a1")
        assert shown(now) == {
            ("again", "max of amount"): (30, 3),
            ("burst", "count"): (3, 3),
            ("held", "count"): (3, 3),
            ("often", "count"): (1, 1),
            ("share", "spent"): (42, 3),
            ("share", "usual"): (14.0, 3),
        }
        assert now.missing == []
        assert [each for each in now.figures if each["rule_id"] == "burst"] == [
            {
                "name": "count",
                "rule_id": "burst",
                "rule_version": 1,
                "value": 3,
                "operator": ">=",
                "threshold": 3,
                "count": 3,
                "window_start": at(4 - 60),
                "window_end": at(4),
                "as_of": at(4),
            }
        ], "as of the record that is laid over, the fourth"
        lines_of = {(each["name"], each["operator"], each["threshold"]) for each in now.figures}
        assert {("spent", ">", 1000), ("usual", None, None)} <= lines_of
        twice = await asyncio.gather(*(replicas.figures("account", each) for each in ("a1", "a1", "nobody")))
        assert twice[:2] == [now, now]
        assert shown(twice[2]) == {
            ("again", "max of amount"): (None, 0),
            ("burst", "count"): (0, 0),
            ("held", "count"): (0, 0),
            ("often", "count"): (0, 0),
            ("share", "spent"): (0, 0),
            ("share", "usual"): (None, 0),
        }
        assert (await replicas.figures("amount", "7")).figures == [], "no rule has such a key"
        more = asks.records(3)
        found = decisions([each for one in more for each in await replicas.judge([one])])
        assert found == [comparable(each) for each in pipeline.batch(lines([*asked, *more]))[1:]]

    run(pipeline, play)


def test_where_nothing_came_a_rule_is_missing_and_says_why(pipeline: Pipeline) -> None:
    pipeline.batch([])

    async def play(replicas: Replicas) -> None:
        await ready(replicas, 0)
        why = {"rule_id": "burst", "why": f"no record of {STREAM} came yet"}
        assert await replicas.figures("account", "a1") == KeyFigures([], [why])

    run(pipeline, play)


def test_where_no_replica_answers_it_says_so(pipeline: Pipeline) -> None:
    async def work() -> None:
        replicas = Replicas(str(pipeline.folder))
        replicas._gone_s -= 60
        with pytest.raises(RetryableError, match="the figures cannot be computed now: no replica is ready"):
            await replicas.figures("account", "a1")

    asyncio.run(work())


def test_a_copy_that_fails_or_ends_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    failed = (
        ((ForkReply(error="KeyError: x"),), "KeyError: x"),
        ((), "the process that judged it ended"),
        ((ForkReply(dry=[KeyFigures([], [], "it ended")]),), "it ended"),
    )

    async def work(runs: DryRunQueue, clock: Clock, _: list[str]) -> None:
        for found, why in failed:
            answer = runs.put_key(KeyAsked("account", "a1"), lambda: None)
            token = runs.begin(runs.take())
            runs.judged_on(token, AsOf(7, 1, 0))
            await runs.receive(hello(token), ForkReplies(*found), Gone())  # type: ignore[arg-type]
            with pytest.raises(RetryableError, match=why):
                await answer
            clock.later_s += 10

    played(monkeypatch, work)
