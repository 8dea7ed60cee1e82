"""Changes of cases beside what batches give: one stream of events, gone on from in both."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from pathlib import Path

import orjson
from tests.unit.serve.cases.casekit import Harness, alert
from tests.unit.serve.cases.test_following import batch

from crossline.serve.app.events import AllEvents
from crossline.serve.cases.actions.values import CaseAction
from crossline.serve.cases.changes import CaseChanges
from crossline.serve.cases.service import CaseService
from crossline.serve.feed.reader import FeedReader
from crossline.serve.http.events.source import LiveEvent
from crossline.serve.revisions.revision_log import RevisedLog


def test_a_change_is_reported_and_gone_on_from(tmp_path: Path) -> None:
    async def events_after(after: str | None, count: int, harness: Harness, act: CaseAction | None) -> list[LiveEvent]:
        reader, revised = FeedReader(tmp_path / "feed", poll_s=0.001), RevisedLog(tmp_path / "revised.db")
        body: list[CaseChanges] = []
        working = CaseService(harness.cases, clock_ms=lambda: harness.now_ms, on_change=lambda: body[0].notify())  # noqa: PLW0108 - it is made below
        body.append(CaseChanges(working))
        events = AllEvents(reader, revised, body[0])
        if after is not None and "~" not in after:
            after = f"{after}~{(await events._newest()).life}"  # written by hand, but for whose it is
        try:
            async with asyncio.timeout(30), aclosing(events.follow(after)) as found:
                first = asyncio.ensure_future(anext(found))
                await asyncio.sleep(0)
                if act is not None:
                    await asyncio.to_thread(working.act, "C-1", act, "ada")
                return [await first, *[await anext(found) for _ in range(count - 1)]]
        finally:
            body[0].close()
            await reader.close()

    harness = Harness(tmp_path)
    batch(tmp_path, 0, alert("x1"))
    harness.take(alert("x1"))
    everything = asyncio.run(events_after("0-0.0.0", 1, harness, None))
    assert [(each.kind, each.id.partition("~")[0]) for each in everything] == [("case", "0-0.0.1")]
    assert everything[0].key == {"account_id": "a1"}
    (news,) = asyncio.run(events_after(everything[0].id, 1, harness, CaseAction("assign")))
    assert (news.kind, news.id.partition("~")[0], orjson.loads(news.body)["assignee"]) == ("case", "0-0.0.2", "ada")
    again = asyncio.run(events_after(".0.0", 2, harness, None))
    assert {each.kind for each in again} == {"alert", "case"}
    harness.close()
