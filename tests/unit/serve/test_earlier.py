"""A process of the API goes on where the one before ended: each answer is held to its own batch."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import orjson
import pytest

from crossline.basics.errors import SourceError
from crossline.io.feed.files import write_batch
from crossline.io.recordlog.filelog import FileRecordLog
from crossline.io.recordlog.topic import KafkaRecordLog
from crossline.serve import backlog
from crossline.serve.decisions.reconciliation import Reconciliation
from crossline.serve.decisions.records import StreamRecords
from crossline.serve.decisions.values import LogPosition, SubmittedRecord
from crossline.serve.feed.reader import FeedReader
from crossline.serve.recovery import MARK, ProgressFile, begin_of, take_up
from crossline.settings.kafka import KafkaSourceSettings
from crossline.settings.sources import ApiSettings

from .decisions.fakes import PAYMENTS, payment
from .decisions.test_settling import of_stream

FIRST = "00000001.jsonl"
API = ApiSettings.model_validate({"kind": "api", "path": "in"})
TOPIC = KafkaSourceSettings.model_validate({"kind": "kafka", "brokers": "localhost:1", "topic": "p", "key": "account"})


class Replicas:
    """Says what was laid over."""

    def __init__(self) -> None:
        self.laid: dict[int, str] = {}
        self.places: dict[str, LogPosition] = {}

    def lay(self, asked: list[SubmittedRecord]) -> None:
        self.laid |= {each.number: each.record_id for each in asked}

    def placed(self, number: int, place: LogPosition) -> None:
        self.places[self.laid[number]] = place


class Ledger:
    """Answers of before, all ``review`` and ``peek``."""

    def __init__(self, *names: str) -> None:
        self._names = names

    def unsettled(self, since_ms: int, most: int) -> list[tuple[str, str, str, str, str]]:
        assert since_ms <= 0 < most
        return [("payments", name, f"d-{name}", "peek", "review") for name in self._names]


def write(folder: Path, number: int, log: str, begin: int, end: int, *blocked: str) -> None:
    folder.mkdir(exist_ok=True)
    ends, begins = ({"payments": {log: at}} for at in (end, begin))
    lines = [orjson.dumps(of_stream(name, "block")) for name in blocked]
    write_batch(folder, {"batch": number, "planned_ms": 5, "ends": ends, "begins": begins}, {"decisions": lines})


def revised_after(folder: Path, after: int, settling: Reconciliation, last: int) -> list[tuple[str, str, int]]:
    async def work() -> list[tuple[str, str, int]]:
        reader, found = FeedReader(folder), []
        try:
            async for batch in reader.follow(after=after):
                found += [(e.record_id, str(e.decision["decision"]), e.batch) for e in settling.batch(batch)]
                if batch.number == last:
                    break
        finally:
            await reader.close()
        return found

    return asyncio.run(work())


def begun(folder: Path, source: Any, log_of: Any, answers: Ledger) -> tuple[int, Reconciliation, Replicas]:
    """What a process begins with."""

    async def work() -> tuple[int, Reconciliation, Replicas]:
        settling, replicas, reader = Reconciliation(), Replicas(), FeedReader(folder / "feed")
        records = StreamRecords({"payments": PAYMENTS})
        try:
            given = (reader, ProgressFile(folder), answers, settling, replicas)
            taken = await take_up({"payments": source}, {"payments": log_of}, records, *given)  # type: ignore[arg-type]
            await backlog.placed_later(taken.left, again_s=0.0)
        finally:
            await reader.close()
        return taken.after, settling, replicas

    return asyncio.run(work())


def test_answers_whose_batches_came_while_no_api_was_there_are_held_to_them(tmp_path: Path) -> None:
    """Worked by hand: the process ended at batch 1. Batch 2 has a, at which no rule held, and b; none has c yet."""

    async def put() -> list[LogPosition]:
        log = FileRecordLog(tmp_path / "in", "id")
        await log.open()
        asked = [
            SubmittedRecord(n, "payments", name, payment(name), "", 0) for n, name in enumerate(("z", "a", "b", "c"))
        ]
        places = await log.append(asked)
        await log.close()
        return places

    _, a, b, c = asyncio.run(put())
    feed = tmp_path / "feed"
    write(feed, 1, FIRST, 0, a.at)
    write(feed, 2, FIRST, a.at, c.at, "b")
    write(feed, 3, FIRST, c.at, c.at)
    (tmp_path / MARK).write_bytes(b'{"batch": 1}')
    log = FileRecordLog(tmp_path / "in", "id")
    after, settling, replicas = begun(tmp_path, API, log, Ledger("a", "b", "c"))
    assert (after, replicas.places) == (1, {"c": c})
    assert revised_after(feed, after, settling, 3) == [("b", "block", 2), ("a", "allow", 2)]
    assert settling.waiting == 1
    write(feed, 4, FIRST, c.at, c.at + 1)
    assert revised_after(feed, 3, settling, 4) == [("c", "allow", 4)]
    assert b.at < c.at


def test_a_process_that_ended_before_the_first_batch_is_gone_on_from(tmp_path: Path) -> None:
    """The pipeline's first batch comes before the next process looks: its answers are held to it all the same."""

    async def put() -> list[LogPosition]:
        log = FileRecordLog(tmp_path / "in", "id")
        await log.open()
        places = await log.append(
            [SubmittedRecord(n, "payments", name, payment(name), "", 0) for n, name in enumerate("ab")]
        )
        await log.close()
        return places

    _, b = asyncio.run(put())
    after, _, _ = begun(tmp_path, API, FileRecordLog(tmp_path / "in", "id"), Ledger())
    assert after == -1
    write(tmp_path / "feed", 0, FIRST, 0, b.at + 1, "b")
    after, settling, _ = begun(tmp_path, API, FileRecordLog(tmp_path / "in", "id"), Ledger("a", "b"))
    assert after == -1
    assert sorted(revised_after(tmp_path / "feed", after, settling, 0)) == [("a", "allow", 0), ("b", "block", 0)]


def test_over_a_topic_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stands = [(LogPosition("p-0", n), payment(name), 100 + n) for n, name in enumerate(("z", "a", "b", "c"))]

    def read_tail(_: Any, topic: str, ends: dict[str, int], *__: Any) -> list[Any]:
        assert topic == "p"
        return [each for each in stands if each[0].at >= ends["p-0"]]

    monkeypatch.setattr("crossline.io.recordlog.topic_search.read_tail", read_tail)
    feed = tmp_path / "feed"
    write(feed, 1, "p-0", 0, 1)
    write(feed, 2, "p-0", 1, 3, "b")
    (tmp_path / MARK).write_bytes(b'{"batch": 1}')
    after, settling, replicas = begun(tmp_path, TOPIC, None, Ledger("a", "b", "c"))
    assert (after, replicas.places) == (1, {"c": LogPosition("p-0", 3)})
    assert revised_after(feed, after, settling, 2) == [("b", "block", 2), ("a", "allow", 2)]


def topic_of(monkeypatch: pytest.MonkeyPatch, *names: str, away: int = 0) -> list[Any]:
    """A topic whose messages are about these; its brokers do not answer the first ``away`` times."""
    stands = [(LogPosition("p-0", n), payment(name), 100 + n) for n, name in enumerate(names)]
    asked: list[int] = []

    def read_tail(_: Any, __: str, ends: dict[str, int], *___: Any) -> list[Any]:
        asked.append(1)
        if len(asked) <= away:
            raise SourceError("the brokers do not answer")
        return [each for each in stands if each[0].at >= ends["p-0"]]

    monkeypatch.setattr("crossline.io.recordlog.topic_search.read_tail", read_tail)
    return asked


def test_over_a_topic_one_that_stands_twice_is_held_to_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The brokers had a when the process was killed, without an acknowledgement: it is sent again, and refused.

    No rule holds at a, so no batch has a line of it.
    """
    topic_of(monkeypatch, "z", "a", "a")
    feed = tmp_path / "feed"
    write(feed, 1, "p-0", 0, 1)
    (tmp_path / MARK).write_bytes(b'{"batch": 1}')
    after, settling, _ = begun(tmp_path, TOPIC, None, Ledger("a"))
    settling.placed("payments", "a", LogPosition("p-0", 2))  # as the outbox reports it
    write(feed, 2, "p-0", 1, 2)
    assert revised_after(feed, after, settling, 2) == [("a", "allow", 2)]
    assert settling.waiting == 0


def test_over_a_topic_whose_brokers_answer_later_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = topic_of(monkeypatch, "z", "a", "b", away=3)
    feed = tmp_path / "feed"
    write(feed, 1, "p-0", 0, 1)
    (tmp_path / MARK).write_bytes(b'{"batch": 1}')
    after, settling, _ = begun(tmp_path, TOPIC, None, Ledger("a"))
    assert len(asked) == 4
    write(feed, 2, "p-0", 1, 3)
    assert revised_after(feed, after, settling, 2) == [("a", "allow", 2)]


def test_what_a_topic_has_is_not_put_there_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process was killed before it answered: a retry gets the position of the first record."""
    topic_of(monkeypatch, "z", "a")
    write(tmp_path / "feed", 1, "p-0", 0, 1)
    (tmp_path / MARK).write_bytes(b'{"batch": 1}')

    async def work() -> None:
        log = KafkaRecordLog(TOPIC, "p", "account")
        settling, reader = Reconciliation(), FeedReader(tmp_path / "feed")
        records = StreamRecords({"payments": PAYMENTS})
        given = (reader, ProgressFile(tmp_path), Ledger(), settling, Replicas())
        try:
            await take_up({"payments": TOPIC}, {"payments": log}, records, *given)  # type: ignore[arg-type]
            again = SubmittedRecord(1, "payments", "a", payment("a"), "", 0)
            assert await log.put(again) == LogPosition("p-0", 1)
            assert await log.append([again, again]) == [LogPosition("p-0", 1)] * 2
        finally:
            await reader.close()
            await log.close()

    asyncio.run(asyncio.wait_for(work(), 60))


@pytest.mark.parametrize(
    ("noted", "begin"),
    [
        (None, 30),  # as before there were marks
        (b"", 30),
        (b"{}", 30),
        (b'{"batch": 31}', 30),  # of another checkpoint
        (b'{"batch": 30}', 20),
        (b'{"batch": 25}', 15),
        (b'{"batch": 3}', 12),  # what is not kept any more counts as missed
    ],
)
def test_where_it_begins(tmp_path: Path, noted: bytes | None, begin: int) -> None:
    feed = tmp_path / "feed"
    for number in range(12, 31):
        write(feed, number, "p-0", number, number + 1)
    if noted is not None:
        (tmp_path / MARK).write_bytes(noted)

    async def newest() -> Any:
        reader = FeedReader(feed)
        try:
            return await reader.newest()
        finally:
            await reader.close()

    found = begin_of(feed, ProgressFile(tmp_path), asyncio.run(newest()))
    assert found is not None
    assert found.number == begin


def test_a_mark_says_where_it_was_set_last(tmp_path: Path) -> None:
    mark = ProgressFile(tmp_path)
    assert mark.read() is None
    mark.note(7)
    mark.note(8)  # within a second of the one before
    assert ProgressFile(tmp_path).read() == 7
    ProgressFile(tmp_path / "gone").note(9)  # logged, and no error
