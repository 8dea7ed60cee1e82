"""Executors that join get shards once a job on them is done; the batches go on with those that are warm."""

from __future__ import annotations

import threading
from collections.abc import Collection
from dataclasses import dataclass, field

from crossline.runtime.spark_internals.joining_executors import ROUNDS_MAX, JoiningExecutors, TaskFunction
from crossline.runtime.stages.rows import ArrowBatches

Done = tuple[str, int, Collection[int], Collection[int]]


@dataclass
class Before:
    """A warmup before a batch."""

    batch_id: int
    planned: list[tuple[int, Collection[int], Collection[int]]] = field(default_factory=list)

    def tasks(self, judged: Collection[int], followed: Collection[int]) -> TaskFunction:
        self.planned.append((self.batch_id, judged, followed))
        return passed


def passed(batches: ArrowBatches) -> ArrowBatches:
    return batches


class Cluster:
    """Executors whose jobs end when the test says so."""

    def __init__(self) -> None:
        self.jobs = threading.Semaphore(0)
        self.ran: list[str] = []
        self.started = threading.Semaphore(0)
        self.error: Exception | None = None
        self.joining = JoiningExecutors(self._run)

    def _run(self, name: str, _: TaskFunction) -> None:
        self.ran.append(name)
        self.started.release()
        assert self.jobs.acquire(timeout=60)
        if self.error is not None:
            raise self.error

    def warm(self, found: Collection[str], before: Before | None) -> set[str]:
        return set(self.joining.warm_of(found, before, lambda name: ([int(name)], [0])))

    def end(self) -> None:
        """Every thread ends, whatever it waits for."""
        self.jobs.release(ROUNDS_MAX)
        for thread in self.joining._joining.values():
            thread.join(60)
            assert not thread.is_alive()


def test_those_of_the_beginning_are_warm_and_another_is_once_its_job_is_done() -> None:
    cluster, before = Cluster(), Before(7)
    assert cluster.warm(["0", "1"], Before(6)) == {"0", "1"}
    assert cluster.warm(["1", "2"], before) == {"1"}
    assert cluster.started.acquire(timeout=60)
    assert before.planned == [(7, [2], [0])]
    assert cluster.warm(["1", "2"], Before(8)) == {"1"}
    assert cluster.ran == ["2"]
    cluster.end()
    assert cluster.warm(["1", "2"], Before(9)) == {"1", "2"}
    assert cluster.ran == ["2"]


def test_it_reads_on_until_it_lacks_the_batch_that_runs() -> None:
    cluster, later = Cluster(), Before(12)
    cluster.warm(["1"], Before(6))
    cluster.warm(["1", "2"], Before(7))
    assert cluster.started.acquire(timeout=60)
    cluster.warm(["1", "2"], later)
    cluster.jobs.release()
    assert cluster.started.acquire(timeout=60)
    assert later.planned == [(12, [2], [0])]
    cluster.warm(["1", "2"], Before(13))
    cluster.end()
    assert cluster.ran == ["2", "2"]
    assert cluster.warm(["1", "2"], Before(14)) == {"1", "2"}


def test_where_none_is_warm_the_others_judge_at_once() -> None:
    cluster = Cluster()
    cluster.warm(["0", "1"], Before(6))
    assert cluster.warm(["1", "2"], Before(7)) == {"1"}
    assert cluster.warm(["2"], Before(8)) == {"2"}
    assert cluster.warm(["2", "3"], Before(9)) == {"2", "3"}
    assert cluster.warm([], Before(10)) == set()
    cluster.end()


def test_one_that_is_lost_before_it_is_warm_is_forgotten() -> None:
    cluster = Cluster()
    cluster.warm(["1"], Before(6))
    cluster.warm(["1", "2"], Before(7))
    assert cluster.warm(["1"], Before(8)) == {"1"}
    cluster.jobs.release(ROUNDS_MAX)
    assert cluster.warm(["1"], Before(9)) == {"1"}
    cluster.end()


def test_one_whose_job_fails_is_taken_all_the_same() -> None:
    """What went wrong goes wrong again in its batch, which reports it."""
    cluster = Cluster()
    cluster.error = RuntimeError("no such thing\n\tat a stack")
    cluster.warm(["1"], Before(6))
    cluster.warm(["1", "2"], Before(7))
    cluster.end()
    assert cluster.warm(["1", "2"], Before(8)) == {"1", "2"}


def test_records_of_the_past_begin_nothing() -> None:
    cluster = Cluster()
    assert cluster.warm(["1"], None) == {"1"}
    assert cluster.warm(["1", "2"], None) == {"1"}
    assert cluster.ran == []
    assert cluster.warm(["1", "2"], Before(0)) == {"1"}
    assert cluster.started.acquire(timeout=60)
    cluster.end()
