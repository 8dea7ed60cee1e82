"""Batches of a query, fetched: those whose frame is asked for, those whose is not, and those that fail."""

from __future__ import annotations

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
        self.asked, self.fails_at = asked, fails_at
        self.fetcher = BatchFetcher(spark, self.run, threading.Event())
        source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", ROWS).load().select("value")
        self.writer = self.fetcher.attach(source.writeStream.option("checkpointLocation", str(checkpoint)))

    def run(self, frame: Frame, number: int) -> None:
        if number == self.fails_at:
            raise ValueError(f"of batch {number}")
        rows = sorted(row.value for row in frame().collect()) if number in self.asked else None
        self.batches.append((number, rows))

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


def test_a_query_that_waits_for_a_batch_is_stopped(spark: SparkSession, tmp_path: Path) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def run(_: Frame, number: int) -> None:
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
