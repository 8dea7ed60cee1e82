"""Regions keep their bytes when they grow past the size from which pages are huge, and when they shrink."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossline.state.memory.regions import LINE, MAPPED_FROM, SMALL_PAGES, Region


def test_bytes_stay_and_new_ones_are_zero() -> None:
    region = Region(100)
    region.array[:] = 7
    for size in (MAPPED_FROM, 3 * MAPPED_FROM, 50, 2 * MAPPED_FROM):
        region.resize(size)
        assert len(region.array) == size
        assert (region.array[:50] == 7).all()
        region.array[50:100] = 7
        assert not region.array[100:].any()
    assert not Region(MAPPED_FROM).array.any()


def test_what_is_dropped_reads_as_zero_and_the_rest_stays_where_the_region_goes() -> None:
    region = Region(3 * MAPPED_FROM, 4 * MAPPED_FROM)
    region.array[:] = 7
    region.drop(MAPPED_FROM + 5)
    assert region.dropped == MAPPED_FROM
    region.drop(MAPPED_FROM)
    assert not region.array[:MAPPED_FROM].any()
    region.resize(100 * MAPPED_FROM)
    assert (region.array[MAPPED_FROM : 3 * MAPPED_FROM] == 7).all()
    assert not region.array[:MAPPED_FROM].any()


def test_a_small_region_drops_nothing() -> None:
    region = Region(100)
    region.array[:] = 7
    region.drop(50)
    assert region.dropped == 0
    assert (region.array == 7).all()


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="the system does not say how it holds pages")
@pytest.mark.parametrize("small", [0, SMALL_PAGES])
def test_huge_pages_are_asked_for_beyond_the_first_megabytes_only(small: int) -> None:
    region = Region(MAPPED_FROM, small_pages=small)
    begins = region.array.ctypes.data
    asked = [
        "hg" in flags.split()
        for start, end, flags in re.findall(
            r"^([0-9a-f]+)-([0-9a-f]+) (?:.*\n)+?VmFlags:(.*)", Path("/proc/self/smaps").read_text(), re.MULTILINE
        )
        for at in (begins, begins + SMALL_PAGES - 1, begins + SMALL_PAGES, begins + region.room() - 1)
        if int(start, 16) <= at < int(end, 16)
    ]
    assert asked == [not small, not small, True, True]


@given(st.lists(st.integers(0, 5000), min_size=1, max_size=12))
def test_a_small_region_begins_with_a_line_keeps_its_bytes_and_adds_zeros(sizes: list[int]) -> None:
    region, twin = Region(0), bytearray()
    for turn, size in enumerate(sizes, 1):
        region.resize(size)
        twin = twin[:size] + bytes(max(0, size - len(twin)))
        assert not size or region.array.ctypes.data % LINE == 0
        assert region.array.tobytes() == twin
        region.array[:] = turn
        twin = bytearray([turn]) * size


def test_a_region_that_becomes_large_lets_go_of_the_heap() -> None:
    region = Region(1000)
    region.array[:] = 7
    region.resize(MAPPED_FROM)
    assert (region.array[:1000] == 7).all()
    assert not region.array[1000:].any()
    assert not len(region._heap)
