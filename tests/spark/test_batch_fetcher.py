"""Batches of a query, fetched: those whose frame is asked for, those whose is not, and those that fail."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import StreamingQueryException

from crossline.runtime.spark_internals.batch_fetcher import BatchFetcher

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

    from crossline.runtime.spark_internals.batch_fetcher import Frame

pytestmark = pytest.mark.spark

ROWS = 3  # of each batch


class Fetched:
    """A query whose batches are noted; of those of ``asked`` the rows are read."""

    def __init__(self, spark: SparkSession, checkpoint: Path, asked: set[int], fails_at: int) -> None:
        self.batches: list[tuple[int, list[int] | None]] = []
        self.asked, self.fails_at, self.logs = asked, fails_at, checkpoint
        self.fetcher = BatchFetcher(spark, self.run, threading.Event())
        source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", ROWS).load().select("value")
        self.writer = self.fetcher.attach(source.writeStream.option("checkpointLocation", str(checkpoint)))

    def run(self, frame: Frame, number: int) -> int:
        if number == self.fails_at:
            raise ValueError(f"of batch {number}")
        rows = sorted(row.value for row in frame().collect()) if number in self.asked else None
        self.batches.append((number, rows))
        return number

    def failure(self, query: StreamingQuery) -> str:
        with pytest.raises(StreamingQueryException) as found:
            query.awaitTermination()
        self.fetcher.end()
        return str(found.value)


@pytest.mark.parametrize("adopted", [True, False])
def test_a_frame_has_the_rows_of_its_batch_whichever_were_asked_for_before(
    spark: SparkSession, tmp_path: Path, *, adopted: bool
) -> None:
    fetched = Fetched(spark, tmp_path / "checkpoint", {0, 2, 5}, fails_at=6)
    query = fetched.writer.start()
    if adopted:
        fetched.fetcher.adopt(query)
    text = fetched.failure(query)
    assert "FOREACH_BATCH_USER_FUNCTION_ERROR" in text
    assert "ValueError: of batch 6" in text
    rows = [list(range(ROWS * number, ROWS * (number + 1))) for number in range(6)]
    assert fetched.batches == [(number, rows[number] if number in {0, 2, 5} else None) for number in range(6)]


def test_the_batch_that_failed_comes_again(spark: SparkSession, tmp_path: Path) -> None:
    first = Fetched(spark, tmp_path / "checkpoint", set(), fails_at=2)
    query = first.writer.start()
    first.fetcher.adopt(query)
    first.failure(query)
    second = Fetched(spark, tmp_path / "checkpoint", {2}, fails_at=3)
    again = second.writer.start()
    second.fetcher.adopt(again)
    assert "ValueError: of batch 3" in second.failure(again)
    assert second.batches == [(2, [6, 7, 8])]


class Series(Fetched):
    """Batches 2 and 3 are planned and run after batch 1, without Spark."""

    def run(self, frame: Frame, number: int) -> int:
        super().run(frame, number)
        if number != 1:
            return number
        for planned in (2, 3):
            self.log("commits", planned - 1, (self.logs / "commits" / "0").read_text(encoding="utf-8"))
            version, metadata, _ = (self.logs / "offsets" / "1").read_text(encoding="utf-8").splitlines()
            offset = json.dumps({"offset": ROWS * (planned + 1), "timestamp": planned})
            self.log("offsets", planned, f"{version}\n{metadata}\n{offset}")
        return 3

    def log(self, name: str, number: int, text: str) -> None:
        (self.logs / name / str(number)).write_text(text, encoding="utf-8")


def test_spark_goes_on_after_the_last_batch_of_a_series(spark: SparkSession, tmp_path: Path) -> None:
    fetched = Series(spark, tmp_path / "checkpoint", {0, 1, 4, 5}, fails_at=6)
    query = fetched.writer.start()
    fetched.fetcher.adopt(query)
    assert fetched.fetcher.adopted
    assert "ValueError: of batch 6" in fetched.failure(query)
    assert [number for number, _ in fetched.batches] == [0, 1, 4, 5]
    assert fetched.batches == [(number, list(range(ROWS * number, ROWS * (number + 1)))) for number in (0, 1, 4, 5)]
    assert sorted(int(each.name) for each in (fetched.logs / "commits").iterdir() if each.name.isdigit()) == list(
        range(6)
    )
    again = Fetched(spark, tmp_path / "checkpoint", {6}, fails_at=7)
    query = again.writer.start()
    again.fetcher.adopt(query)
    again.failure(query)
    assert again.batches == [(6, list(range(ROWS * 6, ROWS * 7)))]


def test_a_query_fails_where_what_it_is_to_go_on_after_was_not_planned(spark: SparkSession, tmp_path: Path) -> None:
    class Wrong(Fetched):
        def run(self, frame: Frame, number: int) -> int:
            return super().run(frame, number) + number

    fetched = Wrong(spark, tmp_path / "checkpoint", set(), fails_at=5)
    query = fetched.writer.start()
    fetched.fetcher.adopt(query)
    assert "of batch 5" not in fetched.failure(query)
    assert fetched.batches == [(0, None), (1, None)]


def test_a_query_fails_where_what_it_is_to_go_on_after_is_of_other_sources(spark: SparkSession, tmp_path: Path) -> None:
    """Spark asserts that, which is no exception of Java's."""

    class Wrong(Fetched):
        def run(self, frame: Frame, number: int) -> int:
            super().run(frame, number)
            if number == 1:
                lines = (self.logs / "offsets" / "1").read_text(encoding="utf-8").splitlines()
                (self.logs / "offsets" / "2").write_text("\n".join([*lines, lines[-1]]), encoding="utf-8")
            return max(number, 2 * number)

    fetched = Wrong(spark, tmp_path / "checkpoint", set(), fails_at=5)
    query = fetched.writer.start()
    fetched.fetcher.adopt(query)
    assert "of batch 5" not in fetched.failure(query)
    assert fetched.batches == [(0, None), (1, None)]


def test_a_query_that_waits_for_a_batch_is_stopped(spark: SparkSession, tmp_path: Path) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def run(_: Frame, number: int) -> int:
        begun.set()
        go_on.wait()
        raise ValueError(f"of batch {number}")

    stopping = threading.Event()
    fetcher = BatchFetcher(spark, run, stopping)
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", ROWS).load()
    query = fetcher.attach(source.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))).start()
    fetcher.adopt(query)
    begun.wait()
    stopping.set()
    stop = threading.Thread(target=query.stop)
    stop.start()
    go_on.set()
    stop.join()
    fetcher.end()
    assert query.exception() is None
