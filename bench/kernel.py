"""The throughput of the window kernel, the memory of a record, and the longest time of a batch.

Prints tables and writes JSON under bench/results/. Times are processor seconds of this process, so that other work on
the machine disturbs them less. Run it on an idle machine all the same: caches and memory are shared.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numba
import numpy as np

from crossline.plan.spaces import AggregateSpec, ComparisonPlan, KeySpacePlan, WindowSpec
from crossline.state.memory.hashing import xxh64_many
from crossline.state.windows.store import KeyedBatch, KeySpaceState

ROOT = Path(__file__).parent.parent
START_MS = 1_700_000_000_000
FOREVER = ((-(2**63), 2**63 - 1),)


@dataclass(frozen=True)
class Case:
    """``rate``: events per second of event time; ``late``: the part of them that is out of order.

    ``zipf``: the key of rank r is met 1/r as often as the first; else all equally often.
    """

    name: str
    plan: str
    keys: int
    events: int
    rate: int
    batch: int = 100_000
    late: float = 0.0
    zipf: bool = False


CASES = (
    Case("one line", "one", 50_000, 4_000_000, 10_000),
    Case("one line, 1 % late", "one", 50_000, 4_000_000, 10_000, late=0.01),
    Case("one line, zipf", "one", 50_000, 4_000_000, 10_000, zipf=True),
    Case("one line, 10^3 keys", "one", 1_000, 4_000_000, 10_000),
    Case("one line, 10^6 keys", "one", 1_000_000, 4_000_000, 20_000),
    Case("one line, 10^7 keys", "one", 10_000_000, 4_000_000, 20_000),
    Case("one line, 10^7 records", "one", 50_000, 12_000_000, 100_000),
    Case("one line, batches of 10^4", "one", 50_000, 2_000_000, 10_000, batch=10_000),
    Case("sum of a column", "sum", 50_000, 4_000_000, 10_000),
    Case("five lines, four groups", "five", 50_000, 2_000_000, 10_000),
    Case("250 lines, 60 groups", "many", 50_000, 200_000, 10_000),
    Case("distinct values", "distinct", 50_000, 2_000_000, 10_000),
    Case("minimum", "min", 50_000, 2_000_000, 10_000),
    Case("deviation", "stddev", 50_000, 2_000_000, 10_000),
)


def a_line(group: int, threshold: float, number: int = 0, *, operator: Any = ">=") -> ComparisonPlan:
    return ComparisonPlan(f"r{number}", 1, group, operator, threshold, False, 0, FOREVER, None)


def cursor(seconds: int) -> WindowSpec:
    return WindowSpec(0, seconds * 1000, False, False, True)


def plan_of(name: str) -> KeySpacePlan:
    amount: Any = (("amount", "float"),)
    minute = cursor(60)
    single: dict[str, Any] = {
        "sum": (AggregateSpec(0, 0, "sum"), 800.0, ">="),
        "distinct": (AggregateSpec(0, 0, "distinct_count"), 30, ">="),
        "min": (AggregateSpec(0, 0, "min"), 0.005, "<="),
        "stddev": (AggregateSpec(0, 0, "stddev"), 4.9, ">="),
    }
    if name == "one":
        return KeySpacePlan((), 1, (minute,), (AggregateSpec(0, -1, "count"),), (a_line(0, 25),), 60_000)
    if name in single:
        group, threshold, operator = single[name]
        return KeySpacePlan(amount, 1, (minute,), (group,), (a_line(0, threshold, operator=operator),), 60_000)
    if name == "five":
        groups = (
            AggregateSpec(0, -1, "count"),
            AggregateSpec(0, 0, "sum"),
            AggregateSpec(0, 0, "max"),
            AggregateSpec(1, 0, "distinct_count"),
        )
        lines = (a_line(0, 25, 0), a_line(0, 30, 1), a_line(1, 800.0, 2), a_line(2, 10.5, 3), a_line(3, 9, 4))
        return KeySpacePlan(amount, 1, (minute, cursor(10)), groups, lines, 60_000)
    cursors = tuple(cursor(5 + 5 * i) for i in range(12))
    kinds: tuple[Any, ...] = ("count", "sum", "avg", "max", "distinct_count")
    groups = tuple(AggregateSpec(c, -1 if k == "count" else 0, k) for c in range(12) for k in kinds)
    lines = tuple(a_line(i % 60, 1e6 + i, i) for i in range(250))
    return KeySpacePlan(amount, 1, cursors, groups, lines, 60_000)


def batches(case: Case, columns: int) -> Iterator[KeyedBatch]:
    """Ids of 8 bytes, amounts in whole cents."""
    rng = np.random.default_rng(1)
    weights = np.cumsum(1 / np.arange(1, case.keys + 1)) if case.zipf else np.ones(1)
    for at in range(0, case.events, case.batch):
        n = min(case.batch, case.events - at)
        ingest = np.arange(at, at + n) * 1000 // case.rate + START_MS
        late = np.where(rng.random(n) < case.late, rng.integers(0, 30_000, n), 0)
        ranks = np.searchsorted(weights, rng.random(n) * weights[-1]) if case.zipf else rng.integers(0, case.keys, n)
        keys, index = np.unique(ranks, return_inverse=True)
        key_bytes = np.char.zfill(keys.astype("U"), 10).astype("S10").view(np.uint8)
        key_offsets = np.arange(len(keys) + 1, dtype=np.int64) * 10
        yield KeyedBatch(
            clock_ms=ingest - late,
            ingest_ms=ingest,
            lateness_ms=late,
            key_index=index.astype(np.int32),
            key_bytes=key_bytes,
            key_offsets=key_offsets,
            key_hash=xxh64_many(key_bytes, key_offsets),
            id_bytes=np.char.zfill(np.arange(at, at + n).astype("U"), 8).astype("S8").view(np.uint8),
            id_offsets=np.arange(n + 1, dtype=np.int64) * 8,
            values=tuple(rng.integers(0, 1000, n) / 100 for _ in range(columns)),
            filters=np.ones((n, 1), np.uint8),
        )


def run(case: Case) -> dict[str, Any]:
    plan = plan_of(case.plan)
    state, times, hits, peak = KeySpaceState(plan, 90_000), [], 0, 0
    for batch in batches(case, len(plan.columns)):
        start = time.process_time()
        found = state.judge(batch)
        peak = max(peak, state.records)
        state.evict(int(batch.ingest_ms[-1]) - 90_001)
        times.append(time.process_time() - start)
        hits += len(found)
    sizes, seconds = state.sizes(), sum(times)
    key_bytes = state.key_bytes()
    return asdict(case) | {
        "events_per_s": round(case.events / seconds),
        "ns_per_event": round(seconds / case.events * 1e9),
        "ns_per_event_quickest_tenth": round(float(np.quantile(times, 0.1)) / case.batch * 1e9),
        "hits": hits,
        "records": sizes.records,
        "records_peak": peak,
        "keys_held": sizes.keys,
        "bytes": sizes.bytes,
        "bytes_per_record_without_keys": round((sizes.bytes - key_bytes) / max(1, sizes.records), 1),
        "bytes_per_key": round(key_bytes / max(1, sizes.keys), 1),
    }


@dataclass(frozen=True)
class Growth:
    """A state that grows to ``records`` in batches of ``batch`` rows, and goes on for half as many."""

    plan: str
    batch: int
    records: int


GROWTHS = tuple(Growth(plan, batch, 10_000_000) for plan in ("one", "distinct") for batch in (500, 14_000))
RATE = 50_000  # events per second of event time


def longest(growth: Growth) -> dict[str, Any]:
    """The longest calls of ``judge`` and of ``evict``, in ms of processor time, and what was held then."""
    events = growth.records + growth.records // 2
    case = Case("", growth.plan, 50_000, events, RATE, batch=growth.batch)
    plan = plan_of(growth.plan)
    state, calls, hits = KeySpaceState(plan, 90_000), [], 0
    kept_ms = growth.records // 2 * 1000 // RATE  # records go once they are half of all
    for batch in batches(case, len(plan.columns)):
        start = time.process_time()
        hits += len(state.judge(batch))
        judged = time.process_time()
        state.evict(int(batch.ingest_ms[-1]) - kept_ms)
        calls.append((judged - start, time.process_time() - judged, state.records, state.bytes_in_memory()))
    judging = sorted((round(call[0] * 1000, 1), call[2]) for call in calls[1:])[::-1]
    evicting = sorted((round(call[1] * 1000, 1), call[2]) for call in calls[1:])[::-1]
    both = np.array([call[0] + call[1] for call in calls[1:]]) * 1000
    return asdict(growth) | {
        "hits": hits,
        "judge_ms_and_records": judging[:8],
        "evict_ms_and_records": evicting[:3],
        "median_ms": round(float(np.median(both)), 2),
        "p99_ms": round(float(np.quantile(both, 0.99)), 2),
        "total_s": round(float(both.sum()) / 1000, 2),
        "bytes_peak": max(call[3] for call in calls),
    }


def show_longest() -> list[dict[str, Any]]:
    print(f"{'growth':28} {'median ms':>9} {'p99':>6} {'total s':>8} {'MiB':>6}  longest judge, ms; longest evict, ms")
    found = []
    for growth in GROWTHS:
        r = longest(growth)
        found.append(r)
        waits = " ".join(f"{ms:.0f}" for ms, _ in r["judge_ms_and_records"])
        print(
            f"{growth.plan + f', {growth.batch} rows':28} {r['median_ms']:9} {r['p99_ms']:6} {r['total_s']:8} "
            f"{r['bytes_peak'] >> 20:6}  {waits}; {r['evict_ms_and_records'][0][0]:.0f}",
            flush=True,
        )
    return found


def started() -> float:
    """Seconds from nothing to a kernel that has judged one record (compiled by an earlier run, or now)."""
    plan = plan_of("one")
    start = time.perf_counter()
    KeySpaceState(plan).judge(next(batches(Case("", "one", 1, 1, 1), 0)))
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", metavar="TEXT", help="only cases whose names contain one of these")
    parser.add_argument("--longest", action="store_true", help="only the longest calls of a state that grows")
    parser.add_argument("--scale", type=float, default=1.0, help="factor for the number of events")
    given = parser.parse_args()
    first = started()
    print(f"first record after {first:.2f} s; load {os.getloadavg()[0]:.1f}")
    print(
        f"{'case':28} {'M events/s':>10} {'ns':>6} {'best':>6} {'hits':>8} {'records':>9} {'B/record':>8} {'B/key':>6}"
    )
    results = []
    for case in () if given.longest else CASES:
        if given.only and not any(text in case.name for text in given.only):
            continue
        scaled = Case(**asdict(case) | {"events": int(case.events * given.scale)})
        r = run(scaled)
        results.append(r)
        print(
            f"{case.name:28} {r['events_per_s'] / 1e6:10.2f} {r['ns_per_event']:6} "
            f"{r['ns_per_event_quickest_tenth']:6} {r['hits']:8} {r['records']:9} "
            f"{r['bytes_per_record_without_keys']:8} {r['bytes_per_key']:6}",
            flush=True,
        )
    growth = [] if given.only else show_longest()
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S607
    report = {
        "commit": commit.stdout.strip(),
        "load": os.getloadavg(),
        "processors": os.cpu_count(),
        "machine": platform.processor() or platform.machine(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "numba": numba.__version__,
        "first_record_s": first,
        "results": results,
        "longest": growth,
    }
    target = ROOT / "bench" / "results" / f"kernel-{time.strftime('%Y%m%dT%H%M%S')}.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(report, indent=1))
    print(target)


if __name__ == "__main__":
    main()
