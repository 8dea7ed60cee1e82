from itertools import pairwise

import numpy as np

from crossline.basics.wire import WirePart
from crossline.evaluate.ingest_order import chunk_floors, in_ingest_order, take_bytes


def part(log: str, sequence: int, clocks: list[int], ids: list[str], *, running: bool) -> WirePart:
    text = [i.encode() for i in ids]
    keys = sorted(set(text))
    return (
        {"log": log, "sequence": sequence, "clock_ms": max(clocks) if clocks else None, "running": running},
        {
            "clock_ms": np.array(clocks, np.int64),
            "reached_ms": np.maximum.accumulate(np.array(clocks, np.int64)),
            "event_ms": np.array(clocks, np.int64),
            "offsets": np.arange(len(ids)),
            "key_index": np.array([keys.index(t) for t in text], np.int32),
            "key_bytes": np.frombuffer(b"".join(keys), np.uint8),
            "key_offsets": np.cumsum([0, *map(len, keys)]),
            "key_hash": np.arange(len(keys), dtype=np.uint64),
            "id_bytes": np.frombuffer(b"".join(text), np.uint8),
            "id_offsets": np.cumsum([0, *map(len, text)]),
        },
    )


def ids_of(rows: dict[str, np.ndarray]) -> list[str]:  # type: ignore[type-arg]
    ends = rows["id_offsets"].tolist()
    return [rows["id_bytes"][a:b].tobytes().decode() for a, b in pairwise(ends)]


def keys_by_row(rows: dict[str, np.ndarray]) -> list[str]:  # type: ignore[type-arg]
    ends = rows["key_offsets"].tolist()
    keys = [rows["key_bytes"][a:b].tobytes().decode() for a, b in pairwise(ends)]
    return [keys[i] for i in rows["key_index"].tolist()]


def test_a_running_clock_goes_on_over_chunks_and_batches() -> None:
    clock: dict[str, int] = {"f": 50}
    parts = [part("f", 8, [60, 60], ["c", "d"], running=True), part("f", 7, [10, 40], ["a", "b"], running=True)]
    rows = in_ingest_order(parts, chunk_floors(parts, clock))
    # Chunk 7 comes first; the log had reached 50 before it, and 60 is higher than all before it.
    assert ids_of(rows) == ["a", "b", "c", "d"]
    assert rows["ingest_ms"].tolist() == [50, 50, 60, 60]
    assert clock == {"f": 60}


def test_an_empty_chunk_moves_no_clock() -> None:
    clock: dict[str, int] = {}
    parts = [part("f", 0, [], [], running=True), part("f", 1, [5], ["a"], running=True)]
    assert chunk_floors(parts, clock) == {("f", 0): -(2**62), ("f", 1): -(2**62)}
    assert clock == {"f": 5}


def test_logs_are_merged_by_ingest_time_then_name_and_keep_their_own_order() -> None:
    # In log q the clock goes back from 30 to 20: its order stays, as if the second came at 30 too.
    parts = [
        part("q", 0, [10, 30, 20], ["q1", "q2", "q3"], running=False),
        part("p", 0, [10, 25, 30], ["p1", "p2", "p3"], running=False),
    ]
    rows = in_ingest_order(parts, chunk_floors(parts, {}))
    assert ids_of(rows) == ["p1", "q1", "p2", "p3", "q2", "q3"]
    assert keys_by_row(rows) == ids_of(rows)
    assert rows["ingest_ms"].tolist() == [10, 10, 25, 30, 30, 20]


def test_a_record_stands_where_its_log_had_got_to_before_it_in_other_shards_and_batches() -> None:
    # The record that advanced log q to 30 is in another shard; the one that advanced log p to 40, in an earlier batch.
    late, plain = part("q", 1, [20], ["q2"], running=False), part("r", 0, [25, 35], ["r1", "r2"], running=False)
    elsewhere = part("q", 0, [30], ["q1"], running=False)
    old = part("p", 7, [10], ["p1"], running=False)
    rows = in_ingest_order([late, plain, old], chunk_floors([elsewhere, late, plain, old], {"p": 40}))
    assert ids_of(rows) == ["r1", "q2", "r2", "p1"]
    assert rows["ingest_ms"].tolist() == [25, 20, 35, 10]


def test_take_bytes() -> None:
    data, offsets = take_bytes(np.frombuffer(b"aabccc", np.uint8), np.array([0, 2, 3, 6]), np.array([2, 0]))
    assert data.tobytes() == b"cccaa"
    assert offsets.tolist() == [0, 3, 5]


def test_hits_stand_right_after_their_records_whatever_came_along() -> None:
    """Worked by hand: of one instant the hit of log a comes before the record of log b, also without records of a."""

    def placed(log: str, offsets: list[int], *ids: str) -> WirePart:
        meta, arrays = part(log, 0, [5] * len(ids), list(ids), running=False)
        return meta, {**arrays, "offsets": np.array(offsets)}

    hit, other = placed("00020rule:r\x1e1p\x1da", [0], "hit of a0"), placed("00011p\x1e1p\x1db", [0], "b0")
    own, looked_at = placed("00011p\x1e1p\x1da", [0, 1], "a0", "a1"), placed("00010q\x1e0q\x1da", [7], "q7")
    for parts, wanted in (
        ([hit, other], ["hit of a0", "b0"]),
        ([other, hit, own, looked_at], ["q7", "a0", "hit of a0", "a1", "b0"]),
    ):
        floors = {(meta["log"], 0): 0 for meta, _ in parts}
        assert ids_of(in_ingest_order(parts, floors, of_hits=True)) == wanted
