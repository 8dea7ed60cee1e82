"""An error response has an id that the log has too; it contains nothing about the server's internals."""

from __future__ import annotations

from typing import Any

import pytest
from structlog.testing import capture_logs

from crossline.basics.errors import CrosslineError, RetryableError, StateError, StoppedError
from crossline.serve.fault_log import KEPT_MAX, FaultLog, TellableError
from crossline.serve.http.problems import problem_of

SECRET = "/var/lib/bank/ledger.db"


class Clock:
    now_s = 5.0

    def __call__(self) -> float:
        return self.now_s


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (RetryableError(f"the ledger {SECRET} takes nothing now"), 503),
        (StateError(f"{SECRET} is not a readable SQLite file"), 500),
        (StoppedError(f"{SECRET} is not followed any more"), 503),
        (ValueError(SECRET), 500),
    ],
)
def test_a_problem_names_the_line_of_the_log_and_no_path(error: Exception, status: int) -> None:
    with capture_logs() as lines:
        problem = problem_of(error)
    assert problem.status == status
    assert SECRET not in problem.detail
    (line, *_) = lines
    assert line["fault"] in problem.detail
    assert SECRET in line["error"]


def test_what_is_meant_for_who_asked_is_reported_as_it_is() -> None:
    error: CrosslineError = TellableError("20 jobs wait already; ask again once some are done", 10_000)
    problem = problem_of(error)
    assert (problem.detail, problem.headers["Retry-After"]) == (str(error), "10")


def test_the_same_again_is_one_line_a_minute() -> None:
    clock = Clock()
    faults = FaultLog(clock)

    def noted(event: str, error: Any) -> tuple[str, int]:
        with capture_logs() as lines:
            return faults.noted(event, error), len(lines)

    first, count = noted("it failed", OSError("disk"))
    assert count == 1
    assert noted("it failed", OSError("disk")) == (first, 0)
    others = [
        noted("it failed", OSError("net")),
        noted("it failed", ValueError("disk")),
        noted("else", OSError("disk")),
    ]
    assert {count for _, count in others} == {1}
    assert len({first, *(fault for fault, _ in others)}) == 4
    clock.now_s += 60
    again, count = noted("it failed", OSError("disk"))
    assert (again != first, count) == (True, 1)
    for number in range(KEPT_MAX):
        noted("it failed", str(number))
    assert noted("it failed", OSError("disk"))[1] == 1, "few are known"
