"""Events of both sources: each id resumes in batches and in revisions of answers, whatever was sent in between."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager, closing
from pathlib import Path
from typing import Any

import orjson
import pytest

from crossline.io.sinks.base import Delivery
from crossline.runtime.pipeline.feed_sink import FeedSink
from crossline.serve.app.events import AllEvents
from crossline.serve.cases.cases import Cases
from crossline.serve.cases.changes import CaseChanges
from crossline.serve.cases.service import CaseService
from crossline.serve.feed.reader import FeedReader
from crossline.serve.http.events.source import EventsGoneError, LiveEvent
from crossline.serve.revisions.revision_log import RevisedLog
from crossline.serve.revisions.values import Revision

ENDS: tuple[Mapping[str, Any], Mapping[str, Any]] = ({"payments": {}}, {"payments": {"00000001.jsonl": 1}})
IN_FORCE = {"policy_version": 1, "rules": {"payments": []}, "on_time_ms": {"payments": []}}


class Shop:
    """A pipeline that writes its feed, and an API that finds answers to be others."""

    def __init__(self, folder: Path) -> None:
        self.sink = FeedSink(folder / "feed", lambda _: ENDS, lambda: IN_FORCE, clock_ms=lambda: 0)
        self.sink.open()
        self.reader = FeedReader(folder / "feed", poll_s=0.001)
        self.revised = RevisedLog(folder / "revised.db")
        self.events = AllEvents(self.reader, self.revised)
        self.began_ms = 1_000

    def batch(self, number: int, *alerts: str) -> None:
        given = [
            {"alert_id": each, "kind": "alert", "rule_id": "burst", "key": {"account": "a1"}, "delivered_at": None}
            for each in alerts
        ]
        self.sink.deliver(Delivery("shop", number, alerts=given, checkpoint="c1", began_ms=self.began_ms))

    def revise(self, name: str) -> None:
        body = {"kind": "revision", "revision_id": name, "stream": "payments", "was": "allow", "decision": "block"}
        self.revised.put([Revision(name, "payments", name, body)])
        self.revised.notify()

    async def id(self, text: str) -> str:
        """An id of this API, written by hand but for whose it is: that it makes itself."""
        return f"{text}~{(await self.events._newest()).life}"

    async def beginning(self) -> str:
        return await self.id(".0")

    async def revisions_followed(self) -> None:
        """Wait until a client follows revisions, from before the next one."""
        while self.revised._watching is None:  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(0)

    @asynccontextmanager
    async def listen(self, after: str | None) -> AsyncIterator[Callable[[int], Awaitable[list[LiveEvent]]]]:
        """Gives the next so many events."""
        async with aclosing(self.events.follow(after)) as found:

            async def take(count: int) -> list[LiveEvent]:
                return [await anext(found) for _ in range(count)]

            yield take


def ids_of(events: list[LiveEvent]) -> list[str]:
    """What each is about."""
    lines = [orjson.loads(each.body) for each in events]
    return [each.get("alert_id") or each["revision_id"] for each in lines]


def with_shop(folder: Path, work: Callable[[Shop], Awaitable[None]]) -> None:
    async def run() -> None:
        shop = Shop(folder)
        try:
            await asyncio.wait_for(work(shop), 60)
        finally:
            await shop.reader.close()

    asyncio.run(run())


def test_from_any_event_on_the_rest_of_both_comes(tmp_path: Path) -> None:
    """Whichever order the two were merged in, who breaks off after any event gets every other one, and none twice."""

    async def work(shop: Shop) -> None:
        shop.batch(0, "a0", "a1")
        shop.revise("r0")
        shop.batch(1, "a2")
        shop.revise("r1")
        async with shop.listen(await shop.beginning()) as take:
            whole = await take(5)
        assert sorted(ids_of(whole)) == ["a0", "a1", "a2", "r0", "r1"]
        assert [name for name in ids_of(whole) if name[0] == "a"] == ["a0", "a1", "a2"]
        assert [name for name in ids_of(whole) if name[0] == "r"] == ["r0", "r1"]
        assert {each.kind for each in whole} == {"alert", "revision"}
        for number, each in enumerate(whole[:-1]):
            async with shop.listen(each.id) as take:
                rest = await take(4 - number)
            assert sorted(ids_of(whole[: number + 1]) + ids_of(rest)) == ["a0", "a1", "a2", "r0", "r1"], each.id

    with_shop(tmp_path, work)


def test_from_now_on(tmp_path: Path) -> None:
    async def work(shop: Shop) -> None:
        shop.batch(0, "a0")
        shop.revise("r0")
        async with shop.listen(None) as take:
            waiting = asyncio.create_task(take(1))
            await shop.revisions_followed()
            shop.revise("r1")
            (first,) = await waiting
            assert (ids_of([first]), first.kind) == (["r1"], "revision")
            shop.batch(1, "a1")
            (second,) = await take(1)
            assert (ids_of([second]), second.key) == (["a1"], {"account": "a1"})
        # The first was sent before any event of a batch, and still its id resumes after the batch that there was.
        async with shop.listen(first.id) as take:
            assert ids_of(await take(1)) == ["a1"]

    with_shop(tmp_path, work)


def test_before_there_is_a_batch(tmp_path: Path) -> None:
    async def work(shop: Shop) -> None:
        async with shop.listen(None) as take:
            waiting = asyncio.create_task(take(1))
            await shop.revisions_followed()
            shop.revise("r0")
            (first,) = await waiting
        assert first.id.startswith(".")
        shop.batch(0, "a0")
        async with shop.listen(first.id) as take:
            assert ids_of(await take(1)) == ["a0"]

    with_shop(tmp_path, work)


@pytest.mark.parametrize(
    "wrong",
    [
        "",
        "x",
        "0-0.1.2",
        "0-0.-1",
        "0-0.01",
        "-1.0",
        "0.5-1",
        "٣-0.1",
        "0-0.1 ",
        "1" * 300,
        "0-0.99",
        ".",
        "0-0",
        "0-0.1",
    ],
)
def test_an_id_that_is_none_or_of_what_is_gone_is_a_gap(tmp_path: Path, wrong: str) -> None:
    async def work(shop: Shop) -> None:
        shop.batch(0, "a0")
        for each in (wrong, await shop.id(wrong)) if wrong != "0-0.1" else (wrong,):
            async with shop.listen(each) as take:
                with pytest.raises(EventsGoneError):
                    await take(2)

    with_shop(tmp_path, work)


def test_an_id_of_another_checkpoint_or_of_an_api_that_is_ahead_reports_nothing_twice(tmp_path: Path) -> None:
    async def work(shop: Shop) -> None:
        for number in range(3):
            shop.batch(number, f"a{number}")
        async with shop.listen(await shop.id("3-0.0")) as take:  # it is to come
            shop.batch(3, "a3", "b3")
            assert ids_of(await take(1)) == ["b3"]
        async with shop.listen(await shop.id("5-0.0")) as take:
            with pytest.raises(EventsGoneError, match=r"batch 5 of 5-0\.0~\w+ has not come here: the newest is 3"):
                await take(1)

    with_shop(tmp_path, work)


def test_it_ends_with_the_server_and_leaves_nothing_running(tmp_path: Path) -> None:
    async def work(shop: Shop) -> None:
        async with shop.listen(await shop.beginning()) as take:
            waiting = asyncio.create_task(take(1))
            await shop.revisions_followed()
            await shop.reader.close()
            with pytest.raises(StopAsyncIteration):
                await waiting
        await asyncio.sleep(0)
        assert shop.revised._watching is None

    with_shop(tmp_path, work)


def test_an_id_of_another_life_is_not_taken_for_one_of_this(tmp_path: Path) -> None:
    """The folder of the API was lost, and another one began: its numbers are as high by now, and mean others."""
    ids: list[str] = []

    async def before(shop: Shop) -> None:
        shop.batch(0, "a0", "b0", "c0")
        shop.revise("r0")
        async with shop.listen(await shop.beginning()) as take:
            ids.extend(each.id for each in await take(4))

    async def after(shop: Shop) -> None:
        shop.batch(0, "x0", "y0", "z0")
        for number in range(3):
            shop.revise(f"s{number}")
        for each in ids:
            async with shop.listen(each) as take:
                with pytest.raises(EventsGoneError, match="is of another API, or of one whose folder is gone"):
                    await take(1)

    async def again(shop: Shop) -> None:
        async with shop.listen(ids[-1]) as take:
            shop.batch(1, "a1")
            assert ids_of(await take(1)) == ["a1"]

    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    with_shop(tmp_path / "one", before)
    with_shop(tmp_path / "two", after)
    with_shop(tmp_path / "one", again)


def test_an_id_of_another_checkpoint_is_not_taken_for_one_of_this(tmp_path: Path) -> None:
    """The API's folder is the same, and the pipeline began anew: batch 0 is another one."""
    ids: list[str] = []

    async def before(shop: Shop) -> None:
        shop.batch(0, "a0", "b0")
        async with shop.listen(await shop.beginning()) as take:
            ids.extend(each.id for each in await take(2))

    async def after(shop: Shop) -> None:
        shop.began_ms = 2_000
        shop.batch(0, "x0", "y0", "z0")
        async with shop.listen(ids[0]) as take:
            with pytest.raises(EventsGoneError, match=r"batch 0 of .* is of another checkpoint"):
                await take(1)

    with_shop(tmp_path, before)
    for each in (tmp_path / "feed").iterdir():
        each.unlink()
    with_shop(tmp_path, after)


def test_changes_of_cases_of_another_file_are_not_gone_on_from(tmp_path: Path) -> None:
    async def work() -> None:
        lives = []
        for name in ("one", "two", "one"):
            with closing(Cases(tmp_path / f"{name}.db")) as cases:
                changes = CaseChanges(CaseService(cases))
                reader = FeedReader(tmp_path / "feed", poll_s=0.001)
                events = AllEvents(reader, RevisedLog(tmp_path / "revised.db"), changes)
                lives.append((await events._newest()).life)
                ahead = f".0.7~{lives[-1]}"
                async with aclosing(events.follow(ahead)) as found:
                    with pytest.raises(EventsGoneError, match="has not come here"):
                        await anext(found)
                await reader.close()
        assert lives[0] == lives[2] != lives[1]

    asyncio.run(work())
