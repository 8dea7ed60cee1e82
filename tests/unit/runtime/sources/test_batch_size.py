"""The size of batches of a backlog follows the seconds that they take, within its bounds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from crossline.runtime.sources.batch_size import FIRST_BYTES, TARGET_S, BatchSize

SECONDS = st.floats(0, 1e6)


def test_quick_batches_grow_twofold_up_to_the_most() -> None:
    size = BatchSize(100, 1_000)
    assert [size.took(size.now, 0.1) for _ in range(5)] == [200, 400, 800, 1_000, 1_000]


def test_slow_batches_shrink_to_the_first_size_at_once() -> None:
    size = BatchSize(100, 1_000)
    size.took(100, 0.1)
    assert size.took(200, 60.0) == 100


def test_a_batch_that_takes_what_it_should_stays_as_it_is() -> None:
    size = BatchSize(100, 1_000)
    size.took(100, TARGET_S / 2)
    assert size.took(200, TARGET_S) == 200


def test_the_size_is_that_of_the_batch_that_was_timed() -> None:
    """The end of the next batch is fixed before this one is done."""
    size = BatchSize(100, 1_000)
    assert [size.took(100, 0.1), size.took(100, 0.1), size.took(200, 0.1)] == [200, 200, 400]


@given(st.integers(1, 2 * FIRST_BYTES), st.lists(SECONDS, max_size=20))
def test_no_batch_is_larger_than_the_most_or_smaller_than_the_first(most: int, took: list[float]) -> None:
    size = BatchSize(FIRST_BYTES, most)
    least = min(FIRST_BYTES, most)
    assert size.now == least
    for seconds in took:
        before = size.now
        assert least <= size.took(before, seconds) <= min(most, 2 * before)
