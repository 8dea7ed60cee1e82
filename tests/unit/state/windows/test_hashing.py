"""XXH64 against the reference implementation."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from crossline.state.memory.hashing import xxh64_many

from .naive import strings


@settings(deadline=None)
@given(st.lists(st.binary(max_size=100).map(lambda b: b.hex()), max_size=20), st.integers(0, 2**64 - 1))
def test_same_as_the_reference(items: list[str], seed: int) -> None:
    data, offsets = strings(items)
    assert xxh64_many(data, offsets, seed).tolist() == [xxhash.xxh64_intdigest(x.encode(), seed) for x in items]


def test_every_length_of_tail_and_read_only_views() -> None:
    data = np.frombuffer(bytes(range(256)), np.uint8)
    offsets = np.cumsum(np.arange(22), dtype=np.int64)  # lengths 1 to 21
    expected = [xxhash.xxh64_intdigest(bytes(range(a, b))) for a, b in pairwise(offsets)]
    assert xxh64_many(data, offsets).tolist() == expected
    assert xxh64_many(data, np.array([0, 256], np.int64), 7).tolist() == [xxhash.xxh64_intdigest(bytes(range(256)), 7)]


@pytest.mark.parametrize("offsets", [[], [1, 0], [0, 5], [-1, 2], [0, 1, 2, 3, 4, 3], [0, 1, 2, 3, 4, 5]])
def test_offsets_that_lead_outside_are_refused(offsets: list[int]) -> None:
    with pytest.raises(ValueError, match="within the data"):
        xxh64_many(np.zeros(4, np.uint8), np.array(offsets, np.int64))
