from __future__ import annotations

import asyncio
import errno
import os
import random
import signal
import subprocess
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import orjson
import pytest

from crossline.basics.errors import RetryableError, StateError, UsageError
from crossline.basics.streams.api_record import LogPosition, SubmittedRecord
from crossline.io.recordlog.filelog import FileRecordLog

T = TypeVar("T")


def asked(record_id: str, more: str = "") -> SubmittedRecord:
    return SubmittedRecord(0, "payments", record_id, orjson.dumps({"id": record_id, "more": more}), "", 0)


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


async def put(folder: Path, *groups: list[SubmittedRecord], segment_bytes: int = 1 << 20) -> list[list[LogPosition]]:
    log = FileRecordLog(folder, "id", segment_bytes)
    try:
        return [await log.append(group) for group in groups]
    finally:
        await log.close()


def lines(folder: Path) -> list[bytes]:
    return b"".join(path.read_bytes() for path in sorted(folder.glob("*.jsonl"))).splitlines()


def ids(folder: Path) -> list[str]:
    return [orjson.loads(line)["id"] for line in lines(folder)]


def test_a_place_is_where_the_record_s_line_begins(tmp_path: Path) -> None:
    first, second = run(put(tmp_path, [asked("a"), asked("b")], [asked("c")]))
    # {"id":"a","more":""} is 20 bytes, and its end of line one more.
    assert first == [LogPosition("00000001.jsonl", 0), LogPosition("00000001.jsonl", 21)]
    assert second == [LogPosition("00000001.jsonl", 42)]
    assert lines(tmp_path) == [asked(each).raw for each in "abc"]


def test_an_id_stands_once_at_its_first_place_over_calls_and_starts(tmp_path: Path) -> None:
    ((a, b, again),) = run(put(tmp_path, [asked("a"), asked("b"), asked("a", "another body")]))
    assert again == a
    assert run(put(tmp_path, [asked("b"), asked("c"), asked("a")]))[0] == [b, LogPosition("00000001.jsonl", 42), a]
    assert ids(tmp_path) == ["a", "b", "c"]


@pytest.mark.parametrize("harm", ["lost", "garbage", "of another log"])
def test_ids_are_learned_anew_from_the_files(tmp_path: Path, harm: str) -> None:
    folder, other = tmp_path / "log", tmp_path / "other"
    groups = [[asked(f"r{number}")] for number in range(50)]
    places = run(put(folder, *groups, segment_bytes=200))
    for path in folder.glob(".ids*"):
        path.unlink()
    if harm == "garbage":
        (folder / ".ids").write_bytes(os.urandom(5_000))
    if harm == "of another log":
        run(put(other, *[[asked(f"x{number}")] for number in range(50)], segment_bytes=200))
        (other / ".ids").rename(folder / ".ids")
    assert run(put(folder, *groups, [asked("new")], segment_bytes=200))[:-1] == places
    assert ids(folder) == [f"r{number}" for number in range(50)] + ["new"]


def test_files_go_on_in_a_new_one_once_large_enough(tmp_path: Path) -> None:
    places = run(put(tmp_path, *[[asked(f"r{number}")] for number in range(9)], segment_bytes=60))
    names = [path.name for path in sorted(tmp_path.glob("*.jsonl"))]
    assert names == ["00000001.jsonl", "00000002.jsonl", "00000003.jsonl"]  # three lines of 22 bytes in each
    assert [place.log for (place,) in places] == [name for name in names for _ in range(3)]
    assert ids(tmp_path) == [f"r{number}" for number in range(9)]


def test_a_half_line_of_a_kill_is_cut_and_a_whole_one_ended(tmp_path: Path) -> None:
    run(put(tmp_path, [asked("a")]))
    file = tmp_path / "00000001.jsonl"
    with file.open("ab") as torn:
        torn.write(asked("b").raw[:-3])
    assert run(put(tmp_path, [asked("c")]))[0] == [LogPosition("00000001.jsonl", 21)]
    with file.open("ab") as torn:
        torn.write(asked("d").raw)
    assert run(put(tmp_path, [asked("d"), asked("e")]))[0] == [LogPosition("00000001.jsonl", n) for n in (42, 63)]
    assert ids(tmp_path) == ["a", "c", "d", "e"]


def test_a_second_writer_is_refused_until_the_first_lets_go(tmp_path: Path) -> None:
    async def both() -> None:
        first = FileRecordLog(tmp_path, "id")
        await first.append([asked("a")])
        second = FileRecordLog(tmp_path, "id")
        with pytest.raises(StateError, match=rf"process {os.getpid()} on"):
            await second.open()
        await first.close()
        assert await second.append([asked("a")]) == [LogPosition("00000001.jsonl", 0)]
        await second.close()

    run(both())


def test_a_forked_child_does_not_hold_the_log(tmp_path: Path) -> None:
    """A replica that outlives a killed API must not keep the next one out."""
    code = (
        "import asyncio, os, sys, time\n"
        "from crossline.io.recordlog.filelog import FileRecordLog\n"
        f"log = FileRecordLog({str(tmp_path)!r}, 'id')\n"
        "asyncio.run(log.open())\n"
        "child = os.fork()\n"
        "if not child:\n"
        "    os.write(1, b'child\\n'); time.sleep(600)\n"
        "os.write(1, b'%d\\n' % child); time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-W", "ignore", "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        numbers = sorted(process.stdout.readline() for _ in range(2))
        try:
            process.kill()
            process.wait()
            assert run(put(tmp_path, [asked("a")]))[0] == [LogPosition("00000001.jsonl", 0)]
        finally:
            os.kill(int(numbers[0]), signal.SIGKILL)


@pytest.mark.parametrize("raw", [b"", b'{"id":"a"\n}', b'{"id":"a"}\n'])
def test_what_is_no_single_line_is_refused(tmp_path: Path, raw: bytes) -> None:
    with pytest.raises(UsageError, match="expected JSON in one line"):
        run(put(tmp_path, [SubmittedRecord(0, "payments", "a", raw, "", 0)]))


def test_a_full_disk_acknowledges_nothing_and_leaves_no_half_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, room = os.pwrite, [30]

    def full(descriptor: int, data: Any, at: int) -> int:
        if room[0] <= 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        taken = write(descriptor, bytes(data)[: room[0]], at)
        room[0] -= taken
        return taken

    async def meet() -> None:
        log = FileRecordLog(tmp_path, "id")
        await log.open()
        monkeypatch.setattr(os, "pwrite", full)
        with pytest.raises(RetryableError, match="No space left on device"):
            await log.append([asked("a"), asked("b"), asked("c")])
        assert lines(tmp_path) == [asked("a").raw]  # whole, so a pipeline may have read it; not acknowledged
        with pytest.raises(RetryableError):
            await log.append([asked("b")])
        monkeypatch.setattr(os, "pwrite", write)
        assert await log.append([asked("c"), asked("a")]) == [
            LogPosition("00000001.jsonl", 21),
            LogPosition("00000001.jsonl", 0),
        ]
        await log.close()

    run(meet())
    assert ids(tmp_path) == ["a", "c"]


def test_what_a_failed_sync_may_have_lost_is_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sync, written = os.fdatasync, list[tuple[int, bytes]]()
    write = os.pwrite

    def noted(descriptor: int, data: Any, at: int) -> int:
        written.append((at, bytes(data)))
        return write(descriptor, data, at)

    def fail(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    async def meet() -> None:
        log = FileRecordLog(tmp_path, "id")
        await log.append([asked("a")])
        monkeypatch.setattr(os, "fdatasync", fail)
        with pytest.raises(RetryableError, match="Input/output error"):
            await log.append([asked("b")])
        monkeypatch.setattr(os, "fdatasync", sync)
        monkeypatch.setattr(os, "pwrite", noted)
        # Known by now, and yet not acknowledged before it was written and synced again.
        assert await log.append([asked("b")]) == [LogPosition("00000001.jsonl", 21)]
        await log.close()

    run(meet())
    assert written[0] == (21, asked("b").raw + b"\n")
    assert ids(tmp_path) == ["a", "b"]


def test_a_file_that_was_moved_away_takes_nothing(tmp_path: Path) -> None:
    async def meet() -> None:
        log = FileRecordLog(tmp_path, "id")
        await log.append([asked("a")])
        (tmp_path / "00000001.jsonl").rename(tmp_path / "elsewhere")
        with pytest.raises(RetryableError, match="moved away, deleted or replaced"):
            await log.append([asked("b")])
        (tmp_path / "elsewhere").rename(tmp_path / "00000001.jsonl")
        await log.append([asked("b")])
        await log.close()

    run(meet())
    assert ids(tmp_path) == ["a", "b"]


def test_calls_of_one_moment_are_kept_in_their_order_and_a_cancelled_one_harms_none(tmp_path: Path) -> None:
    async def meet() -> None:
        log = FileRecordLog(tmp_path, "id", 500)
        calls = [asyncio.ensure_future(log.append([asked(f"r{number}")])) for number in range(200)]
        await asyncio.sleep(0)
        calls[100].cancel()
        found = await asyncio.gather(*calls, return_exceptions=True)
        assert isinstance(found[100], asyncio.CancelledError)
        assert sum(isinstance(each, list) for each in found) == 199
        await log.close()
        await log.close()
        with pytest.raises(UsageError, match="closed"):
            await log.append([asked("late")])

    run(meet())
    kept = ids(tmp_path)
    assert [each for each in kept if each != "r100"] == [f"r{number}" for number in range(200) if number != 100]
    assert kept.count("r100") <= 1


WRITER = """
import asyncio, sys
import orjson
from crossline.io.recordlog.filelog import FileRecordLog
from crossline.basics.streams.api_record import SubmittedRecord

async def main(folder, first):
    log = FileRecordLog(folder, "id", 20_000)
    number = first
    while True:
        group = [asked(number + each) for each in range(1 + number % 7)]
        places = await log.append(group)
        number += len(group)
        for each, place in zip(group, places):
            print(each.record_id, place.log, place.at, flush=True)

def asked(number):
    raw = orjson.dumps({"id": f"r{number}", "padding": "x" * (number % 500)})
    return SubmittedRecord(number, "payments", f"r{number}", raw, "", 0)

asyncio.run(main(sys.argv[1], int(sys.argv[2])))
"""


def test_what_was_acknowledged_before_a_kill_is_there_once_and_in_order(tmp_path: Path) -> None:
    folder, draw = tmp_path / "log", random.Random(20)
    acknowledged: list[str] = []
    kills = 40 if os.environ.get("CROSSLINE_DEEP") == "1" else 6
    for _ in range(kills):
        # The next one asks again about the last record: it does not know whether it was kept.
        begin = max(0, len(set(acknowledged)) - 1)
        command = [sys.executable, "-c", WRITER, str(folder), str(begin)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            acknowledged += [process.stdout.readline() for _ in range(draw.randrange(1, 400))]
            process.kill()
            acknowledged += [line for line in process.stdout.read().splitlines(keepends=True) if line.endswith("\n")]
        found = ids(folder)
        reported = dict.fromkeys(line.split()[0] for line in acknowledged)
        assert len(found) == len(set(found))
        kept = [each for each in found if each in reported]
        assert kept == list(reported)
    for line in set(acknowledged):
        record_id, name, at = line.split()
        with (folder / name).open("rb") as file:
            file.seek(int(at))
            assert orjson.loads(file.readline())["id"] == record_id
