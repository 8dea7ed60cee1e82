"""Stores of one stream are compacted one a batch, where they are large, and none waits for ever."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from crossline.evaluate import shard
from crossline.evaluate.shard import ShardState, evict
from crossline.plan.spaces import AggregateSpec, ComparisonPlan, KeySpacePlan, WindowSpec
from crossline.state.memory.hashing import xxh64_many
from crossline.state.windows.store import KeyedBatch, KeySpaceState

ALWAYS = ((-(2**63), 2**63 - 1),)
PLAN = KeySpacePlan(
    (),
    1,
    (WindowSpec(0, 10, False, False, True),),
    (AggregateSpec(0, -1, "count"),),
    (ComparisonPlan("r", 1, 0, ">=", 3, False, 0, ALWAYS, None),),
    10,
)
NAMES = ("a", "b", "c")
STATE_STORES: Any = [SimpleNamespace(name=name, remembers_ms=10) for name in NAMES]


def batch_of(count: int, mark: str = "n") -> KeyedBatch:
    """Records of one key, of clocks 0 to ``count``, with ids that begin with ``mark``."""
    clocks, key = np.arange(count), np.frombuffer(b"k", np.uint8)
    ids = [f"{mark}{i}".encode() for i in range(count)]
    return KeyedBatch(
        clock_ms=clocks,
        ingest_ms=clocks,
        lateness_ms=np.zeros(count, np.int64),
        key_index=np.zeros(count, np.int32),
        key_bytes=key,
        key_offsets=np.array([0, 1]),
        key_hash=xxh64_many(key, np.array([0, 1])),
        id_bytes=np.frombuffer(b"".join(ids), np.uint8),
        id_offsets=np.cumsum([0, *map(len, ids)]),
        values=(),
        filters=np.ones((count, 1), np.uint8),
    )


def filled(count: int) -> ShardState:
    state = ShardState(stores={name: KeySpaceState(PLAN) for name in NAMES})
    for store in state.stores.values():
        store.judge(batch_of(count))
    return state


def test_large_ones_one_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shard, "MANY", 5)
    state, left = filled(40), []
    for _ in range(4):
        evict(STATE_STORES, state, 40)
        left.append([store.records for store in state.stores.values()])
    assert left == [[10, 40, 40], [10, 10, 40], [10, 10, 10], [10, 10, 10]]


def test_one_that_is_compacted_at_every_batch_keeps_no_other_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shard, "MANY", 5)
    state = filled(40)
    for turn in range(3):
        evict(STATE_STORES, state, 40)
        state.stores["a"].judge(batch_of(20, f"m{turn}-"))
    assert [state.stores[name].records for name in "bc"] == [10, 10]


def test_small_ones_all_at_once() -> None:
    state = filled(40)
    evict(STATE_STORES, state, 40)
    assert [store.records for store in state.stores.values()] == [10, 10, 10]
