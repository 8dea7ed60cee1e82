"""Ids of many names at once are those that Python's own library makes one by one."""

from __future__ import annotations

import uuid
from unittest import mock

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from crossline.basics import uuids

NAMESPACE = uuid.UUID("b0a3a2d4-6f0e-5c55-8f0a-3d6f5b1f7c21")
PREFIX = b"3\x1fpayments\x1f"
LENGTHS = st.sampled_from([0, 1, 8, 27, 28, 29, 40, 91, 92, 93, 200])  # around the edges of blocks too


@given(st.lists(LENGTHS.flatmap(lambda n: st.text("aé\x1f0", min_size=n, max_size=n)), max_size=30), st.booleans())
def test_they_are_those_of_the_library(names: list[str], few: bool) -> None:
    raw = [name.encode() for name in names]
    offsets = np.concatenate([[0], np.cumsum([len(name) for name in raw])]).astype(np.int64)
    data = np.frombuffer(b"".join(raw), np.uint8)
    with mock.patch.object(uuids, "FEW", 1_000 if few else 0), mock.patch.object(uuids, "PIECE", 7):
        found = uuids.uuid_text(uuids.uuid5_many(NAMESPACE, PREFIX, data, offsets))
    assert [each.tobytes().decode() for each in found] == [
        str(uuid.uuid5(NAMESPACE, PREFIX.decode() + name)) for name in names
    ]
