"""Regions keep their bytes when they grow past the size from which pages are huge, and when they shrink."""

from __future__ import annotations

from crossline.state.memory.regions import HUGE_FROM, Region


def test_bytes_stay_and_new_ones_are_zero() -> None:
    region = Region(100)
    region.array[:] = 7
    for size in (HUGE_FROM, 3 * HUGE_FROM, 50, 2 * HUGE_FROM):
        region.resize(size)
        assert len(region.array) == size
        assert (region.array[:50] == 7).all()
        region.array[50:100] = 7
        assert not region.array[100:].any()
    assert not Region(HUGE_FROM).array.any()


def test_what_is_dropped_reads_as_zero_and_the_rest_stays_where_the_region_goes() -> None:
    region = Region(3 * HUGE_FROM, 4 * HUGE_FROM)
    region.array[:] = 7
    region.drop(HUGE_FROM + 5)
    assert region.dropped == HUGE_FROM
    region.drop(HUGE_FROM)
    assert not region.array[:HUGE_FROM].any()
    region.resize(100 * HUGE_FROM)
    assert (region.array[HUGE_FROM : 3 * HUGE_FROM] == 7).all()
    assert not region.array[:HUGE_FROM].any()


def test_a_small_region_drops_nothing() -> None:
    region = Region(100)
    region.array[:] = 7
    region.drop(50)
    assert region.dropped == 0
    assert (region.array == 7).all()
