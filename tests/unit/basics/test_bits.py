from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from crossline.basics.bits import set_bits


@given(st.integers(0, 3), st.data())
def test_they_are_those_of_the_rows(width: int, data: st.DataObject) -> None:
    rows = data.draw(st.lists(st.binary(min_size=width, max_size=width), max_size=6))
    packed = np.frombuffer(b"".join(rows), np.uint8).reshape(len(rows), width)
    wanted = [(at, bit) for at, row in enumerate(rows) for bit in range(8 * width) if row[bit // 8] >> bit % 8 & 1]
    assert list(zip(*(each.tolist() for each in set_bits(packed)), strict=True)) == wanted
