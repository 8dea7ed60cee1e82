"""Maintenance: fewer files, no row lost, files of expired snapshots gone, old days gone."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from crossline.lake.catalogs.unavailable import LakeUnavailableError
from crossline.lake.lookup.ordered_scan import TimeSlice
from crossline.lake.maintenance import compaction
from crossline.lake.maintenance.compaction import CLOSED_AFTER_MS, Compacted, compact
from crossline.lake.maintenance.expiry import delete_orphans, expire
from crossline.lake.maintenance.schedule import maintain
from crossline.lake.tables.lake_table import LakeTable
from crossline.settings.process.lake import LakeSettings
from unit.lake.lake_kit import DAY_MS, START_MS, SpooledPipeline, payment

COMMITS = 6


@pytest.fixture
def pipeline(tmp_path: Path) -> SpooledPipeline:
    """A commit for each batch, each with two records of a day."""
    made = SpooledPipeline(tmp_path)
    for number in range(COMMITS):
        made.batch([payment(2 * number, START_MS + number), payment(2 * number + 1, START_MS + DAY_MS - 1 - number)])
        made.write_all()
    return made


def records_of(pipeline: SpooledPipeline) -> LakeTable:
    (found,) = (each for each in pipeline.reader().tables() if each.layout.name == "records_payments")
    return found


def files_on_disk(table: LakeTable) -> set[str]:
    root = Path(table.table.location().removeprefix("file://"))
    return {str(path) for path in root.rglob("*") if path.is_file()}


def ids(pipeline: SpooledPipeline) -> list[str]:
    return sorted(pipeline.reader().records("payments").column("_record_id").to_pylist())


def test_files_of_a_closed_day_become_one_sorted_file(pipeline: SpooledPipeline) -> None:
    table, before = records_of(pipeline), ids(pipeline)
    assert compact(table, START_MS + DAY_MS + CLOSED_AFTER_MS - 1) == Compacted(), "the day is not closed yet"
    assert compact(table, START_MS + DAY_MS + CLOSED_AFTER_MS) == Compacted(COMMITS, 1)
    assert compact(table, START_MS + DAY_MS + CLOSED_AFTER_MS) == Compacted(), "one file is left alone"
    assert ids(pipeline) == before
    (task,) = records_of(pipeline).table.scan().plan_files()
    times = pq.read_table(task.file.file_path.removeprefix("file://")).column("_event_time").to_pylist()
    assert times == sorted(times)
    assert len(times) == 2 * COMMITS


def test_files_of_a_day_that_is_not_closed_are_merged_once_they_fill_a_file(pipeline: SpooledPipeline) -> None:
    table = records_of(pipeline)
    (size, *_) = (task.file.file_size_in_bytes for task in table.table.scan().plan_files())
    assert compact(table, START_MS, target_bytes=3 * size + size // 2) == Compacted(3, 1)
    assert len(ids(pipeline)) == 2 * COMMITS


def test_many_small_files_of_a_day_that_is_not_closed_are_merged(
    pipeline: SpooledPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, before = records_of(pipeline), ids(pipeline)
    monkeypatch.setattr(compaction, "OPEN_FILES_MAX", COMMITS)
    assert compact(table, START_MS) == Compacted(), "as many as a query may open"
    monkeypatch.setattr(compaction, "OPEN_FILES_MAX", COMMITS - 1)
    assert compact(table, START_MS) == Compacted(COMMITS, 1)
    assert ids(pipeline) == before


def test_the_newest_watermark_is_that_of_the_last_commit_before_and_after_a_merge(pipeline: SpooledPipeline) -> None:
    reader = pipeline.reader()
    (marks,) = (each for each in reader.tables() if each.layout.name == "watermarks")
    newest = max(marks.table.scan().to_arrow().to_pylist(), key=lambda row: row["committed_at"])
    found = reader.watermark()
    assert found is not None
    assert found.batch == newest["_batch"] == COMMITS - 1
    assert compact(marks, START_MS + 4_000 * DAY_MS) == Compacted(COMMITS, 1)
    assert pipeline.reader().watermark() == found


def test_expired_snapshots_take_their_files_along(pipeline: SpooledPipeline) -> None:
    table = records_of(pipeline)
    compact(table, START_MS + 10 * DAY_MS)
    before = files_on_disk(table)
    far_ms = 4 * 10**12  # snapshots are stamped by the clock of the machine
    done = expire(table, far_ms, 1)
    assert done.snapshots == COMMITS
    assert done.files > COMMITS, "data files, manifests and their lists"
    assert len(files_on_disk(table)) == len(before) - done.files + 1, "the commit has a metadata file"
    assert len(ids(pipeline)) == 2 * COMMITS
    assert expire(table, far_ms, 1).snapshots == 0


def test_a_reader_of_an_expired_snapshot_is_told(pipeline: SpooledPipeline) -> None:
    scan = pipeline.reader().in_order(["records_payments"])
    slow = pipeline.reader().batches("records_payments", columns=("_record_id",))
    next(slow)
    table = records_of(pipeline)
    compact(table, START_MS + 10 * DAY_MS)
    assert expire(table, 4 * 10**12, 1).snapshots == COMMITS
    with pytest.raises(LakeUnavailableError, match="records_payments of the lake: the snapshot"):
        list(scan.slices())
    with pytest.raises(LakeUnavailableError, match="read again"):
        scan.rows(TimeSlice(START_MS // DAY_MS), ["_record_id"])
    with pytest.raises(LakeUnavailableError, match="read again"):
        list(slow)
    assert len(pipeline.reader().in_order(["records_payments"]).rows(TimeSlice(START_MS // DAY_MS), ["cents"])[0]) == 12


def test_snapshots_that_readers_may_use_are_kept(pipeline: SpooledPipeline) -> None:
    table = records_of(pipeline)
    newest_ms = max(each.timestamp_ms for each in table.table.metadata.snapshots)
    assert expire(table, newest_ms, 1).snapshots == 0


def test_orphans_are_deleted_once_they_are_old(pipeline: SpooledPipeline) -> None:
    table = records_of(pipeline)
    root = Path(table.table.location().removeprefix("file://"))
    orphan = root / "data" / "left.parquet"
    orphan.write_bytes(b"left by a killed writer")
    now_ms = round(orphan.stat().st_mtime * 1_000) + 1
    assert delete_orphans(table, now_ms) == 0
    os.utime(orphan, (0, 0))
    assert delete_orphans(table, now_ms) == 1
    assert not orphan.exists()
    assert len(ids(pipeline)) == 2 * COMMITS


def test_rows_beyond_retention_go_by_whole_days(pipeline: SpooledPipeline) -> None:
    pipeline.batch([payment(99, START_MS + 5 * DAY_MS)])
    pipeline.write_all()
    settings = LakeSettings(keep={"records": "3d"})  # type: ignore[dict-item]
    done = list(maintain(pipeline.reader(), settings, START_MS + 5 * DAY_MS))
    assert {each.table for each in done} >= {"records_payments", "alerts", "watermarks"}
    assert ids(pipeline) == ["p00099"]
