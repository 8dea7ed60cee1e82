"""How much a batch of topics reads, by how long batches took."""

from __future__ import annotations

import pytest

from crossline.runtime.spark_internals.rate_controller import RateController


def after(*batches: tuple[int, float], most: int = 300_000, within_ms: int = 5_000) -> int:
    pace = RateController(most, within_ms)
    pace.batch(300_000, 20_000)  # the first one of a run
    for records, took_ms in batches:
        pace.batch(records, took_ms)
    return pace.records


@pytest.mark.parametrize(
    ("batches", "expected"),
    [
        ([], 300_000),
        ([(300_000, 4_000)], 300_000),
        ([(300_000, 6_000)], 250_000),
        ([(300_000, 60_000)], 150_000),  # one that stood still for a while
        ([(300_000, 60_000), (150_000, 60_000)], 75_000),
        ([(300_000, 60_000), (150_000, 4_000)], 187_500),
        ([(300_000, 60_000), (150_000, 1)], 300_000),
        ([(300_000, 60_000), (10_000, 100)], 150_000),  # there was no more to read
        ([(20_000, 10_000)], 10_000),
        ([(1, 90_000)], 1_000),
        ([(1_000, 90_000)] * 9, 1_000),
    ],
)
def test_a_batch_reads_what_is_done_in_time(batches: list[tuple[int, float]], expected: int) -> None:
    assert after(*batches) == expected


def test_a_bound_that_is_lower_than_the_least_is_kept() -> None:
    assert after((20, 9_000), most=20) == 20
    assert after((20, 1), most=20) == 20
