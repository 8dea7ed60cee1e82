"""Entries of Spark's logs that the driver writes: Spark's own, with other offsets and another time."""

from __future__ import annotations

from pathlib import Path

import pytest

from crossline.basics.errors import PermanentError
from crossline.runtime.snapshot.spark_log import began_ms, committed, offsets_of, unfinished_batch
from crossline.runtime.snapshot.spark_log_entries import SparkLogEntries

METADATA = '{"batchWatermarkMs":0,"batchTimestampMs":1000,"conf":{"spark.sql.shuffle.partitions":"2"}}'
COMMITTED = 'v1\n{"nextBatchWatermarkMs":0}'
OFFSETS = ('{"a":{"0":5,"10":7},"b":{"0":1}}', '{"c":{"0":9}}')


def planned(root: Path, *offsets: str, version: str = "v1", committed_as: str = COMMITTED) -> str:
    """A checkpoint whose batch 7 is planned, and batch 6 committed."""
    for log, batch, text in (
        ("offsets", 7, "\n".join([version, METADATA, *offsets])),
        ("commits", 6, committed_as),
    ):
        (root / "spark" / log).mkdir(parents=True)
        (root / "spark" / log / str(batch)).write_text(text, encoding="utf-8")
    return str(root)


def test_a_batch_is_committed_and_the_next_one_planned(tmp_path: Path) -> None:
    checkpoint = planned(tmp_path, *OFFSETS)
    entries = SparkLogEntries.of(checkpoint, 7)
    assert entries is not None
    entries.next([{("a", 0): 6, ("a", 10): 7, ("b", 0): 4}, {("c", 0): 9}], 2_000)
    assert committed(checkpoint, 7)
    assert unfinished_batch(checkpoint) == entries.last == 8
    assert (tmp_path / "spark" / "commits" / "7").read_text(encoding="utf-8") == COMMITTED
    lines = (tmp_path / "spark" / "offsets" / "8").read_text(encoding="utf-8").split("\n")
    assert lines == [
        "v1",
        METADATA.replace("1000", "2000"),
        '{"a":{"0":6,"10":7},"b":{"0":4}}',
        '{"c":{"0":9}}',
    ]
    assert offsets_of(checkpoint, 8) == entries.offsets
    assert began_ms(checkpoint, 8) == 2_000
    entries.next([{("a", 0): 7}, {}], 3_000)
    assert offsets_of(checkpoint, 9) == [{"a": {"0": 7, "10": 7}, "b": {"0": 4}}, {"c": {"0": 9}}]
    assert not list((tmp_path / "spark").rglob("*.tmp"))


@pytest.mark.parametrize("log", ["commits", "offsets"])
def test_what_another_process_has_logged_is_not_replaced(tmp_path: Path, log: str) -> None:
    entries = SparkLogEntries.of(planned(tmp_path, *OFFSETS), 7)
    assert entries is not None
    theirs = tmp_path / "spark" / log / ("7" if log == "commits" else "8")
    theirs.write_text("theirs", encoding="utf-8")
    with pytest.raises(PermanentError, match="another process"):
        entries.next([{}, {}], 2_000)
    assert theirs.read_text(encoding="utf-8") == "theirs"


def test_entries_of_another_form_are_left_to_spark(tmp_path: Path) -> None:
    assert SparkLogEntries.of(planned(tmp_path / "version", *OFFSETS, version="v2"), 7) is None
    assert SparkLogEntries.of(planned(tmp_path / "commit", *OFFSETS, committed_as="v2\n{}"), 7) is None
    assert SparkLogEntries.of(planned(tmp_path / "nothing", OFFSETS[0], "-"), 7) is None
    assert SparkLogEntries.of(planned(tmp_path / "first", *OFFSETS), 6) is None
