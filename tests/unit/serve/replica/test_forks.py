"""How long is waited between two calls of a fork: by hand."""

from __future__ import annotations

import pytest

from crossline.serve.replica.forks import CallPace


def test_where_a_processor_is_there_the_next_call_follows_at_once() -> None:
    pace = CallPace()
    assert pace.pause_s() == 0.0
    for _ in range(100):
        pace.took(2.0, 2.0)
    assert pace.pause_s() == pytest.approx(0.0005)  # a quarter of 2 ms


def test_where_calls_wait_for_a_processor_there_are_fewer_of_them() -> None:
    pace = CallPace()
    for _ in range(300):
        pace.took(2.0, 0.5)  # three quarters of the call was waiting
    assert pace.pause_s() == pytest.approx(0.006, rel=1e-4)  # three times 2 ms
    pace.took(40.0, 10.0)
    assert pace.pause_s() == 0.01, "and no longer"
    for _ in range(300):
        pace.took(2.0, 1.5)  # a quarter: half of what is counted as scarce, so 0.25 + 2.75 / 2 times 2 ms
    assert pace.pause_s() == pytest.approx(0.00325, rel=1e-4)


def test_one_call_says_little_and_one_without_a_time_nothing() -> None:
    pace = CallPace()
    pace.took(2.0, 0.0)
    assert pace.pause_s() == pytest.approx(0.002 * (0.25 + 2.75 * 0.05))
    pace.took(0.0, 0.0)
    assert pace.pause_s() == 0.0
