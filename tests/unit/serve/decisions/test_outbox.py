"""What was answered gets into its stream, over failures and restarts, in its order."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from crossline.basics.errors import RetryableError, UsageError
from crossline.serve.decisions.outbox import AT_ONCE, SqliteOutbox, send_on
from crossline.serve.decisions.values import LogPosition, SubmittedRecord

from .fakes import FakeLog


def asked(name: str, stream: str = "payments") -> SubmittedRecord:
    return SubmittedRecord(0, stream, name, b'{"id": "%s"}' % name.encode(), "d", 5)


def test_what_is_put_is_there_after_a_restart_once_and_in_order(tmp_path: Path) -> None:
    path = tmp_path / "outbox.db"
    asyncio.run(SqliteOutbox(path).put([asked("b"), asked("a")]))
    asyncio.run(SqliteOutbox(path).put([asked("b"), asked("c")]))
    assert SqliteOutbox(path).waiting("payments") == [asked("b"), asked("a"), asked("c")]
    asyncio.run(SqliteOutbox(path).done(asked("a")))
    assert [each.record_id for each in SqliteOutbox(path).waiting("payments")] == ["b", "c"]


class Refusing(FakeLog):
    """Takes nothing at the first attempts."""

    attempts = 0

    async def append(self, given: Sequence[SubmittedRecord]) -> list[LogPosition]:
        self.attempts += 1
        if self.attempts < 3:
            raise RetryableError("away")
        return await super().append(given)


def test_what_waits_is_sent_on_until_its_stream_takes_it(tmp_path: Path) -> None:
    async def work() -> None:
        outbox, log, stop = SqliteOutbox(tmp_path / "outbox.db"), Refusing(), asyncio.Event()
        log.held.set()
        await outbox.put([asked("a"), asked("x", "elsewhere"), asked("b")])
        sent: list[str] = []

        def on_sent(_: str, record_id: str, __: LogPosition) -> None:
            sent.append(record_id)
            if len(sent) == 2:
                stop.set()

        await send_on(outbox, {"payments": log}, stop, on_sent)
        assert log.there == sent == ["a", "b"]
        assert [each.record_id for each in outbox.waiting("elsewhere")] == ["x"]

    asyncio.run(work())


def test_a_stream_that_takes_nothing_holds_up_no_other(tmp_path: Path) -> None:
    """Nor do many of a stream that the pipeline has no more."""

    async def work() -> None:
        outbox, stop = SqliteOutbox(tmp_path / "outbox.db"), asyncio.Event()
        away, there = FakeLog(error=RetryableError("away")), FakeLog()
        there.held.set()
        away.held.set()
        await outbox.put([asked(f"g{n}", "gone") for n in range(AT_ONCE)])
        await outbox.put([asked("a", "away"), asked("b")])
        async with asyncio.timeout(60):
            await send_on(outbox, {"away": away, "payments": there}, stop, lambda *_: stop.set())
        assert there.there == ["b"]
        assert [each.record_id for each in outbox.waiting("away")] == ["a"]

    asyncio.run(work())


class Never(FakeLog):
    """One of them it never takes."""

    async def append(self, given: Sequence[SubmittedRecord]) -> list[LogPosition]:
        if given[0].record_id == "a":
            raise UsageError("no key")
        return await super().append(given)


def test_one_that_its_stream_never_takes_holds_up_no_other(tmp_path: Path) -> None:
    async def work() -> None:
        outbox, log, stop = SqliteOutbox(tmp_path / "outbox.db"), Never(), asyncio.Event()
        log.held.set()
        await outbox.put([asked("a"), asked("b")])
        await send_on(outbox, {"payments": log}, stop, lambda *_: stop.set())
        assert log.there == ["b"]
        assert outbox.waiting("payments") == []

    asyncio.run(work())


def test_one_that_was_given_up_is_sent_again_when_it_is_answered_again(tmp_path: Path) -> None:
    """Its stream did not take it, its answer went by age, and it was asked about again."""

    async def work() -> None:
        outbox = SqliteOutbox(tmp_path / "outbox.db")
        old, new = (
            SubmittedRecord(1, "payments", "t1", b"{}", "d1", 5),
            SubmittedRecord(2, "payments", "t1", b'{"a": 1}', "d2", 6),
        )
        await outbox.put([old])
        await outbox.park(old)
        assert outbox.waiting("payments") == []
        await outbox.put([new])
        (found,) = outbox.waiting("payments")
        assert (found.raw, found.digest, found.ingest_ms) == (b'{"a": 1}', "d2", 6)
        await outbox.put([old])
        assert outbox.waiting("payments") == [found], "one that is sent stays as it is"

    asyncio.run(work())
