"""Each answer that the stream decided otherwise reaches the ledger and whoever is to be notified, over kills."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import orjson
import pytest

from crossline.connectors.feed.files import write_batch
from crossline.core.settings.process.serve import ServeSettings
from crossline.serve.decisions.adapters import SqliteReads
from crossline.serve.decisions.settling import Settling
from crossline.serve.decisions.values import Place
from crossline.serve.earlier import Mark
from crossline.serve.feed.reader import FeedReader
from crossline.serve.ledger.group import LedgerGroup
from crossline.serve.ledger.sqlite import SqliteLedger
from crossline.serve.revising import PUSHED, Revising
from crossline.serve.revisions.pusher import RevisionPusher
from crossline.serve.revisions.queue import QueueFullError

from .decisions.test_settling import of_stream
from .ledger.ledgerkit import entry

LOG = "00000001.jsonl"
AT = {"t1": 0, "t2": 1}  # where their records stand
WAIT_S = 60.0


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CROSSLINE_TEST_KEY", "a key of a test, long enough")


class Shop:
    """A folder of an API that answered `allow` about t1 and t2, which the stream blocks."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "feed").mkdir()

    def batch(self, number: int, begin: int, end: int, *decisions: dict[str, Any]) -> None:
        ends, begins = ({"payments": {LOG: at}} for at in (end, begin))
        head = {"batch": number, "planned_ms": 5, "ends": ends, "begins": begins}
        write_batch(self.folder / "feed", head, {"decisions": [orjson.dumps(each) for each in decisions]})

    def pushed(self) -> list[tuple[str, str, str]]:
        """What waits for the address: of which record, what it was, what it is."""
        if not (self.folder / PUSHED).exists():
            return []
        with closing(sqlite3.connect(self.folder / PUSHED)) as connection:
            rows = connection.execute("SELECT body FROM revisions ORDER BY seq").fetchall()
        said = [orjson.loads(body) for (body,) in rows]
        return [(each["record_id"], each["was"], each["decision"]) for each in said]

    def run(self, until: Callable[[LedgerGroup], Awaitable[bool]], after: int = -1, pending_max: int = 10) -> None:
        """A process of the API, which is killed once ``until`` says so."""
        address = {"url": "http://127.0.0.1:1/", "password_env": "CROSSLINE_TEST_KEY", "pending_max": pending_max}
        settings = ServeSettings.model_validate({"revisions": [address]})

        async def whole() -> None:
            group = LedgerGroup(SqliteLedger(self.folder / "ledger.db"))
            reader, settling = FeedReader(self.folder / "feed"), Settling()
            for each in SqliteReads(self.folder / "ledger.db").unsettled(0, 100):
                settling.expect(*each, Place(LOG, AT[each[1]]))
            given = (reader, settling, group, settings, self.folder, after, Mark(self.folder))
            async with Revising(*given), asyncio.timeout(WAIT_S):
                while not await until(group):  # noqa: ASYNC110 - a disk says when
                    await asyncio.sleep(0.01)
            await reader.close()
            await group.close()

        asyncio.run(whole())


def answered(shop: Shop, *names: str) -> None:
    ledger = SqliteLedger(shop.folder / "ledger.db")
    ledger.answer([entry(name) for name in names])
    ledger.close()


def test_what_waits_for_room_is_told_after_a_kill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The address does not answer and no more may wait; the process is killed, and another one has room."""
    shop, refused, put = Shop(tmp_path), [], RevisionPusher.put

    def noting(self: RevisionPusher, revisions: Any) -> int:
        try:
            return put(self, revisions)
        except QueueFullError as error:
            refused.append(error)
            raise

    monkeypatch.setattr(RevisionPusher, "put", noting)
    answered(shop, "t1", "t2")
    shop.batch(0, 0, 1, of_stream("t1", "block"))
    shop.batch(1, 1, 2, of_stream("t2", "block"))

    async def no_more_may_wait(_: LedgerGroup) -> bool:
        return bool(refused)

    shop.run(no_more_may_wait, pending_max=1)
    assert shop.pushed() == [("t1", "allow", "block")]

    async def none_is_left(group: LedgerGroup) -> bool:
        return (await group.call(lambda ledger: ledger.counts())).revised == {"peek": 2}

    shop.run(none_is_left)
    assert shop.pushed() == [("t1", "allow", "block"), ("t2", "allow", "block")]


def revision_of_stream(ledger_id: str, name: str, decision: str, number: int) -> dict[str, Any]:
    said = {**of_stream(name, decision), "kind": "revision", "revision": number, "revises": ledger_id}
    return {**said, "decision_id": f"{name}-{number}", "because": "c"}


def test_a_revision_of_the_stream_is_told_though_the_ledger_had_it_before_a_kill(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    answered(shop, "t1")
    own = str(entry("t1").decision["decision_id"])
    revised = revision_of_stream(own, "t1", "block", 1)
    shop.batch(0, 0, 1, {**of_stream("t1", "allow")}, revised)
    ledger = SqliteLedger(tmp_path / "ledger.db")
    assert ledger.revise(own, revised)
    ledger.close()
    shop.batch(1, 1, 1)

    async def followed(_: LedgerGroup) -> bool:
        return Mark(tmp_path).read() is not None and bool(shop.pushed())

    shop.run(followed)
    shop.run(followed)
    assert shop.pushed() == [("t1", "allow", "block")]


def test_a_revision_finds_the_answer_of_another_version_of_the_policy(tmp_path: Path) -> None:
    """The fallback answered by the policy that this process began with, and the pipeline has begun with the next."""
    shop = Shop(tmp_path)
    answered(shop, "t1")
    shop.batch(0, 0, 1, of_stream("t1", "allow"), revision_of_stream("of-version-2", "t1", "block", 1))

    async def revised(group: LedgerGroup) -> bool:
        found = await group.call(lambda ledger: ledger.by_record("payments", "t1"))
        return found is not None and [each["decision"] for each in found.revisions] == ["block"]

    shop.run(revised)
    assert shop.pushed() == [("t1", "allow", "block")]
