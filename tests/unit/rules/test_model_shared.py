"""Copies of a process that shares its models' processes: they ask in turn, whatever one of them leaves half done."""

from __future__ import annotations

import os
import pickle
import signal
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from crossline.basics.models import processes
from crossline.basics.models.model import Model, Scorer
from crossline.basics.models.processes import Processes

from .onnxkit import weighted

DATA = weighted(5)


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Iterator[Processes]:
    """Those of this process, as a follower of a pipeline's state has them."""
    made = Processes()
    monkeypatch.setattr("crossline.basics.models.model.HERE", made)
    os.register_at_fork(after_in_child=made.forget)
    made.share()
    yield made
    made.close()


def scorer() -> Scorer:
    return Scorer(Model.of("m.onnx", DATA), ("f",))


def scores(value: float) -> list[float]:
    found: list[float] = scorer().scores(np.full((70, 1), value))[0].tolist()
    return found


def pid_of(here: Processes) -> int:
    return here._running[scorer().model.digest]._process.pid


def copy(work: Callable[[], Any]) -> Callable[[], Any]:
    """Begin ``work`` in a copy of this process; what waits for its outcome, None where it ended before."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(reading)
            with os.fdopen(writing, "wb") as file:
                pickle.dump(work(), file)
        finally:
            os._exit(0)
    os.close(writing)

    def outcome() -> Any:
        with os.fdopen(reading, "rb") as file:
            raw = file.read()
        os.waitpid(pid, 0)
        return pickle.loads(raw) if raw else None  # noqa: S301 - our own

    return outcome


def test_copies_ask_the_process_that_was_started_before_them(here: Processes) -> None:
    here.ready(scorer().model.digest, DATA)
    first = pid_of(here)

    def ask(value: float) -> Any:
        return [scores(value + turn) for turn in range(20)], pid_of(here)

    waiting = [(value, copy(lambda value=value: ask(value))) for value in (100.0, 200.0, 300.0)]  # type: ignore[misc]
    mine, pid = ask(0.0)
    assert (mine, pid) == ([[5 * turn] * 70 for turn in map(float, range(20))], first)
    for value, outcome in waiting:
        assert outcome() == ([[5 * (value + turn)] * 70 for turn in range(20)], first)


def test_a_copy_that_ends_during_a_request_misleads_no_other(here: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    digest = scorer().model.digest
    here.ready(digest, DATA)
    first = pid_of(here)

    def end() -> None:
        monkeypatch.setattr(processes, "read_message", lambda _: os.kill(os.getpid(), signal.SIGKILL))
        scores(8.0)

    assert copy(end)() is None
    found, pid = copy(lambda: (scores(2.0), pid_of(here)))()
    assert found == [10.0] * 70, "and not what the one before asked for"
    assert pid != first
    here.ready(digest, DATA)
    second = pid_of(here)
    assert second not in {first, pid}
    assert copy(lambda: (scores(3.0), pid_of(here)))() == ([15.0] * 70, second)
    with pytest.raises(ProcessLookupError):
        os.kill(first, 0)


def test_a_shared_process_that_is_killed_is_replaced(here: Processes) -> None:
    digest = scorer().model.digest
    here.ready(digest, DATA)
    first = pid_of(here)
    os.kill(first, signal.SIGKILL)
    found, pid = copy(lambda: (scores(2.0), pid_of(here)))()
    assert (found, pid != first) == ([10.0] * 70, True)
    assert scores(4.0) == [20.0] * 70
    here.ready(digest, DATA)
    assert pid_of(here) != first


def test_a_copy_ends_no_process_that_is_not_its_own(here: Processes) -> None:
    here.ready(scorer().model.digest, DATA)
    first = pid_of(here)

    def ask() -> list[float]:
        found = scores(2.0)
        here.close()
        return found

    assert copy(ask)() == [10.0] * 70
    assert (scores(3.0), pid_of(here)) == ([15.0] * 70, first)
