"""The follower: a round writes what was committed at its begin, failures are retried, a stop writes the rest."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from crossline.basics.errors import StateError
from crossline.lake.catalogs.unavailable import LakeUnavailableError
from crossline.lake.writing import follow
from crossline.lake.writing.follow import Follower
from crossline.lake.writing.writer import LakeWriter, Written
from unit.lake.lake_kit import SpooledPipeline, payment


@pytest.fixture
def pipeline(tmp_path: Path) -> SpooledPipeline:
    made = SpooledPipeline(tmp_path)
    made.batch([payment(1)])
    return made


def test_batches_that_come_during_a_round_wait_for_the_next(pipeline: SpooledPipeline) -> None:
    written: list[Written] = []

    def more(done: Written) -> None:
        written.append(done)
        pipeline.batch([payment(10 + len(written))])

    with pipeline.writer() as writer:
        Follower(writer, 60.0, more).catch_up(threading.Event())
        assert [(each.first, each.last) for each in written] == [(0, 0)]
        Follower(writer, 60.0, more).catch_up(threading.Event())
        assert [(each.first, each.last) for each in written] == [(0, 0), (1, 1)]


def test_a_stop_writes_what_is_committed_by_then(pipeline: SpooledPipeline) -> None:
    stop = threading.Event()
    stop.set()
    with pipeline.writer() as writer:
        Follower(writer, 60.0).run(stop)
    assert pipeline.reader().count("records_payments") == 1


def test_failures_are_retried_and_faults_of_the_data_end_it(
    pipeline: SpooledPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "PAUSE_S", 0.001)
    original, failures = LakeWriter.write_next, [LakeUnavailableError("away"), OSError("gone for a moment")]

    def failing(writer: LakeWriter, upto: int | None = None) -> Written | None:
        if failures:
            raise failures.pop()
        return original(writer, upto)

    monkeypatch.setattr(LakeWriter, "write_next", failing)
    with pipeline.writer() as writer:
        Follower(writer, 60.0).catch_up(threading.Event())
        assert pipeline.reader().count("records_payments") == 1
        failures.append(StateError("the spool is damaged"))
        with pytest.raises(StateError, match="damaged"):
            Follower(writer, 60.0).catch_up(threading.Event())
