"""A feed as the pipeline writes it and the API reads it, over gaps, restarts and new checkpoints."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import orjson
import pytest

from crossline.basics.deadletter import DeadLetter
from crossline.basics.errors import SinkError, StoppedError, UsageError
from crossline.basics.streams.api_record import LogPosition
from crossline.io.feed.files import batches_in
from crossline.io.sinks.base import Delivery, LateRecord
from crossline.rules.policy.hits import DecidedRecord
from crossline.rules.policy.policy import Policy, load_policy
from crossline.runtime.pipeline.feed_sink import FeedSink
from crossline.serve.feed.exact import Exact, NotDecidedError
from crossline.serve.feed.reader import EventId, FeedReader

T = TypeVar("T")
NOW_MS = 1_767_225_607_120
POLICY: Policy = load_policy("schema_version: 1\nversion: 2\n", "policy.yaml")
IN_FORCE = {
    "policy_version": 2,
    "rules": {"payments": [[-1, "first"], [NOW_MS, "second"]]},
    "on_time_ms": {"payments": [[-1, 45_000]]},
}


class Written:
    """A feed of one stream in one file, in which each batch has ten bytes."""

    def __init__(self, folder: Path, **bounds: int) -> None:
        self.sink = FeedSink(folder, self.ends, lambda: IN_FORCE, clock_ms=lambda: NOW_MS, **bounds)
        self.sink.open()

    @staticmethod
    def ends(batch: int) -> tuple[Mapping[str, Mapping[str, int]], Mapping[str, Mapping[str, int]]]:
        begins = {"payments": {"00000007.jsonl": 10 * batch} if batch else {}}
        return begins, {"payments": {"00000007.jsonl": 10 * (batch + 1)}}

    def write(self, *batches: int, **more: Any) -> None:
        for each in batches:
            self.sink.deliver(Delivery("shop", each, checkpoint="c1", began_ms=NOW_MS - 40, **more))


def decision(record_id: str, kind: str = "decision", **more: Any) -> dict[str, Any]:
    body = {"decision_id": f"d-{record_id}", "kind": kind, "revision": 0, "stream": "payments", "record_id": record_id}
    return {"schema_version": 1, **body, "decision": "block", "score": 40, "reasons": [{"rule_id": "burst"}], **more}


def alert(alert_id: str, kind: str = "alert", **more: Any) -> dict[str, Any]:
    return {"alert_id": alert_id, "kind": kind, "rule_id": "burst", "delivered_at": None, **more}


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(asyncio.wait_for(work, 60))


@asynccontextmanager
async def reading(folder: Path) -> AsyncIterator[FeedReader]:
    reader = FeedReader(folder)
    try:
        yield reader
    finally:
        await reader.close()


async def taken(reader: FeedReader, count: int, after: int = -1) -> list[tuple[int, int, bool]]:
    """Number, missed and anew of the next batches."""
    found: list[tuple[int, int, bool]] = []
    async with aclosing(reader.follow(after)) as batches:  # type: ignore[type-var]
        async for batch in batches:
            found.append((batch.number, batch.missed, batch.anew))
            if len(found) == count:
                break
    return found


def test_a_batch_says_what_it_gave(tmp_path: Path) -> None:
    letters = [DeadLetter("payments", "missing_field", "no id", "/in/00000007.jsonl", 13, b"{}")]
    late = [LateRecord("payments", "old", NOW_MS - 300_000, NOW_MS, 300_000, "/in/00000007.jsonl", 17)]
    shadow, inner = alert("s", "shadow"), alert("i", emit_to_sink=False)
    Written(tmp_path).write(
        1,
        alerts=[alert("a1"), shadow, inner, alert("a2", "correction", outcome="retracted")],
        decisions=[decision("p1"), decision("p0", "revision", revises="d-p0")],
        dead=letters,
        late=late,
        figures={"records": 7},
    )

    async def read() -> Any:
        async with reading(tmp_path) as reader:
            return await reader.batch(1)

    batch = run(read())
    assert (batch.number, batch.head["planned_ms"], batch.head["delivered_ms"]) == (1, NOW_MS - 40, NOW_MS)
    assert batch.head["ends"] == {"payments": {"00000007.jsonl": 20}}
    counts = {"records": 7, "decisions": 1, "revisions": 1, "alerts": 1, "corrections": 1, "dead": 1, "late": 1}
    assert batch.head["counts"] == counts
    assert [orjson.loads(line)["record_id"] for line in batch.section("decisions")] == ["p1", "p0"]
    assert [orjson.loads(line)["alert_id"] for line in batch.section("alerts")] == ["a1", "a2"]
    assert orjson.loads(batch.section("alerts")[0])["delivered_at"] == "2026-01-01T00:00:07.120Z"
    (dead,), (old,) = batch.section("dead"), batch.section("late")
    where = {"stream": "payments", "log": "00000007.jsonl"}
    wanted = {**where, "at": 13, "record_id": None, "reason": "missing_field", "detail": "no id"}
    assert orjson.loads(dead) == wanted
    assert orjson.loads(old).items() >= {**where, "at": 17, "record_id": "old", "reason": "late"}.items()


def test_batches_come_as_they_are_written_over_restarts_of_the_pipeline(tmp_path: Path) -> None:
    folder = tmp_path / "feed"

    async def meet() -> None:
        async with reading(folder) as reader:
            follower = asyncio.ensure_future(taken(reader, 5))
            other = asyncio.ensure_future(taken(reader, 2, after=2))
            await asyncio.sleep(0)
            Written(folder).write(0, 1, 2)
            await taken(reader, 3)
            Written(folder).write(2, 3, 4)  # the last one is run again
            assert await follower == [(number, 0, False) for number in range(5)]
            assert await other == [(3, 0, False), (4, 0, False)]

    run(meet())


def test_old_files_go_and_who_is_behind_is_reported(tmp_path: Path) -> None:
    Written(tmp_path, batches_max=4).write(*range(10))
    assert batches_in(tmp_path) == [6, 7, 8, 9]
    (tmp_path / "8.jsonl").unlink()

    async def meet() -> None:
        async with reading(tmp_path) as reader:
            assert await taken(reader, 3, after=1) == [(6, 4, False), (7, 0, False), (9, 1, False)]

    run(meet())
    Written(tmp_path, bytes_max=1).write(10)
    assert batches_in(tmp_path) == [10], "never the last"


def test_a_damaged_file_counts_as_missed(tmp_path: Path) -> None:
    Written(tmp_path).write(0, 1, 2, decisions=[decision("p")])
    whole = (tmp_path / "1.jsonl").read_bytes()
    for harm in (b"", whole[:50], whole[:-30], b"[]\n", b'{"schema_version": 2}\n', whole + b"{}\n"):
        (tmp_path / "1.jsonl").write_bytes(harm)

        async def meet() -> None:
            async with reading(tmp_path) as reader:
                assert await taken(reader, 2) == [(0, 0, False), (2, 1, False)]

        run(meet())


def test_a_checkpoint_that_was_begun_anew_is_reported(tmp_path: Path) -> None:
    folder = tmp_path / "feed"
    Written(folder).write(*range(5))

    async def meet() -> None:
        async with reading(folder) as reader:
            assert len(await taken(reader, 5)) == 5
            follower = asyncio.ensure_future(taken(reader, 2, after=4))
            await asyncio.sleep(0)
            shutil.rmtree(folder)
            Written(folder).write(0, 1)
            assert await follower == [(0, 0, True), (1, 0, False)]
        async with reading(folder) as later:  # the number is of the old one
            assert await taken(later, 1, after=812) == [(0, 0, True)]

    run(meet())


def test_a_reader_that_is_closed_lets_its_followers_go(tmp_path: Path) -> None:
    async def meet() -> None:
        async with reading(tmp_path) as reader:
            follower = asyncio.ensure_future(taken(reader, 1))
            waiting = asyncio.ensure_future(
                Exact(reader, POLICY).decision(record("p"), LogPosition("00000007.jsonl", 5))
            )
            await asyncio.sleep(0.01)
        assert await follower == []
        with pytest.raises(StoppedError, match="not followed any more"):
            await waiting

    run(meet())


def test_events_go_on_behind_an_id(tmp_path: Path) -> None:
    written = Written(tmp_path)
    written.write(0, decisions=[decision("p0")])
    written.write(
        1, decisions=[decision("p1"), decision("p0", "revision")], alerts=[alert("a1"), alert("c", "correction")]
    )
    written.write(2)
    written.write(3, alerts=[alert("a3")])
    every = [("0-0", "decision"), ("1-0", "decision"), ("1-1", "revision"), ("1-2", "alert"), ("1-3", "correction")]
    every += [("3-0", "alert")]

    async def events(after: str, count: int) -> list[tuple[str, str]]:
        found = []
        async with reading(tmp_path) as reader, aclosing(reader.events(EventId.of(after))) as reported:  # type: ignore[type-var]
            async for each in reported:
                assert each.value()["kind"] == each.kind
                found.append((str(each.id), each.kind))
                if len(found) == count:
                    break
        return found

    for number, (after, _) in enumerate(every[:-1], 1):
        assert run(events(after, len(every) - number)) == every[number:]
    assert EventId.of("12-3") == EventId(12, 3)
    for wrong in ("", "12", "12-", "-1-2", "01-2", "1-2\n", "٣-1", "1" * 30 + "-1"):
        with pytest.raises(UsageError, match="expected BATCH-NUMBER"):
            EventId.of(wrong)


def record(record_id: str, late_ms: int = 0, ingest_ms: int = NOW_MS) -> DecidedRecord:
    return DecidedRecord("payments", record_id, ingest_ms - late_ms, ingest_ms)


def asked(
    folder: Path, *records: tuple[DecidedRecord, int], meanwhile: Callable[[], None] = lambda: None
) -> Sequence[Any]:
    """What is answered about records at places; errors as they are."""

    async def meet() -> list[Any]:
        async with reading(folder) as reader:
            exact = Exact(reader, POLICY)
            waiting = [
                asyncio.ensure_future(exact.decision(each, LogPosition("00000007.jsonl", at))) for each, at in records
            ]
            await asyncio.sleep(0)
            meanwhile()
            return await asyncio.gather(*waiting, return_exceptions=True)

    return run(meet())


def test_an_answer_is_what_the_pipeline_wrote(tmp_path: Path) -> None:
    written = Written(tmp_path)
    written.write(0)
    tricky = 'q"\\\u00e9,"record_id":"p9","decision":'
    wrote = [decision("p9", "revision"), decision("p9", score=41), decision(tricky)]

    def meanwhile() -> None:
        written.write(1)
        written.write(2, decisions=wrote)

    found = asked(tmp_path, (record("p9"), 20), (record(tricky), 25), meanwhile=meanwhile)
    assert found == [wrote[1], wrote[2]]
    assert asked(tmp_path, (record("p9"), 20)) == [wrote[1]], "and later"
    written.write(*range(3, 200))
    assert asked(tmp_path, (record("p9"), 29)) == [wrote[1]], "and long after"


def test_where_no_rule_holds_the_answer_is_what_the_pipeline_would_write(tmp_path: Path) -> None:
    Written(tmp_path).write(0, decisions=[decision("other")])
    now, before = asked(tmp_path, (record("p1"), 3), (record("p2", ingest_ms=NOW_MS - 1), 9))
    wanted = {
        "schema_version": 1,
        "decision_id": now["decision_id"],
        "kind": "decision",
        "revision": 0,
        "stream": "payments",
        "record_id": "p1",
        "decision": "allow",
        "score": 0,
        "reasons": [],
        "policy_version": 2,
        "rules_digest": "second",
        "event_time": "2026-01-01T00:00:07.120Z",
        "ingest_time": "2026-01-01T00:00:07.120Z",
        "decided_at": "2026-01-01T00:00:07.120Z",
        "answered": "exact",
        "degraded": [],
    }
    assert now == wanted
    assert (before["record_id"], before["rules_digest"]) == ("p2", "first")


def test_what_is_not_decided_says_why(tmp_path: Path) -> None:
    written = Written(tmp_path, batches_max=3)
    letters = [DeadLetter("payments", "duplicate_id", "came before", "00000007.jsonl", 33, None, "copy")]
    late = [LateRecord("payments", "old", 0, NOW_MS, NOW_MS, "00000007.jsonl", 35)]
    written.write(0, 1, 2)
    written.write(3, dead=letters, late=late)
    given = [(record("copy"), 33), (record("old"), 35), (record("just", 45_000), 37), (record("over", 45_001), 38)]
    copy, old, just, over, gone = asked(tmp_path, *given, (record("gone"), 3))
    assert just["decision"] == "allow"
    reasons = [(each.record_id, each.reason) for each in (copy, old, over, gone) if isinstance(each, NotDecidedError)]
    assert reasons == [("copy", "duplicate_id"), ("old", "late"), ("over", "late"), ("gone", "forgotten")]
    assert "decided about up to 45000 ms" in str(over)


def test_of_a_copy_the_first_records_decision_counts(tmp_path: Path) -> None:
    """An earlier process put it into the stream, and ended before it answered; then it was asked about again."""
    written = Written(tmp_path)
    first = decision("copy", score=41)
    copies = [
        DeadLetter("payments", "duplicate_id", "came before", "00000007.jsonl", 33, None, "copy"),
        DeadLetter("payments", "duplicate_id", "came before", "00000007.jsonl", 34, None, "no rule"),
    ]
    written.write(0)
    written.write(1, decisions=[decision("other"), first])
    written.write(2)
    written.write(3, dead=copies)
    found, unknown = asked(tmp_path, (record("copy"), 33), (record("no rule"), 34))
    assert found == first
    assert isinstance(unknown, NotDecidedError)
    assert unknown.may_be_copy


def test_logs_before_those_that_are_named_are_covered(tmp_path: Path) -> None:
    Written(tmp_path).write(0)

    async def meet() -> Any:
        async with reading(tmp_path) as reader:
            return await reader.batch(0)

    batch = run(meet())
    places = [LogPosition("00000006.jsonl", 99), LogPosition("00000007.jsonl", 9), LogPosition("00000007.jsonl", 10)]
    places += [LogPosition("00000008.jsonl", 0), LogPosition("topic-1", 0)]
    assert [batch.covers("payments", each) for each in places] == [True, True, False, False, False]
    assert not batch.covers("transfers", places[1])


def test_a_disk_that_is_full_holds_the_batch(tmp_path: Path) -> None:
    written = Written(tmp_path)
    written.write(0)
    (tmp_path / "1.jsonl").mkdir()
    with pytest.raises(SinkError, match="batch 1 gave cannot be kept for the decision API"):
        written.write(1)


def test_events_report_missed_batches(tmp_path: Path) -> None:
    written = Written(tmp_path)
    written.write(0, alerts=[alert("a0")])
    written.write(1, 2, 3)
    written.write(4, alerts=[alert("a4"), alert("b4")])
    (tmp_path / "2.jsonl").unlink()

    async def meet() -> None:
        async with reading(tmp_path) as reader:
            found = [each async for each in first(reader.events(EventId(0, -1)), 3)]
            assert [(str(each.id), each.missed) for each in found] == [("0-0", 0), ("4-0", 1), ("4-1", 0)]

    run(meet())


def test_from_now_on_nothing_of_before_is_reported(tmp_path: Path) -> None:
    folder = tmp_path / "feed"

    async def meet(batch: int) -> None:
        async with reading(folder) as reader:
            reported = asyncio.ensure_future(anext(reader.events()))
            await asyncio.sleep(0)
            Written(folder).write(batch, alerts=[alert("new")])
            event = await reported
            assert (str(event.id), event.missed) == (f"{batch}-0", 0)

    run(meet(0))
    run(meet(1))


async def first(events: AsyncIterator[T], count: int) -> AsyncIterator[T]:
    found = 0
    async for each in events:
        yield each
        found += 1
        if found == count:
            return
