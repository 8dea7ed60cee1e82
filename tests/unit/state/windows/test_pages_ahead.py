"""Pages that another thread gets ahead: which these are, that no byte changes, and that none comes too late."""

from __future__ import annotations

import mmap
import os
import struct
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossline.state.memory import regions
from crossline.state.memory.pages_ahead import PAGE, PagesAhead
from crossline.state.memory.regions import EXPECTED_FROM, Region, ahead_of

MIB = 1 << 20
PAGEMAP = Path("/proc/self/pagemap")
needs_pagemap = pytest.mark.skipif(not PAGEMAP.exists(), reason="the system does not say which pages it has")
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("grow"), st.integers(0, 9 * MIB)),
        st.tuples(st.just("down"), st.integers(0, 90 * MIB)),
        st.tuples(st.just("shrink"), st.integers(0, 90 * MIB)),
        st.tuples(st.just("drop"), st.integers(0, 90 * MIB)),
    ),
    max_size=30,
)


def present(region: Region, page: int) -> bool:
    """Whether the system holds the beginning of a page."""
    address = region.array.ctypes.data + page * PAGE
    with PAGEMAP.open("rb") as file:
        file.seek(address // mmap.PAGESIZE * 8)
        return bool(struct.unpack("Q", file.read(8))[0] >> 63)


class Noted(PagesAhead):
    """Notes which pages are asked for and gets none."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[int] = []

    def ask(self, made: mmap.mmap, addresses: object) -> None:
        start = np.frombuffer(made, np.uint8).ctypes.data
        first = start + -start % PAGE
        assert isinstance(addresses, list)
        self.asked += [(address - first) // PAGE for address in addresses]


class Held:
    """Gets each page only when it is let to."""

    def __init__(self) -> None:
        self.begun, self.go_on = threading.Semaphore(0), threading.Semaphore(0)
        self.got: list[int] = []

    def __call__(self, address: int) -> None:
        self.begun.release()
        assert self.go_on.acquire(timeout=60)
        self.got.append(address)


def made_of(pages: int) -> tuple[mmap.mmap, int]:
    made = mmap.mmap(-1, pages * PAGE)
    return made, np.frombuffer(made, np.uint8).ctypes.data


@given(STEPS, st.sampled_from([0, 32 * MIB]))
def test_pages_asked_for_are_those_of_a_naive_list(steps: list[tuple[str, int]], small: int) -> None:
    noted = Noted()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(regions, "AHEAD", noted)
        region, used, last, wanted = Region(4 * MIB, 128 * MIB, small), 0, set[int](), list[int]()
        for name, size in steps:
            if name == "shrink":
                if size < len(region.array):
                    last = set()
                used = min(used, size)
                region.resize(max(size, used))
                continue
            if name == "drop":
                region.drop(min(size, used))
                continue
            if name == "grow":
                used = min(used + size, 100 * MIB)
                if used > len(region.array):
                    region.resize(used)
                start = used
                end = used + (0 if used < 8 * MIB else 2 * MIB if used < 16 * MIB else 4 * MIB)
                region.expect_growth(used)
            else:  # as a table that is filled from its end down
                start, end = max(0, size - 4 * MIB), size
                region.expect(start, end)
            bytes_ahead = range(max(start, small, region.dropped) // MIB, -(-end // MIB)) if start < end else range(0)
            now = {at * MIB // PAGE for at in bytes_ahead}
            wanted += sorted(now - last)
            last = now or last
        assert noted.asked == wanted


@pytest.mark.parametrize("used", [0, EXPECTED_FROM - 1, EXPECTED_FROM, 15 * MIB, 16 * MIB, 900 * MIB])
def test_at_most_a_quarter_and_two_pages_are_got_ahead(used: int) -> None:
    assert ahead_of(used) in (0, PAGE, 2 * PAGE)
    assert 4 * ahead_of(used) <= used
    assert (ahead_of(used) > 0) == (used >= EXPECTED_FROM)


@needs_pagemap
def test_pages_are_there_before_they_are_written_and_no_others() -> None:
    region = Region(40 * MIB, 64 * MIB)
    region.expect_growth(39 * MIB)
    regions.AHEAD.wait()
    assert [page for page in range(32) if present(region, page)] == [19, 20, 21]
    assert not region.array.any()


@needs_pagemap
def test_nothing_comes_back_of_what_was_given_back() -> None:
    region = Region(60 * MIB, 64 * MIB, 0)
    region.expect_growth(50 * MIB)
    region.resize(41 * MIB)
    assert not any(present(region, page) for page in range(21, 32))
    region.resize(60 * MIB)
    region.expect(46 * MIB, 50 * MIB)
    region.drop(50 * MIB)
    regions.AHEAD.wait()
    assert not any(present(region, page) for page in range(25))


def test_bytes_stay_that_are_written_meanwhile() -> None:
    region = Region(64 * MIB, 128 * MIB, 0)
    for at in range(0, 64 * MIB, PAGE):
        region.expect(at, at + PAGE)
        region.array[at : at + PAGE : 512] = at // PAGE + 1
    regions.AHEAD.wait()
    assert (region.array[::512].reshape(-1, PAGE // 512) == np.arange(1, 33)[:, None]).all()


def test_a_region_that_is_moved_or_goes_takes_its_pages_along() -> None:
    for _ in range(20):
        region = Region(60 * MIB, 61 * MIB, 0)
        region.array[:: 4 * MIB] = 7
        region.expect_growth(56 * MIB)
        region.resize(300 * MIB)
        region.expect_growth(100 * MIB)
        assert (region.array[: 60 * MIB : 4 * MIB] == 7).all()
        del region
    regions.AHEAD.wait()


def test_one_page_at_a_time_in_order_and_the_thread_ends() -> None:
    held = Held()
    ahead, (made, start) = PagesAhead(held), made_of(4)
    before = threading.active_count()
    ahead.ask(made, [start, start + PAGE])
    assert held.begun.acquire(timeout=60)
    ahead.ask(made, [start + 2 * PAGE])
    assert not held.begun.acquire(blocking=False)
    for _ in range(3):
        held.go_on.release()
    ahead.wait()
    assert held.got == [start, start + PAGE, start + 2 * PAGE]
    ahead.ask(made, [start + 3 * PAGE])
    held.go_on.release()
    ahead.wait()
    assert held.got[3:] == [start + 3 * PAGE]
    assert threading.active_count() == before


def test_what_is_forgotten_does_not_come_and_what_has_begun_is_waited_for() -> None:
    held = Held()
    ahead, (made, start) = PagesAhead(held), made_of(3)
    ahead.ask(made, [start, start + PAGE, start + 2 * PAGE])
    assert held.begun.acquire(timeout=60)
    ahead.forget(start + PAGE, start + 2 * PAGE)  # of others than that which has begun
    assert held.got == []
    waiting = threading.Thread(target=ahead.forget, args=(start, start + PAGE))
    waiting.start()
    held.go_on.release()
    waiting.join(60)
    assert not waiting.is_alive()
    assert held.got[:1] == [start]
    held.go_on.release()
    ahead.wait()
    assert held.got == [start, start + 2 * PAGE]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system copies no processes")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_copy_of_the_process_gets_pages_by_a_thread_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    held, ahead, (made, start) = Held(), regions.AHEAD, made_of(2)
    monkeypatch.setattr(ahead, "_touch", held)
    references = sys.getrefcount(made)
    ahead.ask(made, [start, start + PAGE])
    assert held.begun.acquire(timeout=60)
    reads, writes = os.pipe()
    if (pid := os.fork()) == 0:
        try:
            ahead.wait()  # for nothing: the thread is the other process'
            released = sys.getrefcount(made) == references
            held.go_on.release()
            ahead.ask(made, [start + PAGE])
            ahead.wait()
            os.write(writes, bytes([released, held.got == [start + PAGE]]))
        finally:
            os._exit(0)
    os.close(writes)
    assert os.read(reads, 2) == b"\1\1"
    os.close(reads)
    os.waitpid(pid, 0)
    held.go_on.release()
    held.go_on.release()
    ahead.wait()
    assert held.got == [start, start + PAGE]


def test_no_thread_to_be_had_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> int:
        raise RuntimeError("can't start new thread")

    held = Held()
    ahead, (made, start) = PagesAhead(held), made_of(1)
    with monkeypatch.context() as patch:
        patch.setattr("crossline.state.memory.pages_ahead.start_new_thread", refused)
        ahead.ask(made, [start])
        ahead.wait()
    assert held.got == []
    ahead.ask(made, [start])
    held.go_on.release()
    ahead.wait()
    assert held.got == [start]
