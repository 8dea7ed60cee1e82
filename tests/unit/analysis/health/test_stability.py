"""Drift: the index by hand, its bound by a published table and by chance, groups by counting."""

from __future__ import annotations

import math
import random
from collections import Counter

import pytest

from crossline.analysis.health.stability import (
    bucket_of,
    by_chance,
    drift,
    groups_of,
    median,
    middle_of,
    stability_index,
)


def test_the_index_by_hand() -> None:
    # With half a value more in each group: 0.5 and 0.5 against 0.25 and 0.75.
    found = stability_index([9, 9], [4, 13])
    before, now = (0.5, 0.5), (4.5 / 18, 13.5 / 18)
    assert found == pytest.approx(sum((n - b) * math.log(n / b) for b, n in zip(before, now, strict=True)))
    assert found == pytest.approx(0.25 * math.log(3))
    assert math.isfinite(stability_index([10, 0], [0, 10]))


@pytest.mark.parametrize(("free", "percentile"), [(4, 13.277), (9, 21.666), (10, 23.209)])
def test_the_bound_is_the_percentile_of_tables(free: int, percentile: float) -> None:
    assert by_chance(2, 2, free + 1) == pytest.approx(percentile, rel=5e-3)


def test_buckets_keep_the_order_and_are_nine_percent_wide() -> None:
    values = [-1e9, -3.5, -1, -1e-9, 0, 1e-9, 0.5, 1, 1.1, 6, 7, 10, 11, 15_000, 1e300]
    buckets = [bucket_of(each) for each in values]
    assert buckets == sorted(buckets)
    assert len(set(buckets)) == len(values)
    for value in values:
        assert middle_of(bucket_of(value)) == pytest.approx(value, rel=0.05, abs=1e-12)


def test_groups_are_tenths_of_the_week_before() -> None:
    before = dict.fromkeys(range(9000, 9020), 10)  # 200 values
    groups, now = groups_of(before, {9_000: 1, 9_019: 2, 9_050: 4, -5: 8})
    assert groups == [20] * 10 + [0]
    assert now == [9] + [0] * 8 + [2, 4]
    assert groups_of({7: 40}, {6: 1, 7: 2, 8: 3}) == ([40, 0], [3, 3])


def test_the_median_is_in_its_bucket() -> None:
    assert bucket_of(median({9_000: 3, 9_008: 1, 9_016: 3})) == 9_008
    assert median({0: 5}) == 0.0


def counted(values: list[float]) -> Counter[int]:
    return Counter(map(bucket_of, values))


def test_drift_is_reported_and_chance_is_not() -> None:
    drawn = random.Random(3)
    reported = 0
    for _ in range(200):
        before, now = (counted([drawn.lognormvariate(3, 1) for _ in range(60)]) for _ in range(2))
        found = drift(before, now)
        assert found is not None
        reported += found.shifted
    assert reported <= 10  # 1 in 100 of 200 are 2; the index is not quite a chi-squared
    moved = drift(
        counted([drawn.lognormvariate(3, 1) for _ in range(200)]),
        counted([drawn.lognormvariate(4, 1) for _ in range(200)]),
    )
    assert moved is not None
    assert moved.shifted
    assert moved.median_now / moved.median_before == pytest.approx(math.e, rel=0.4)


def test_of_few_values_nothing_is_stated() -> None:
    assert drift({9_000: 29}, {9_000: 900}) is None
    assert drift({9_000: 900}, {9_000: 29}) is None
    assert drift({}, {}) is None
