"""States that grow and are evicted by steps from their first record on, and by the smallest of steps."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from crossline.state.windows import memory_map, record_store


@contextmanager
def by_steps(dropped: int) -> Iterator[None]:
    """Tables of more than four blocks grow by a block or so; an eviction drops up to ``dropped`` records."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory_map, "STEPWISE_FROM", 4)
        patch.setattr(memory_map, "AT_ONCE", 0)
        patch.setattr(record_store, "SINGLY_FROM", 1)
        patch.setattr(record_store, "DROPPED_EACH", 0)
        patch.setattr(record_store, "DROPPED_LEAST", dropped)
        yield
