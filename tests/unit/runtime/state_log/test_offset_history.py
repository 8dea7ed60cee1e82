"""Marks of a pipeline's progress: found again by ingest time, through kills at any byte."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from crossline.evaluate.output import StreamClocks
from crossline.runtime.snapshot.spark_log import committed, unfinished
from crossline.runtime.state_log.offset_history import OffsetHistory, OffsetMark


def spark_log(root: Path, log: str, batch: int, *offsets: dict[str, int] | None) -> None:
    """A file of Spark's log ``offsets`` or ``commits``, as Spark writes it."""
    folder = root / "spark" / log
    folder.mkdir(parents=True, exist_ok=True)
    rest = ["-" if offset is None else json.dumps(offset) for offset in offsets]
    (folder / str(batch)).write_text("\n".join(["v1", "{}", *rest]))


def mark(batch: int, offsets: list[dict[str, Any] | None], ingest_ms: dict[str, int]) -> OffsetMark:
    """As ``add`` makes it: no log is behind another, and no record had its own ingest time."""
    return OffsetMark(batch, offsets, ingest_ms, {}, dict(ingest_ms))


def add(history: OffsetHistory, root: Path, batch: int, ingest_ms: dict[str, int]) -> None:
    spark_log(root, "offsets", batch, {"chunk": batch + 1}, None)
    spark_log(root, "commits", batch)
    history.add(batch, {stream: StreamClocks(ms, ms) for stream, ms in ingest_ms.items()})


def test_before_the_first_batch_there_are_no_marks(tmp_path: Path) -> None:
    history = OffsetHistory(str(tmp_path))
    assert (history.last(), history.before("payments", 5_000)) == (None, None)


def test_the_newest_mark_before_an_instant(tmp_path: Path) -> None:
    history = OffsetHistory(str(tmp_path))
    for batch in range(5):
        add(history, tmp_path, batch, {"payments": 1_000 * batch})
    assert history.last() == mark(4, [{"chunk": 5}, None], {"payments": 4_000})
    # Records of ingest time 2,000 may follow the mark of batch 2, so the past from 2,000 on begins at that of batch 1.
    assert history.before("payments", 2_000) == mark(1, [{"chunk": 2}, None], {"payments": 1_000})
    assert history.before("payments", 2_001) == mark(2, [{"chunk": 3}, None], {"payments": 2_000})
    assert history.before("payments", 0) is None
    assert history.before("payments", 10**9) == history.last()


def test_the_newest_batch_has_a_mark_though_one_a_second_is_kept(tmp_path: Path) -> None:
    history = OffsetHistory(str(tmp_path))
    for batch in range(30):
        add(history, tmp_path, batch, {"payments": 100 * batch})
    last = history.last()
    assert last is not None
    assert last.batch == 29
    found = history.before("payments", 2_900)
    assert found is not None
    assert found.batch == 20
    assert len((tmp_path / "history.jsonl").read_bytes().split()) == 3


def test_a_stream_that_has_given_nothing_yet_is_before_any_instant(tmp_path: Path) -> None:
    history = OffsetHistory(str(tmp_path))
    add(history, tmp_path, 0, {"clicks": 1_000})
    add(history, tmp_path, 1, {"clicks": 2_000, "payments": 1_500})
    found = history.before("payments", 1_500)
    assert found is not None
    assert found.batch == 0


def test_a_mark_cut_off_by_a_kill_spoils_no_other(tmp_path: Path) -> None:
    history = OffsetHistory(str(tmp_path))
    for batch in range(3):
        add(history, tmp_path, batch, {"payments": 1_000 * batch})
    path = tmp_path / "history.jsonl"
    whole = path.read_bytes()
    start = whole.rindex(b"\n")
    for size in range(start, len(whole)):
        path.write_bytes(whole[:size])
        again = OffsetHistory(str(tmp_path))
        add(again, tmp_path, 3, {"payments": 3_000})
        kept = [again.before("payments", ms) for ms in (1_000, 2_000, 3_000, 4_000)]
        assert [mark.batch if mark else None for mark in kept] == [0, 1, 1, 3]


@pytest.mark.parametrize(
    ("offsets", "commits", "expected"), [([], [], False), ([0], [], True), ([0, 1], [0], True), ([0, 1], [0, 1], False)]
)
def test_a_batch_that_was_planned_and_not_committed_is_unfinished(
    tmp_path: Path, offsets: list[int], commits: list[int], *, expected: bool
) -> None:
    for batch in offsets:
        spark_log(tmp_path, "offsets", batch, {"chunk": 1})
    for batch in commits:
        spark_log(tmp_path, "commits", batch)
    # Spark's own drafts and checksums lie beside.
    for folder in ("offsets", "commits"):
        if offsets:
            (tmp_path / "spark" / folder).mkdir(exist_ok=True)
            (tmp_path / "spark" / folder / ".7.tmp").touch()
            (tmp_path / "spark" / folder / ".9.crc").touch()
    assert unfinished(str(tmp_path)) == expected
    assert [committed(str(tmp_path), batch) for batch in range(3)] == [batch in commits for batch in range(3)]


def test_more_than_nine_batches_are_counted_as_numbers(tmp_path: Path) -> None:
    for batch in range(12):
        spark_log(tmp_path, "offsets", batch, {"chunk": 1})
    for batch in range(11):
        spark_log(tmp_path, "commits", batch)
    assert unfinished(str(tmp_path))


def test_records_dated_ahead_are_of_a_past_that_reaches_to_their_time(tmp_path: Path) -> None:
    """One that came at 1,600 and is dated 9,000 is in windows that begin at 5,000: reading starts before it."""
    history = OffsetHistory(str(tmp_path))
    for batch, (came_ms, dated_ms) in enumerate([(500, 500), (1_600, 9_000), (6_000, 6_000), (9_500, 9_500)]):
        spark_log(tmp_path, "offsets", batch, {"chunk": batch + 1})
        spark_log(tmp_path, "commits", batch)
        clocks = StreamClocks(came_ms, came_ms, dated_ms)
        history.add(batch, {"payments": clocks.after(history.clocks().get("payments"))})
    start = history.before("payments", 5_000)
    assert start is not None
    assert start.batch == 0
    assert history.clocks() == {"payments": StreamClocks(9_500, 9_500, 9_500)}
    end = history.last()
    assert end is not None
    assert [each.batch for each in history.between(start, end)] == [1, 2, 3]


def test_a_batch_that_is_run_again_is_not_done(tmp_path: Path) -> None:
    """Its mark is there, since the sinks had it; what is read for new state stores ends before it."""
    history = OffsetHistory(str(tmp_path))
    for batch in range(3):
        add(history, tmp_path, batch, {"payments": 10 * batch})
    (tmp_path / "spark" / "commits" / "2").unlink()
    again = OffsetHistory(str(tmp_path))
    last = again.last()
    assert last is not None
    assert last.batch == 1
    again.add(2, {"payments": StreamClocks(20, 20)})
    spark_log(tmp_path, "commits", 2)
    assert [each.batch for each in again._newest()] == [1, 2]
