"""Maintenance by Iceberg's own procedures in a real Spark: fewer files, the same rows, the same marks."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from crossline.lake.catalogs.spark_catalog import catalog_settings
from crossline.lake.maintenance import on_spark
from crossline.lake.maintenance.compaction import CLOSED_AFTER_MS, compact
from crossline.lake.maintenance.expiry import delete_orphans
from crossline.lake.maintenance.on_spark import MaintainedOnSpark, maintain_on_spark
from crossline.lake.reading import LakeReader
from crossline.lake.tables.lake_table import LakeTable
from unit.lake.lake_kit import CHECKPOINT, DAY_MS, START_MS, SpooledPipeline, payment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
COMMITS = 10
CLOSED_MS = START_MS + DAY_MS + CLOSED_AFTER_MS
LATER_MS = 4 * 10**12  # snapshots are stamped by the clock of the machine


@pytest.fixture
def pipeline(tmp_path: Path) -> SpooledPipeline:
    """A commit for each batch: records of a day that will be closed, and one of the next."""
    made = SpooledPipeline(tmp_path)
    for number in range(COMMITS):
        day = [payment(3 * number + n, START_MS + (number * 7 % 10) * 1_000 + n, seen=None) for n in range(2)]
        made.batch([*day, payment(3 * number + 2, START_MS + DAY_MS + number)])
        made.write_all()
    return made


@pytest.fixture
def own(spark: SparkSession, pipeline: SpooledPipeline) -> SparkSession:
    """A session beside the one of all tests, with the catalog."""
    made = spark.newSession()
    for name, value in catalog_settings(pipeline.config).items():
        made.conf.set(name, value)
    return made


class Records(LakeReader):
    """The table of the records alone: calls of Spark for others take as long."""

    def tables(self) -> Iterator[LakeTable]:
        return (each for each in super().tables() if each.layout.name == "records_payments")


def records_of(pipeline: SpooledPipeline) -> Records:
    reader = pipeline.reader()
    return Records(reader.lake, reader.config)


def rows_of(pipeline: SpooledPipeline) -> list[dict[str, Any]]:
    rows = pipeline.reader().records("payments").to_pylist()
    return sorted(rows, key=lambda each: str(each["_record_id"]))


def maintained(spark: SparkSession, pipeline: SpooledPipeline, now_ms: int, **lake: Any) -> MaintainedOnSpark:
    reader = records_of(pipeline)
    assert reader.config.lake is not None
    (done,) = maintain_on_spark(spark, reader, reader.config.lake.model_copy(update=lake), now_ms)
    return done


def test_closed_days_are_merged_as_the_writer_writes(
    own: SparkSession, pipeline: SpooledPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer commits between two steps."""
    before = rows_of(pipeline)
    (old,) = records_of(pipeline).tables()
    stale = old.table.current_snapshot()
    wrote = threading.Event()
    set_properties = on_spark._set_properties

    def meanwhile(table: LakeTable) -> None:
        set_properties(table)
        if not wrote.is_set():
            wrote.set()
            pipeline.batch([payment(900, START_MS + 3), payment(901, START_MS + DAY_MS)])
            pipeline.write_all()

    monkeypatch.setattr(on_spark, "_set_properties", meanwhile)
    done = maintained(own, pipeline, CLOSED_MS)
    assert (done.files_merged, done.files_added) == (COMMITS + 1, 1)
    assert done.manifests_merged > 1
    assert [each for each in rows_of(pipeline) if each["cents"] < 9_000] == before
    (table,) = records_of(pipeline).tables()
    assert table.last_batch(CHECKPOINT) == COMMITS, "writers know what is there"
    assert len(old.table.scan(snapshot_id=stale.snapshot_id).to_arrow()) == len(before), "readers go on"  # type: ignore[union-attr]
    files = [each.file for each in table.table.scan().plan_files()]
    (merged,) = (each for each in files if each.partition[0] == START_MS // DAY_MS)
    assert len(files) == COMMITS + 2, "the files of the day that is not closed are left alone"
    _check_file(merged.file_path.removeprefix("file:"))
    monkeypatch.setattr(on_spark, "READ_MS", -DAY_MS)  # no reader is at work
    _check_files_that_go(own, pipeline, table)


def _check_files_that_go(own: SparkSession, pipeline: SpooledPipeline, table: LakeTable) -> None:
    """Old snapshots and stray files go; Java writes addresses of files otherwise than the writer does."""
    before = rows_of(pipeline)
    folder = Path(table.table.location().removeprefix("file://"))
    stray = folder / "data" / "stray.parquet"
    stray.write_bytes(b"left by a kill")
    now_s = time.time()
    os.utime(stray, (now_s - 2 * 86_400, now_s - 2 * 86_400))
    done = maintained(own, pipeline, round(now_s * 1_000), snapshots_max=2)
    assert done.snapshots_expired >= COMMITS
    assert done.files_deleted > COMMITS
    assert done.orphans_deleted == 1
    assert not stray.exists()
    assert rows_of(pipeline) == before
    stray.write_bytes(b"another one")
    delete_orphans(table, LATER_MS, 0)  # and checksums that Hadoop keeps beside files
    assert not stray.exists()
    assert rows_of(pipeline) == before, "in process, the files of Spark are known too"
    pipeline.batch([payment(900, START_MS + 3)])
    pipeline.write_all()
    assert compact(table, LATER_MS).after == 1
    assert len(rows_of(pipeline)) == len(before) + 1


def _check_file(path: str) -> None:
    """Sorted by time, then by batch and position; with a bloom filter on the ids; compressed as the writer does."""
    rows = pq.read_table(path, columns=["_event_time", "_batch", "_log", "_position"]).to_pylist()
    assert [tuple(each.values()) for each in rows] == sorted(tuple(each.values()) for each in rows)
    group = pq.ParquetFile(path).metadata.row_group(0)
    columns = [group.column(number) for number in range(group.num_columns)]
    assert [each.path_in_schema for each in columns if each.bloom_filter_offset] == ["_record_id"]
    assert {each.compression for each in columns} == {"ZSTD"}
