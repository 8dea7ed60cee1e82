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
