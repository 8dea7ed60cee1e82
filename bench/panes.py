"""The throughput of the pane kernel, and the memory of a key with a long past.

Prints tables and writes JSON under bench/results/. Times are processor seconds of this process, so that other work on
the machine disturbs them less. Caches and memory are shared all the same.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from crossline.plan.spaces import AggregateSpec, ComparisonPlan, PaneSpacePlan, WindowSpec, parts_of
from crossline.state.batch import KeyedBatch
from crossline.state.memory.hashing import xxh64_many
from crossline.state.memory.regions import Region
from crossline.state.panes.store import PaneState, warm

ROOT = Path(__file__).parent.parent
START_MS = 1_700_000_000_000
FOREVER = ((-(2**63), 2**63 - 1),)
LATE_MS = 180_000  # what the defaults allow, and the lag of partitions
DAY_MS = 86_400_000


@dataclass(frozen=True)
class Case:
    """``rate``: events per second of event time; ``late``: the part of them that is out of order."""

    name: str
    aggregate: str
    keys: int
    events: int
    rate: float
    resolution_ms: int = 3_600_000
    window_ms: int = 30 * DAY_MS
    batch: int = 100_000
    late: float = 0.0


CASES = (
    Case("count, 10^3 keys", "count", 1_000, 3_000_000, 10_000),
    Case("count, 10^5 keys", "count", 100_000, 3_000_000, 10_000),
    Case("count, 10^5 keys, 5 % late", "count", 100_000, 3_000_000, 10_000, late=0.05),
    Case("count, 10^5 keys, 7 a day", "count", 100_000, 6_000_000, 8),
    Case("sum of integers, 10^5 keys", "sum", 100_000, 2_000_000, 10_000),
    Case("avg of floats, 10^5 keys", "avg", 100_000, 2_000_000, 10_000),
    Case("max, 10^5 keys", "max", 100_000, 2_000_000, 10_000),
    Case("deviation, 10^5 keys", "stddev", 100_000, 1_000_000, 1_000),
    Case("different values, 10^5 keys", "distinct_count", 100_000, 1_000_000, 1_000),
    Case("quantile, 10^5 keys", "quantile", 100_000, 1_000_000, 1_000),
    Case("sum of integers, 10^6 keys", "sum", 1_000_000, 4_000_000, 10_000),
    Case("different values, 10^6 keys", "distinct_count", 1_000_000, 4_000_000, 10_000),
    Case("quantile, 10^6 keys", "quantile", 1_000_000, 4_000_000, 10_000),
)
# A month of records of a million keys: 20 and 100 each.
MONTHS = (
    Case("count, 20 a key", "count", 1_000_000, 20_000_000, 20_000_000 / (30 * 86_400)),
    Case("count, 100 a key", "count", 1_000_000, 100_000_000, 100_000_000 / (30 * 86_400), batch=500_000),
    Case("sum, 60 a key", "sum", 1_000_000, 60_000_000, 60_000_000 / (30 * 86_400), batch=500_000),
)


def plan_of(case: Case) -> PaneSpacePlan:
    kinds: dict[str, Any] = {"count": (), "sum": (("amount", "int"),), "distinct_count": (("shop", "code"),)}
    columns = kinds.get(case.aggregate, (("amount", "float"),))
    cursor = WindowSpec(0, case.window_ms, False, False, True, 0, case.resolution_ms)
    aggregate: Any = case.aggregate
    groups = (AggregateSpec(0, 0 if columns else -1, aggregate, 0.99 if aggregate == "quantile" else 0.0),)
    line = ComparisonPlan("r", 1, 0, ">=", 1e12, False, 0, FOREVER, None)
    retention_ms = case.window_ms + case.resolution_ms
    parts = parts_of((0, group) for group in groups)
    return PaneSpacePlan(columns, 1, (cursor,), groups, (line,), retention_ms, case.resolution_ms, retention_ms, parts)


def batches(case: Case, plan: PaneSpacePlan) -> Iterator[KeyedBatch]:
    """Ids of 8 bytes, keys of 10."""
    rng = np.random.default_rng(1)
    for at in range(0, case.events, case.batch):
        n = min(case.batch, case.events - at)
        ingest = (np.arange(at, at + n) * (1000 / case.rate)).astype(np.int64) + START_MS
        late = np.where(rng.random(n) < case.late, rng.integers(0, 30_000, n), 0)
        keys, index = np.unique(rng.integers(0, case.keys, n), return_inverse=True)
        key_bytes = np.char.zfill(keys.astype("U"), 10).astype("S10").view(np.uint8)
        key_offsets = np.arange(len(keys) + 1, dtype=np.int64) * 10
        amounts = rng.integers(0, 10_000, n)
        yield KeyedBatch(
            clock_ms=ingest - late,
            ingest_ms=ingest,
            lateness_ms=late,
            key_index=index.astype(np.int32),
            key_bytes=key_bytes,
            key_offsets=key_offsets,
            key_hash=xxh64_many(key_bytes, key_offsets),
            id_bytes=np.arange(at, at + n, dtype=np.int64).view(np.uint8),
            id_offsets=np.arange(n + 1, dtype=np.int64) * 8,
            values=tuple(amounts / 100 if kind == "float" else amounts for _, kind in plan.columns),
            filters=np.ones((n, 1), np.uint8),
        )


def resident_bytes() -> int:
    """Memory of this process that is there."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def touch(size: int) -> None:
    """Write to so many bytes and give them back.

    On virtual machines, memory that nothing has touched yet costs many times what it costs later.
    """
    region = Region(size)
    region.array.fill(1)


def run(case: Case) -> dict[str, Any]:
    plan = plan_of(case)
    before, times, hits = resident_bytes(), [], 0
    state = PaneState(plan, LATE_MS)
    for batch in batches(case, plan):
        start = time.process_time()
        hits += len(state.judge(batch))
        state.evict(int(batch.ingest_ms[-1]) - LATE_MS - plan.retention_ms - 1)
        times.append(time.process_time() - start)
    sizes, seconds = state.sizes(), sum(times)
    return asdict(case) | {
        "events_per_s": round(case.events / seconds),
        "ns_per_event": round(seconds / case.events * 1e9),
        "ns_per_event_quickest_tenth": round(float(np.quantile(times, 0.1)) / case.batch * 1e9),
        "hits": hits,
        "panes": state.panes,
        "keys_held": sizes.keys,
        "bytes": sizes.bytes,
        "bytes_more_resident": resident_bytes() - before,
        "bytes_per_key": round(sizes.bytes / max(1, sizes.keys), 1),
        "load": os.getloadavg()[0],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", metavar="TEXT", help="only cases whose names contain one of these")
    parser.add_argument("--months", action="store_true", help="measure the memory of a million keys over a month")
    parser.add_argument("--scale", type=float, default=1.0, help="factor for the number of events")
    parser.add_argument(
        "--touch", type=int, default=1024, metavar="MIB", help="memory to write to first (default 1024)"
    )
    given = parser.parse_args()
    warm()
    touch(given.touch << 20)
    print(f"load {os.getloadavg()[0]:.1f}; {given.touch} MiB of memory touched first")
    print(f"{'case':30} {'M events/s':>10} {'ns':>6} {'best':>6} {'panes':>10} {'MiB':>7} {'resident':>8} {'B/key':>7}")
    results = []
    for case in MONTHS if given.months else CASES:
        if given.only and not any(text in case.name for text in given.only):
            continue
        r = run(Case(**asdict(case) | {"events": int(case.events * given.scale)}))
        results.append(r)
        print(
            f"{case.name:30} {r['events_per_s'] / 1e6:10.2f} {r['ns_per_event']:6} "
            f"{r['ns_per_event_quickest_tenth']:6} {r['panes']:10} {r['bytes'] >> 20:7} "
            f"{r['bytes_more_resident'] >> 20:8} {r['bytes_per_key']:7}",
            flush=True,
        )
    report = {
        "load": os.getloadavg(),
        "touched_mib": given.touch,
        "machine": platform.machine(),
        "numpy": np.__version__,
        "results": results,
    }
    target = ROOT / "bench" / "results" / f"panes-{time.strftime('%Y%m%dT%H%M%S')}.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(report, indent=1))
    print(target)


if __name__ == "__main__":
    main()
