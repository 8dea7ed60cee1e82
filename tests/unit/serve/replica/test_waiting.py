"""What is laid over, worked by hand."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import orjson
import pytest
import uvloop

from crossline.serve.decisions.values import LogPosition, SubmittedRecord
from crossline.serve.replica.answers import together
from crossline.serve.replica.forks import Fork, LostError
from crossline.serve.replica.messages import FORK, ForkRequest, Hello
from crossline.serve.replica.pending_records import BatchEnds, PendingRecords
from crossline.serve.replica.setup import Source


def asked(number: int) -> SubmittedRecord:
    return SubmittedRecord(number, "payments", f"t{number}", b"{}", "", 0)


def test_a_record_goes_once_a_batch_is_beyond_its_place() -> None:
    waiting = PendingRecords()
    for number in (11, 12, 13):
        waiting.add(asked(number), None)
    waiting.placed(11, LogPosition("f", 100))
    waiting.placed(12, LogPosition("f", 120))
    ends = {"payments": {"f": 120}}
    assert [each.asked.number for each in waiting.upto(waiting.last, ends)] == [12, 13]
    assert [each.asked.number for each in waiting.upto(2, ends)] == [12]
    assert [each.asked.number for each in waiting.after(1)] == [12, 13]
    assert waiting.prune(ends) == []
    assert len(waiting) == 2
    assert [each.asked.number for each in waiting.upto(3, {"payments": {"g": 900}})] == [12, 13], "another log"


def test_one_that_stands_nowhere_for_long_is_forgotten_and_one_that_is_waited_for_is_not() -> None:
    async def play() -> None:
        waiting = PendingRecords(lost_s=-1)
        waiting.add(asked(1), None)
        waiting.add(asked(2), asyncio.get_running_loop().create_future())
        assert [each.asked.number for each in waiting.prune({})] == [1]
        assert [each.asked.number for each in waiting.pending()] == [2]

    asyncio.run(play())


def test_who_was_part_of_a_call_that_failed_is_judged_alone() -> None:
    waiting = PendingRecords()
    entries = [waiting.add(asked(number), None) for number in range(4)]
    assert together(entries) == entries
    entries[2].failures = 1
    assert together(entries) == entries[:2]
    assert together(entries[2:]) == entries[2:3]


def test_batches_end_where_spark_says(tmp_path: Path) -> None:
    offsets = tmp_path / "spark" / "offsets"
    offsets.mkdir(parents=True)
    (offsets / "4").write_text('v1\n{"batchTimestampMs": 0}\n{"pay":{"0":7,"1":9}}\n{"chunk":2}\n-')
    (offsets / "5").write_text('v1\n{"batchTimestampMs": 0}\n{"pay":{"0":8,"1":9}}\n{"chunk":3}\n-')
    listed = tmp_path / "sources" / "logins"
    listed.mkdir(parents=True)
    lines = [{"file": n, "name": f"/in/{n}.jsonl", "path": f"/in/{n}.jsonl", "device": 1, "inode": n} for n in (0, 1)]
    chunks = [(0, 0, 50), (0, 50, 80), (1, 0, 30)]
    lines += [
        {"sequence": n, "file": file, "start": start, "end": end, "tail": "", "listed_ms": 0}
        for n, (file, start, end) in enumerate(chunks)
    ]
    (listed / "chunks.jsonl").write_bytes(b"".join(orjson.dumps(each) + b"\n" for each in lines))
    ends = BatchEnds(str(tmp_path), [Source("payments", "kafka"), Source("logins", "api"), Source("none", "files")])
    assert ends.of(4) == {"payments": {"pay-0": 7, "pay-1": 9}, "logins": {"0.jsonl": 80}}
    assert ends.of(5)["logins"] == {"0.jsonl": 80, "1.jsonl": 30}
    assert ends.of(4)["logins"] == {"0.jsonl": 80}, "an earlier one again"
    assert ends.of(77) == {}, "of which Spark says nothing any more"


def test_a_fork_that_was_ended_is_lost_to_who_asks_it() -> None:
    """On the loop that the API runs on: its transports raise RuntimeError when one writes to a closed one."""

    async def work(folder: Path) -> None:
        accepted: asyncio.Future[asyncio.StreamWriter] = asyncio.get_running_loop().create_future()
        server = await asyncio.start_unix_server(lambda _, writer: accepted.set_result(writer), folder / "socket")
        fork = Fork(Hello(FORK, 0, 0), *await asyncio.open_unix_connection(folder / "socket"), str(folder))
        fork.close()
        with pytest.raises(LostError, match="ended"):
            await fork.ask(ForkRequest(), 1.0)
        other = await accepted
        other.close()
        await other.wait_closed()
        server.close()

    with tempfile.TemporaryDirectory() as folder:
        uvloop.run(work(Path(folder)))
