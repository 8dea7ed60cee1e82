"""Records that were decided about, in the log of other shards: each where its id is asked for, copies everywhere."""

from __future__ import annotations

import xxhash

from crossline.basics import wire
from crossline.evaluate.decision_memory import DecidedPlan, DecidedStore
from crossline.evaluate.decisions.revision import Known
from crossline.evaluate.output import StoreDelta
from crossline.evaluate.resharding import resharded
from crossline.evaluate.shard import ShardState
from crossline.evaluate.state_log import encode_delta
from crossline.rules.policy.hits import DecidedRecord
from crossline.state.batch import Delta

SHARDS = 3
STATE_STORE = "payments|decided"


def test_a_copy_is_known_wherever_it_may_be_asked_for() -> None:
    store, records = DecidedStore(DecidedPlan()), {("payments", "log", n): f"t{n}" for n in range(20)}
    for which, record_id in records.items():
        store.put(which, Known(DecidedRecord("payments", record_id, 1_000, 1_000), 1), 1_000)
    copy = ("payments", "log", 99)
    store.put(copy, None, 2_000)
    before = ShardState(kept_from=3, log_clock={"payments": {"log": 2_000}}, emitted_to_ms={"payments": 1_500})
    blob = encode_delta(5, before, [StoreDelta(STATE_STORE, store.delta_of(list(store.known)), ())])
    found = [DecidedStore(DecidedPlan()) for _ in range(SHARDS)]
    for into, cut in zip(found, resharded([wire.decode(blob, "test")], SHARDS, 4), strict=True):
        meta, arrays = wire.decode(cut, "test")
        assert (meta["batch"], meta["kept_from"], meta["told_ms"]) == (5, 4, before.emitted_to_ms)
        assert meta["log_clock"] == before.log_clock
        assert [(each["state_store"], each["clock_ms"]) for each in meta["state_stores"]] == [(STATE_STORE, 2_000)]
        into.load(Delta.of({name.removeprefix("0."): array for name, array in arrays.items()}), ())
    for shard, into in enumerate(found):
        mine = {which for which, name in records.items() if xxhash.xxh64_intdigest(name.encode()) % SHARDS == shard}
        assert {which for which, known in into.known.items() if known is not None} == mine
        assert into.known[copy] is None
