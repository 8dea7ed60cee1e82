"""The JSON-lines sink: torn lines, files of other pipelines, dead letters, full disks."""

from __future__ import annotations

import errno
import json
import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from crossline.basics.deadletter import DeadLetter
from crossline.basics.errors import PermanentError, SinkError, UsageError
from crossline.io.sinks.base import Delivery, RetryPolicy, build_sink, deliver_all
from crossline.io.sinks.jsonl import JsonlSink

from .makers import alert, delivery


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "alerts.jsonl"


_OPENED: list[JsonlSink] = []


def opened(path: Path, pipeline: str = "p", **options: Any) -> JsonlSink:
    """As a process opens it; one that is not closed in the test was killed."""
    sink = JsonlSink(path, pipeline, clock_ms=lambda: 0, **options)
    sink.open()
    _OPENED.append(sink)
    return sink


@pytest.fixture(autouse=True)
def _leave_nothing_open() -> Iterator[None]:
    yield
    while _OPENED:
        _OPENED.pop().close()


def records(path: Path) -> list[str]:
    return [json.loads(line)["record_id"] for line in path.read_text().splitlines()]


def test_a_line_is_the_alert_with_the_time_of_its_delivery(path: Path) -> None:
    opened(path).deliver(delivery(0, "t1"))
    assert json.loads(path.read_text()) == alert("t1", delivered_at="1970-01-01T00:00:00.000Z")


def test_what_is_there_is_never_taken_back(path: Path) -> None:
    opened(path).deliver(delivery(0, "t1", "t2"))
    before = path.read_bytes()
    with path.open("rb") as follower:
        assert follower.read() == before
        again = JsonlSink(path, "p", clock_ms=lambda: 10**12)
        again.open()
        again.deliver(delivery(0, "t1", "t2"))
        again.deliver(delivery(1, "t3"))
        assert [json.loads(line)["record_id"] for line in follower] == ["t3"]
    assert path.read_bytes().startswith(before)


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_a_torn_line_is_cut_off_wherever_the_kill_fell(path: Path, cut: int) -> None:
    opened(path).deliver(delivery(0, "t1", "t2"))
    path.write_bytes(path.read_bytes()[:-cut])
    opened(path).deliver(delivery(0, "t1", "t2"))
    assert records(path) == ["t1", "t2"]


def test_a_torn_line_longer_than_a_block(path: Path) -> None:
    opened(path).deliver(Delivery("p", 0, alerts=[alert("t1"), alert("t2", message="x" * 200_000)]))
    path.write_bytes(path.read_bytes()[:-1])
    opened(path).deliver(delivery(0, "t1", "t2"))
    assert records(path) == ["t1", "t2"]


def test_a_file_that_has_only_a_torn_line(path: Path) -> None:
    opened(path).deliver(delivery(0, "t1"))
    path.write_bytes(path.read_bytes()[:20])
    opened(path).deliver(delivery(0, "t1"))
    assert records(path) == ["t1"]


def test_a_kill_between_the_note_and_the_first_line(path: Path) -> None:
    sink = opened(path)
    sink.deliver(delivery(0, "t1"))
    before = path.read_bytes()
    sink.deliver(delivery(1, "t2"))
    path.write_bytes(before)
    opened(path).deliver(delivery(1, "t2"))
    assert records(path) == ["t1", "t2"]


def test_batches_without_alerts_leave_no_trace(path: Path) -> None:
    sink = opened(path)
    sink.deliver(delivery(0))
    assert not list(path.parent.iterdir())
    sink.deliver(Delivery("p", 1, alerts=[alert("t1", kind="shadow"), alert("t2", emit_to_sink=False)]))
    assert not list(path.parent.iterdir())


def test_shadow_alerts_where_asked_for(path: Path) -> None:
    opened(path, shadow=True).deliver(Delivery("p", 1, alerts=[alert("t1", kind="shadow")]))
    assert records(path) == ["t1"]


def test_a_file_of_someone_else_is_refused_and_left_alone(path: Path) -> None:
    path.write_text("my notes\n")
    with pytest.raises(PermanentError, match=r"did not write .*alerts\.jsonl\.state"):
        opened(path)
    assert path.read_text() == "my notes\n"


def test_an_empty_file_is_taken(path: Path) -> None:
    path.touch()
    opened(path).deliver(delivery(0, "t1"))
    assert records(path) == ["t1"]


def test_a_file_of_another_pipeline_is_refused(path: Path) -> None:
    opened(path, "cards").deliver(delivery(0, "t1"))
    with pytest.raises(PermanentError, match="belongs to pipeline 'cards', found 'p'"):
        opened(path)


def test_a_damaged_note_is_refused(path: Path) -> None:
    opened(path).deliver(delivery(0, "t1"))
    path.with_name("alerts.jsonl.state").write_text("{")
    with pytest.raises(PermanentError, match="damaged"):
        opened(path)


def test_a_file_moved_away_holds_the_batch_until_it_is_back(path: Path) -> None:
    sink = opened(path)
    sink.deliver(delivery(0, "t1"))
    moved = path.with_suffix(".old")
    path.rename(moved)
    with pytest.raises(SinkError, match=r"was deleted or moved away .* move it back"):
        sink.deliver(delivery(1, "t2"))
    assert not path.exists()
    moved.rename(path)
    sink.deliver(delivery(1, "t2"))
    assert records(path) == ["t1", "t2"]


def test_a_file_put_in_its_place_holds_the_batch(path: Path) -> None:
    sink = opened(path)
    sink.deliver(delivery(0, "t1"))
    path.unlink()
    path.write_text("")
    with pytest.raises(SinkError, match="is another file"):
        sink.deliver(delivery(1, "t2"))


def test_a_file_cut_short_while_it_is_written_holds_the_batch(path: Path) -> None:
    sink = opened(path)
    sink.deliver(delivery(0, "t1", "t2"))
    whole = path.read_bytes()
    path.write_bytes(b"")
    for _ in range(2):
        with pytest.raises(SinkError, match=f"cut short .* found 0 bytes, expected at least {len(whole)}"):
            sink.deliver(delivery(1, "t3"))
    path.write_bytes(whole)
    sink.deliver(delivery(1, "t3"))
    assert records(path) == ["t1", "t2", "t3"]


@pytest.mark.parametrize("left", [0, 1, 2])
def test_lines_cut_or_moved_away_between_writes_are_not_there(path: Path, left: int) -> None:
    sink = opened(path)
    sink.deliver(delivery(0, "t1", "t2", "t3"))
    sink.close()
    lines = path.read_bytes().splitlines(keepends=True)
    if left:
        path.write_bytes(b"".join(lines[:left]))
    else:
        path.unlink()
    opened(path).deliver(delivery(0, "t1", "t2", "t3"))
    assert records(path) == ["t1", "t2", "t3"]


def test_whatever_the_numbers_and_the_cuts_of_batches(path: Path) -> None:
    """Another checkpoint, other sizes of batches: what stands there is known by its id."""
    names = [f"t{n}" for n in range(20)]
    for sizes in ((20,), (7, 7, 6), (0, 0, 0, 0, 0, 3, 17), (1,) * 20):
        sink, start = opened(path), 0
        for number, size in enumerate(sizes):
            sink.deliver(delivery(number, *names[start : start + size]))
            start += size
        sink.close()
    assert records(path) == names


def test_an_alert_that_comes_again_much_later_in_the_same_run(path: Path) -> None:
    sink = opened(path)
    for number in range(5):
        sink.deliver(delivery(number, f"t{number}"))
    sink.deliver(delivery(9, "t0", "t5"))
    assert records(path) == [f"t{number}" for number in range(6)]


def test_files_of_the_previous_version_are_read(path: Path) -> None:
    """They have a note of the last batch, and no index."""
    lines = [json.dumps(alert(name)) for name in ("t1", "t2", "t3")]
    path.write_text("\n".join([*lines, ""]))
    note = {"pipeline": "p", "batch_id": 7, "start": len(lines[0]) + 1, "whole": False}
    path.with_name("alerts.jsonl.state").write_text(json.dumps(note))
    opened(path).deliver(delivery(9, "t2", "t4"))
    assert records(path) == ["t1", "t2", "t3", "t4"]


@pytest.mark.parametrize("damage", ["gone", "garbage", "other form", "in the midst"])
def test_an_index_that_is_lost_is_made_again(path: Path, damage: str) -> None:
    names = [f"t{n}" for n in range(2_000)]
    sink = opened(path)
    sink.deliver(delivery(0, *names))
    sink.close()
    index = path.with_name("alerts.jsonl.ids")
    if damage == "gone":
        index.unlink()
    elif damage == "garbage":
        index.write_bytes(b"no database" * 1000)
    elif damage == "other form":
        index.unlink()
        with closing(sqlite3.connect(index)) as connection:
            connection.execute("CREATE TABLE customers (name TEXT)")
    else:
        with index.open("r+b") as file:
            file.seek(8_192)
            file.write(b"\x07" * 20_000)
    with capture_logs():
        deliver_all([opened(path)], delivery(1, *names, "new"), RetryPolicy(initial_ms=0, attempts_max=3))
    assert records(path) == [*names, "new"]


def test_an_index_older_than_its_file_learns_what_is_missing(path: Path) -> None:
    """As after a power failure: the lines were synced, the index was not."""
    index, moved = path.with_name("alerts.jsonl.ids"), path.with_name("moved")
    first = opened(path)
    first.deliver(delivery(0, "t1"))
    first.close()
    shutil.copy(index, moved)
    second = opened(path)
    second.deliver(delivery(1, "t2", "t3"))
    second.close()
    shutil.copy(moved, index)
    opened(path).deliver(delivery(2, "t1", "t2", "t3", "t4"))
    assert records(path) == ["t1", "t2", "t3", "t4"]


def test_a_full_disk_at_the_first_note_and_a_kill(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    sink = opened(path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(SinkError, match="No space left"):
            sink.deliver(delivery(0, "t1"))
    sink.deliver(delivery(0, "t1"))
    opened(path).deliver(delivery(0, "t1", "t2"))  # no close: as after a kill
    assert records(path) == ["t1", "t2"]


def test_a_disk_that_fills_up_in_the_midst_of_a_batch(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = opened(path)
    sink.deliver(delivery(0, "t1"))
    write, room = os.write, [1_700]

    def filling(descriptor: int, data: bytes) -> int:
        if not room[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        taken = write(descriptor, bytes(data)[: room[0]])
        room[0] -= taken
        return taken

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", filling)
        for _ in range(3):
            with pytest.raises(SinkError, match="No space left"):
                sink.deliver(delivery(1, "t2", "t3", "t4"))
    sink.deliver(delivery(1, "t2", "t3", "t4"))
    assert records(path) == ["t1", "t2", "t3", "t4"]


def test_what_is_no_file_is_refused(path: Path) -> None:
    os.mkfifo(path)
    with pytest.raises(PermanentError, match="no regular file"):
        opened(path)


def test_alerts_and_dead_letters_in_one_file_are_refused() -> None:
    with pytest.raises(UsageError, match="a file of their own"):
        build_sink({"kind": "jsonl", "path": "out/a.jsonl", "dead_letters": "out/a.jsonl"}, "p")


def test_dead_letters_of_a_file_that_took_the_place_of_another(path: Path) -> None:
    dead = path.with_name("dead.jsonl")
    old, new = (DeadLetter("payments", "bad_json", "no end", "in/a", 0, raw, None) for raw in (b"\xffold", b"\xffnew"))
    for letters in ([old], [old, new], [new, old]):
        opened(path, dead_letters=dead).deliver(Delivery("p", 0, dead=letters))
    assert [json.loads(line)["raw_base64"] for line in dead.read_text().splitlines()] == ["/29sZA==", "/25ldw=="]


def test_lines_that_are_not_ours_are_reported_and_left_alone(path: Path) -> None:
    sink = opened(path)
    sink.deliver(delivery(0, "t1"))
    sink.close()
    with path.open("ab") as file:
        file.write(b'\0\0\0\n{"other": 1}\n[]\n')
    with capture_logs() as logs:
        opened(path).deliver(delivery(1, "t1", "t2"))
    assert [entry["lines"] for entry in logs] == [3]
    assert json.loads(path.read_text().splitlines()[-1])["record_id"] == "t2"


def test_nothing_is_held_open_after_the_end(path: Path) -> None:
    for number in range(5):
        sink = opened(path, dead_letters=path.with_name("dead.jsonl"))
        sink.deliver(delivery(number, f"t{number}"))
        sink.close()
    path.with_name("dead.jsonl").mkdir()
    with pytest.raises(PermanentError):
        opened(path, dead_letters=path.with_name("dead.jsonl"))
    held = [each.readlink() for each in Path("/proc/self/fd").iterdir() if each.is_symlink()]
    assert [each for each in held if each.is_relative_to(path.parent)] == []


def test_a_disk_that_does_not_take_it_is_tried_again(path: Path) -> None:
    sink = opened(path)
    path.mkdir()
    with pytest.raises(SinkError, match="cannot be written now"):
        sink.deliver(delivery(0, "t1"))
    path.rmdir()
    sink.deliver(delivery(0, "t1"))
    assert records(path) == ["t1"]


def test_dead_letters_go_to_their_own_file_once(path: Path) -> None:
    dead = path.with_name("dead.jsonl")
    letters = [
        DeadLetter("payments", "bad_json", "no end", "in/a", 5, b'{"a"', None),
        DeadLetter("payments", "bad_json", "not UTF-8", "in/a", 9, b"\xff", None),
        DeadLetter("payments", "duplicate_id", "came before", "in/a", 9, None, "t1"),
    ]
    for _ in range(2):
        opened(path, dead_letters=dead).deliver(Delivery("p", 0, dead=letters))
    common = {"schema_version": 1, "stream": "payments", "partition": "in/a"}
    bad = {**common, "reason": "bad_json", "record_id": None}
    assert [json.loads(line) for line in dead.read_text().splitlines()] == [
        {**bad, "detail": "no end", "offset": 5, "raw": '{"a"'},
        {**bad, "detail": "not UTF-8", "offset": 9, "raw_base64": "/w=="},
        {**common, "reason": "duplicate_id", "detail": "came before", "offset": 9, "record_id": "t1", "raw": None},
    ]
    assert not path.exists()


def test_a_pipeline_begun_again_and_killed_in_its_midst(path: Path) -> None:
    opened(path).deliver(delivery(5, "t1", "t2"))
    opened(path).deliver(delivery(0, "t1"))
    # Higher than before, and still compared with the whole file.
    opened(path).deliver(delivery(6, "t2", "t3"))
    assert records(path) == ["t1", "t2", "t3"]


@pytest.mark.parametrize("killed", [False, True])
def test_lines_that_an_attempt_left_unsynced_are_synced_by_the_next(
    path: Path, monkeypatch: pytest.MonkeyPatch, *, killed: bool
) -> None:
    sink = opened(path)
    fsync, fails, synced = os.fsync, [True], list[int]()

    def failing_once(descriptor: int) -> None:
        if os.path.sameopenfile(descriptor, watched):
            if fails:
                fails.pop()
                raise OSError(errno.EIO, "Input/output error")
            synced.append(os.fstat(descriptor).st_size)
        fsync(descriptor)

    with path.open("ab") as file:
        watched = file.fileno()
        monkeypatch.setattr(os, "fsync", failing_once)
        with pytest.raises(SinkError, match="Input/output error"):
            sink.deliver(delivery(1, "t1"))
        assert records(path) == ["t1"]
        sink = opened(path) if killed else sink
        for _ in range(2):
            sink.deliver(delivery(1, "t1"))
    assert synced == [path.stat().st_size], "once, after all of it was there"
    assert records(path) == ["t1"]
