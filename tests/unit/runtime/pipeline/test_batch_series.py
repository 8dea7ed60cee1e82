"""Batches that the driver plans after one of Spark's: what is logged before each, and where they end."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from crossline.runtime.pipeline import batch_series
from crossline.runtime.pipeline.batch_series import BatchSeries
from crossline.runtime.snapshot.spark_log import committed, offsets_of, unfinished_batch
from crossline.runtime.sources.plan_source import SourcePlan

if TYPE_CHECKING:
    from crossline.runtime.spark_internals.batch_fetcher import Frame

FIRST = 4  # the batch of Spark's
STREAMS = ("left", "right")
Ends = dict[str, dict[tuple[str, int], int]]


def ends(left: int, right: int) -> Ends:
    return {"left": {("l", 0): left}, "right": {("r", 0): right}}


class Buffer:
    """Stands for the process of the in-process runner: what it has, one answer after the other, then None."""

    def __init__(self, answers: Sequence[Ends | None]) -> None:
        self.answers: Iterator[Ends | None] = iter(answers)
        self.asked: list[Mapping[str, Any]] = []

    def buffered(
        self, starts: Mapping[str, Any], wait_s: float, records_max: int, each_max: Mapping[str, int]
    ) -> Ends | None:
        assert (wait_s, records_max, each_max) == (batch_series.WAIT_S, 100, {"left": 70})
        self.asked.append(starts)
        return next(self.answers, None)


@dataclass
class Pipeline:
    """Notes the batches that it runs; ``during``: whether one ran as usual."""

    checkpoint: str
    ran: list[int] = field(default_factory=list)
    during: Callable[[], bool] = lambda: True

    def run(self, _: Frame, batch_id: int) -> bool:
        assert committed(self.checkpoint, batch_id - 1), "a batch runs before the one before it is committed"
        assert unfinished_batch(self.checkpoint) == batch_id, "a batch runs that is not planned"
        self.ran.append(batch_id)
        return self.during()


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    lines = ["v1", '{"batchTimestampMs":1}', '{"l":{"0":0}}', '{"r":{"0":0}}']
    for log, batch, text in (("offsets", FIRST, "\n".join(lines)), ("commits", FIRST - 1, "v1\n{}")):
        (tmp_path / "spark" / log).mkdir(parents=True)
        (tmp_path / "spark" / log / str(batch)).write_text(text, encoding="utf-8")
    return Pipeline(str(tmp_path))


def follow(pipeline: Pipeline, buffer: Buffer, stopping: threading.Event | None = None) -> int:
    sources = [SourcePlan(name, None, None, None, None) for name in STREAMS]  # type: ignore[arg-type] # not read
    series = BatchSeries(
        None,  # type: ignore[arg-type] # not used
        pipeline.checkpoint,
        sources,
        buffer,  # type: ignore[arg-type] # as far as it is used
        stopping or threading.Event(),
        pipeline.run,
        lambda: (100, {"left": 70}),
    )
    return series.follow(FIRST)


def test_batches_begin_where_those_before_ended_and_the_last_is_left_to_spark_to_commit(pipeline: Pipeline) -> None:
    buffer = Buffer([ends(3, 0), ends(5, 2), None, ends(9, 9)])
    last = follow(pipeline, buffer)
    assert pipeline.ran == [FIRST + 1, FIRST + 2]
    assert last == FIRST + 2
    assert buffer.asked == [ends(0, 0), ends(3, 0), ends(5, 2)]
    assert offsets_of(pipeline.checkpoint, last) == [{"l": {"0": 5}}, {"r": {"0": 2}}]
    assert not committed(pipeline.checkpoint, last)


def test_nothing_is_logged_where_nothing_follows(pipeline: Pipeline) -> None:
    assert follow(pipeline, Buffer([])) == FIRST
    assert unfinished_batch(pipeline.checkpoint) == FIRST
    assert not committed(pipeline.checkpoint, FIRST)


def test_a_batch_that_did_not_run_as_usual_is_the_last(pipeline: Pipeline) -> None:
    pipeline.during = lambda: False
    assert follow(pipeline, Buffer([ends(1, 0), ends(2, 0)])) == FIRST + 1


def test_a_failed_batch_is_planned_and_not_committed(pipeline: Pipeline) -> None:
    def fail() -> bool:
        raise ValueError("of a sink")

    pipeline.during = fail
    with pytest.raises(ValueError, match="of a sink"):
        follow(pipeline, Buffer([ends(1, 0)]))
    assert unfinished_batch(pipeline.checkpoint) == FIRST + 1


def test_a_stop_ends_it_after_the_batch_that_runs(pipeline: Pipeline) -> None:
    stopping = threading.Event()

    def stop() -> bool:
        stopping.set()
        return True

    pipeline.during = stop
    assert follow(pipeline, Buffer([ends(1, 0), ends(2, 0)]), stopping) == FIRST + 1


def test_where_no_record_waits_spark_does(pipeline: Pipeline) -> None:
    assert follow(pipeline, Buffer([ends(1, 0), {}, ends(2, 0)])) == FIRST + 1
    assert not committed(pipeline.checkpoint, FIRST + 1)


def test_spark_looks_again_after_some_time(pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_series, "SERIES_S", -1.0)
    assert follow(pipeline, Buffer([ends(1, 0), ends(2, 0)])) == FIRST
