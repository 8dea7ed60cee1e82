"""Entries of Spark's logs that the driver writes: Spark's own, with other offsets and another time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from crossline.basics.errors import PermanentError
from crossline.runtime.snapshot.spark_log import began_ms, committed, last_planned, offsets_of, unfinished_batch
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


@pytest.mark.parametrize("cut", range(4))
def test_wherever_it_is_cut_off_the_logs_are_those_of_a_batch_of_sparks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cut: int
) -> None:
    """A kill within the writing of the commit, before it has its name, within the writing of the offsets, and so on."""
    checkpoint, left = planned(tmp_path, *OFFSETS), [cut]
    entries = SparkLogEntries.of(checkpoint, 7)
    assert entries is not None

    def killed(call: Callable[..., object]) -> Callable[..., object]:
        def until(path: Path, given: bytes | Path) -> object:
            left[0] -= 1
            if left[0] >= 0:
                return call(path, given)
            if isinstance(given, bytes):
                call(path, given[: len(given) // 2])
            raise KeyboardInterrupt

        return until

    with monkeypatch.context() as patched:
        for name in ("write_bytes", "rename"):
            patched.setattr(Path, name, killed(getattr(Path, name)))
        with pytest.raises(KeyboardInterrupt):
            entries.next([{("a", 0): 6}, {}], 2_000)
    assert unfinished_batch(checkpoint) == (7 if cut < 2 else None)
    assert last_planned(checkpoint) == 7
    if cut >= 2:  # Spark plans the next one
        text = (tmp_path / "spark" / "offsets" / "7").read_text(encoding="utf-8")
        (tmp_path / "spark" / "offsets" / "8").write_text(text, encoding="utf-8")
    again = SparkLogEntries.of(checkpoint, last_planned(checkpoint))
    assert again is not None
    again.next([{("a", 0): 9}, {}], 3_000)
    assert offsets_of(checkpoint, again.last)[0] == {"a": {"0": 9, "10": 7}, "b": {"0": 1}}
    assert committed(checkpoint, again.last - 1)


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
