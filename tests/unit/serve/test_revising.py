"""Each answer that the stream decided otherwise reaches the ledger and all subscribers, over kills."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from tests.connectors.postgres_kit import place_in

from crossline.io.feed.files import write_batch
from crossline.io.postgres.client import DatabaseAddress
from crossline.serve.decisions.adapters import SqliteReads
from crossline.serve.decisions.reconciliation import Reconciliation
from crossline.serve.decisions.values import LogPosition as At
from crossline.serve.feed.reader import FeedReader
from crossline.serve.ledger.group import LedgerGroup
from crossline.serve.ledger.postgres.ledger import PostgresLedger
from crossline.serve.ledger.postgres.reads import PostgresReads
from crossline.serve.ledger.sqlite import SqliteLedger
from crossline.serve.reconciler import PUSHED, Reconciler
from crossline.serve.recovery import ProgressFile
from crossline.serve.revisions.pusher import RevisionPusher
from crossline.serve.revisions.queue import QueueFullError
from crossline.serve.revisions.values import Revision
from crossline.settings.process.serve import ServeSettings

from .decisions.test_settling import of_stream
from .ledger.ledgerkit import entry

if TYPE_CHECKING:
    from dev.services.postgres import LocalPostgres

LOG = "00000001.jsonl"
AT = {"t1": 0, "t2": 1}  # where their records stand
WAIT_S = 60.0


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CROSSLINE_TEST_KEY", "a key of a test, long enough")


@pytest.fixture
def place(postgres_server: LocalPostgres, postgres_schema: str) -> DatabaseAddress:
    return place_in(postgres_server, postgres_schema)


class Shop:
    """A folder of an API that answered `allow` about t1 and t2, which the stream blocks."""

    def __init__(self, folder: Path, shared: DatabaseAddress | None = None) -> None:
        self.folder = folder
        self.shared = shared
        (folder / "feed").mkdir()

    def ledger(self) -> SqliteLedger | PostgresLedger:
        return SqliteLedger(self.folder / "ledger.db") if self.shared is None else PostgresLedger(self.shared)

    def reads(self) -> SqliteReads | PostgresReads:
        return SqliteReads(self.folder / "ledger.db") if self.shared is None else PostgresReads(self.shared)

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
        lines = [orjson.loads(body) for (body,) in rows]
        return [(each["record_id"], each["was"], each["decision"]) for each in lines]

    def run(self, until: Callable[[LedgerGroup], Awaitable[bool]], after: int = -1, pending_max: int = 10) -> None:
        """A process of the API, which is killed once ``until`` says so."""
        address = {"url": "http://127.0.0.1:1/", "password_env": "CROSSLINE_TEST_KEY", "pending_max": pending_max}
        ledger = {} if self.shared is None else {"ledger": {"host": "localhost", "user": "me"}}
        settings = ServeSettings.model_validate({"revisions": [address], **ledger})

        async def whole() -> None:
            group = LedgerGroup(self.ledger())
            reader, settling = FeedReader(self.folder / "feed"), Reconciliation()
            reads = self.reads()
            for each in reads.unsettled(0, 100):
                settling.expect(*each, At(LOG, AT[each[1]]))
            reads.close()
            given = (reader, settling, group, settings, self.folder, after, ProgressFile(self.folder))
            async with Reconciler(*given), asyncio.timeout(WAIT_S):
                while not await until(group):  # noqa: ASYNC110 - a disk says when
                    await asyncio.sleep(0.01)
            await reader.close()
            await group.close()

        asyncio.run(whole())


def answered(shop: Shop, *names: str) -> None:
    with closing(shop.ledger()) as ledger:
        ledger.answer([entry(name) for name in names])


def test_what_waits_for_room_is_reported_after_a_kill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The address does not answer and no more may wait; the process is killed, and another one has room."""
    killed_for_want_of_room(Shop(tmp_path), monkeypatch)


def test_what_a_shared_ledger_has_is_reported_after_a_kill(
    tmp_path: Path, place: DatabaseAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ledger has the revision when the process is killed, and the queue does not."""
    killed_for_want_of_room(Shop(tmp_path, place), monkeypatch)
    with place.connect() as connection:
        assert connection.execute("SELECT count(*) FROM untold").fetchone() == (0,), "nothing is left to send"


def killed_for_want_of_room(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    refused, put = [], RevisionPusher.put

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
        counts = await group.call(lambda ledger: ledger.counts())
        return counts.revised == {"peek": 2} and len(shop.pushed()) > 1

    shop.run(none_is_left)
    assert shop.pushed() == [("t1", "allow", "block"), ("t2", "allow", "block")]


def test_of_two_apis_at_one_ledger_one_reports(tmp_path: Path, place: DatabaseAddress) -> None:
    """What the other has under way is its own, as long as it lives."""
    one, two = PostgresLedger(place), PostgresLedger(place)
    made = [Revision(f"r{number}", "payments", "t1", {"was": "allow", "cents": 10**30}) for number in range(3)]
    own = str(entry("t1").decision["decision_id"])
    with closing(two):
        one.answer([entry("t1")])
        for number, each in enumerate(made):
            assert one.revise(own, revision_of_stream(own, "t1", "block", number), each)
        assert not two.revise(own, revision_of_stream(own, "t1", "block", 0), made[0])
        one.mark_reported(["r1"])
        assert two.unreported(10) == []
        assert [each.revision_id for each in one.unreported(10)] == ["r0", "r2"], "a failed call reports nothing"
        one.close()
        assert two.unreported(1) == [made[0]]
        assert two.unreported(10) == [made[0], made[2]]
        two.mark_reported(["r0", "r2"])
        assert two.unreported(10) == []
        two.revise(own, revision_of_stream(own, "t1", "allow", 4), replace(made[0], revision_id="r4"))
        assert two.expire(1 << 50) == 1
        assert two.unreported(10) == [], "it goes with its answer"


def revision_of_stream(ledger_id: str, name: str, decision: str, number: int) -> dict[str, Any]:
    body = {**of_stream(name, decision), "kind": "revision", "revision": number, "revises": ledger_id}
    return {**body, "decision_id": f"{name}-{number}", "because": "c"}


def test_a_revision_of_the_stream_is_reported_though_the_ledger_had_it_before_a_kill(tmp_path: Path) -> None:
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
        return ProgressFile(tmp_path).read() is not None and bool(shop.pushed())

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


def test_a_batch_whose_lines_are_damaged_holds_up_none_behind_it(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    answered(shop, "t1", "t2")
    shop.batch(0, 0, 1, of_stream("t1", "block"))
    damaged = tmp_path / "feed" / "0.jsonl"
    damaged.write_bytes(damaged.read_bytes().replace(b'"decision":"block"', b'"decision:"block"'))
    shop.batch(1, 1, 2, of_stream("t2", "block"))

    async def second_is_pushed(_: LedgerGroup) -> bool:
        return ("t2", "allow", "block") in shop.pushed()

    shop.run(second_is_pushed)
