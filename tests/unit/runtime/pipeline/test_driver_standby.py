"""When the driver's machine follows, judges and lets go, by the executors that are warm."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from crossline.basics.errors import StoppedError
from crossline.runtime.pipeline.driver_standby import DriverStandby
from crossline.runtime.snapshot.snapshot import PlanSnapshot, StaticSnapshot
from crossline.runtime.state_log.cache import ShardCache
from crossline.runtime.work.rows import Rows
from crossline.runtime.work.task import Task
from e2e.snapshots import snapshot_of
from e2e.traffic import OF_RECORDS

ROWS: Rows = [("figures", b"{}")]
TASK = Task("query", 7)


class Placement:
    """Executors as a test has them; ``lost``: whether the last one goes while a job runs."""

    def __init__(self, warm: Collection[str] | None, *, lost: bool = False) -> None:
        self.warm = None if warm is None else frozenset(warm)
        self._lost = lost

    @contextmanager
    def job(self) -> Iterator[Callable[[], bool]]:
        yield lambda: self._lost


class Driver:
    """A standby whose processes note what they are asked for. ``can``: whether there are any; ``runs``: and answer."""

    def __init__(self, *, can: bool = True, runs: bool = True) -> None:
        self.did: list[Any] = []
        self.can = can
        self.runs = runs
        self.stopping = threading.Event()
        self.snapshot: PlanSnapshot = snapshot_of(OF_RECORDS, 3)
        source, cache = StaticSnapshot(self.snapshot.to_json()), ShardCache("state", per_query=False, held_max=3)
        states: Any = self
        self.standby = DriverStandby(states, source, cache, self._run, lambda: self.did.append("closed"), self.stopping)

    def begin(self) -> bool:
        return self.can

    def follow(self, work: Any, shards: int) -> None:
        self.did.append(("follows", work.batch_id, shards))

    def end(self) -> None:
        self.did.append("ended")

    def _run(self, task: Task, stages: int) -> Rows | None:
        self.did.append(("judges", task.batch_id, stages))
        return ROWS if self.runs else None

    def batch(self, placement: Placement, failure: Exception | None = None) -> Any:
        def judged() -> str:
            if failure is not None:
                raise failure
            return "by executors"

        given: Any = placement
        return self.standby.watched(TASK, self.snapshot, given, judged)


def test_executors_that_follow_each_other_need_nothing_here() -> None:
    driver = Driver()
    assert driver.batch(Placement(None)) == driver.batch(Placement("12")) == "by executors"
    assert driver.did == []


def test_with_one_left_all_shards_are_followed_until_there_are_two() -> None:
    driver = Driver()
    assert [driver.batch(Placement(warm)) for warm in ("1", "1", "12", "12")] == ["by executors"] * 4
    assert driver.did == [("follows", 7, 3), ("follows", 7, 3), "closed", "ended"]


def test_with_none_left_it_judges() -> None:
    driver = Driver()
    assert driver.batch(Placement("")) == ROWS
    assert driver.did == [("follows", 7, 3), ("judges", 7, 2)]


@pytest.mark.parametrize("warm", ["1", "12"])
def test_a_job_that_the_last_executor_takes_with_it_is_judged_here(warm: str) -> None:
    driver = Driver()
    assert driver.batch(Placement(warm, lost=True), RuntimeError("cancelled")) == ROWS
    assert driver.did[-1] == ("judges", 7, 2)
    assert driver.batch(Placement("12")) == "by executors"
    assert driver.did[-2:] == ["closed", "ended"], "also where it judged before it followed anything"


def test_a_job_that_fails_for_itself_fails() -> None:
    driver = Driver()
    with pytest.raises(RuntimeError, match="damaged"):
        driver.batch(Placement("12"), RuntimeError("damaged"))
    assert driver.did == []


def test_a_stop_ends_the_job_and_begins_nothing() -> None:
    driver = Driver()
    driver.stopping.set()
    with pytest.raises(RuntimeError, match="stopped"):
        driver.batch(Placement("12", lost=True), RuntimeError("stopped"))
    assert driver.did == []


@pytest.mark.parametrize(("can", "runs"), [(False, True), (True, False)])
def test_what_cannot_be_run_here_waits_for_an_executor(*, can: bool, runs: bool) -> None:
    driver = Driver(can=can, runs=runs)
    assert driver.batch(Placement("")) is None
    driver.stopping.set()
    with pytest.raises(StoppedError):
        driver.batch(Placement(""))
