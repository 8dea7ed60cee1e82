"""The longest calls of a state store that grows to ten million records, and what each of them waited for.

A call is ``judge``, ``due`` and ``evict`` of one batch. Prints a table by size of the state, a histogram of the calls
above 5 ms by cause, and writes JSON under bench/results/. Times are processor milliseconds of the thread that judges,
the kernel's work on fresh pages included; what another thread gets ahead is in the time of all calls with their input.
MiB: the most that the state says it holds, room to grow included.

Two causes are none of the state's. A huge page that the machine has not touched before takes some milliseconds:
``fresh pages``, where the system took most of the call; ``--touch`` writes to memory first, as a machine that has run
for long has. And processor time goes on while the host runs something else: ``interrupted``, a call without faults
that took several times its processor time.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import resource
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench import kernel, panes, patterns
from crossline.plan.pattern_spaces import AbsenceSpacePlan, PatternSpacePlan
from crossline.state.batch import KeyedBatch
from crossline.state.memory.hashing import xxh64_many
from crossline.state.memory.regions import Region
from crossline.state.panes.memory import Memory
from crossline.state.panes.store import PaneState
from crossline.state.patterns.absence_store import AbsenceSpaceState
from crossline.state.patterns.deadlines import Deadlines
from crossline.state.patterns.store import PatternSpaceState
from crossline.state.windows.memory_map import MemoryMap
from crossline.state.windows.record_store import RecordStore
from crossline.state.windows.store import KeySpaceState

ROOT = Path(__file__).parent.parent
RATE = 50_000  # events per second of event time
LONG_MS = 5.0
INTERRUPTED = 3  # times its processor time that a call took
EDGES_MS = (5, 10, 20, 50, 100, 200, 500)
# What a call may wait for, by the function that does it.
CAUSES: tuple[tuple[Any, str, str], ...] = (
    (RecordStore, "_compact", "compaction"),
    (Deadlines, "mark_emitted", "merge of deadlines"),
    (Deadlines, "add", "sort of deadlines"),
    (MemoryMap, "rebuild", "table filled anew"),
    (MemoryMap, "_move_on", "step of a table"),
    (MemoryMap, "make_clocks_fit", "base of clocks"),
    (Region, "resize", "region resized"),
    (Memory, "make_keys", "keys of panes"),
    (Memory, "make_ids", "ids of panes"),
)


class Watch:
    """Time by cause: of a function without those that it calls and that are causes themselves."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = defaultdict(float)
        self._inner: list[float] = []
        self._collects_from = 0.0

    def follow(self, owner: Any, name: str, cause: str) -> None:
        """Have ``owner.name`` counted as ``cause``."""
        function = getattr(owner, name)

        def watched(*given: Any, **named: Any) -> Any:
            self._inner.append(0.0)
            start = time.thread_time()
            try:
                return function(*given, **named)
            finally:
                took = time.thread_time() - start
                self.spent[cause] += took - self._inner.pop()
                if self._inner:
                    self._inner[-1] += took

        setattr(owner, name, watched)

    def collecting(self, phase: str, _: object) -> None:
        """Count the collection of garbage, for ``gc.callbacks``."""
        if phase == "start":
            self._collects_from = time.thread_time()
        else:
            took = time.thread_time() - self._collects_from
            self.spent["garbage"] += took
            if self._inner:
                self._inner[-1] += took


@dataclass(frozen=True)
class Run:
    """``batch``: rows of a call. ``records``: how many the state holds at most; as many again go through it."""

    name: str
    kind: str
    keys: int
    batch: int = 2_000
    records: int = 10_000_000
    churn: bool = False  # keys go and do not come back


RUNS = (
    Run("windows, 50,000 keys", "one", 50_000),
    Run("windows, 500 rows", "one", 50_000, batch=500),
    Run("windows, 2 million keys", "one", 2_000_000),
    Run("windows, keys come and go", "one", 2_000_000, churn=True),
    Run("windows, distinct values", "distinct", 50_000),
    Run("sequences", "sequence", 50_000),
    Run("absences", "absence", 50_000),
    Run("panes, 50,000 keys", "panes", 50_000),
    Run("panes, 2 million keys", "panes", 2_000_000),
)


def state_of(run: Run) -> Any:
    kept_ms = run.records * 1000 // RATE
    if run.kind == "panes":
        case = panes.Case("", "count", run.keys, 0, RATE)
        return PaneState(panes.plan_of(case), kept_ms)
    if run.kind == "sequence":
        return PatternSpaceState(PatternSpacePlan(4, (patterns.THREE,), kept_ms), 90_000)
    if run.kind == "absence":
        return AbsenceSpaceState(AbsenceSpacePlan(4, (patterns.MISSED,), kept_ms), 90_000)
    return KeySpaceState(kernel.plan_of(run.kind), 90_000)


def cause_of(spent: dict[str, float], used: Use) -> str:
    """What a call waited for most; ``spent``: seconds by the function that did it."""
    if used.faults and used.system_s > used.processor_s / 2:
        return "fresh pages"
    if not used.faults and used.wall_s > INTERRUPTED * used.processor_s:
        return "interrupted"
    return max(spent, key=spent.__getitem__)


def batches(run: Run) -> Iterator[KeyedBatch]:
    """Ids of 8 bytes, keys of 8."""
    rng, columns = np.random.default_rng(1), {"distinct": 1}.get(run.kind, 0)
    bits = {"sequence": (9, 10, 12), "absence": (9, 10)}.get(run.kind, (1,))
    for at in range(0, 2 * run.records, run.batch):
        n = run.batch
        ranks = rng.integers(0, run.keys, n) + (at // 4 if run.churn else 0)
        keys, index = np.unique(ranks, return_inverse=True)
        key_bytes, key_offsets = keys.astype(np.int64).view(np.uint8), np.arange(len(keys) + 1, dtype=np.int64) * 8
        ingest = np.arange(at, at + n) * 1000 // RATE + kernel.START_MS
        yield KeyedBatch(
            clock_ms=ingest,
            ingest_ms=ingest,
            lateness_ms=np.zeros(n, np.int64),
            key_index=index.astype(np.int32),
            key_bytes=key_bytes,
            key_offsets=key_offsets,
            key_hash=xxh64_many(key_bytes, key_offsets),
            id_bytes=np.arange(at, at + n, dtype=np.int64).view(np.uint8),
            id_offsets=np.arange(n + 1, dtype=np.int64) * 8,
            values=tuple(rng.integers(0, 1000, n) / 100 for _ in range(columns)),
            filters=np.array(bits, np.uint8)[rng.integers(0, len(bits), n)][:, None],
        )


@dataclass(frozen=True)
class Use:
    """What this thread has used so far, or in a call."""

    wall_s: float
    processor_s: float
    system_s: float
    faults: int

    @staticmethod
    def now() -> Use:
        used = resource.getrusage(resource.RUSAGE_THREAD)
        return Use(time.perf_counter(), time.thread_time(), used.ru_stime, used.ru_minflt)

    def since(self, before: Use) -> Use:
        return Use(*(mine - former for mine, former in zip(astuple(self), astuple(before), strict=True)))


@dataclass(frozen=True)
class Call:
    """One call: records and bytes held after it, what it waited for most, and pages that were new to the process."""

    ms: float
    held: int
    bytes: int
    cause: str
    faults: int


def calls(run: Run, watch: Watch) -> list[Call]:
    state, found = state_of(run), list[Call]()
    kept_ms = run.records * 1000 // RATE
    retention_ms = state.plan.retention_ms if run.kind == "panes" else 0
    for batch in batches(run):
        watch.spent.clear()
        before = Use.now()
        now_ms = int(batch.ingest_ms[-1])
        state.judge(batch)
        state.due(now_ms)
        evicting = time.thread_time()
        inside = sum(watch.spent.values())
        state.evict(now_ms - kept_ms - retention_ms)
        used = Use.now().since(before)
        evicted = time.thread_time() - evicting - (sum(watch.spent.values()) - inside)
        spent = dict(watch.spent) | {"eviction": evicted}
        spent["judging"] = used.processor_s - sum(spent.values())
        held, size = state.records, state.bytes_in_memory()
        found.append(Call(used.processor_s * 1000, held, size, cause_of(spent, used), used.faults))
    return found[1:]


def by_size(found: list[Call]) -> list[dict[str, Any]]:
    rows = []
    for low in (0, 100_000, 1_000_000, 5_000_000):
        high = {0: 100_000, 100_000: 1_000_000, 1_000_000: 5_000_000}.get(low, 2**62)
        mine = [call for call in found if low <= call.held < high]
        if not mine:
            continue
        ms = np.array([call.ms for call in mine])
        long = sorted((call for call in mine if call.ms > LONG_MS), key=lambda call: -call.ms)
        causes = Counter(call.cause for call in long)
        worst = {cause: round(max(call.ms for call in long if call.cause == cause), 1) for cause in causes}
        rows.append(
            {
                "records_from": low,
                "calls": len(mine),
                "median_ms": round(float(np.median(ms)), 2),
                "p99_ms": round(float(np.quantile(ms, 0.99)), 2),
                "longest_ms": round(float(ms.max()), 1),
                "mib": round(max(call.bytes for call in mine) / 2**20),
                "above_5_ms": dict(causes),
                "longest_ms_by_cause": worst,
                "page_faults": sum(call.faults for call in mine),
            }
        )
    return rows


def histogram(found: list[Call]) -> dict[str, list[int]]:
    """By cause: calls from each of EDGES_MS up to the next."""
    kept: dict[str, list[int]] = {}
    for call in found:
        if call.ms > LONG_MS:
            place = int(np.searchsorted(EDGES_MS, call.ms, side="right")) - 1
            kept.setdefault(call.cause, [0] * len(EDGES_MS))[place] += 1
    return kept


def show(run: Run, rows: list[dict[str, Any]]) -> None:
    for row in rows:
        causes = "; ".join(
            f"{cause} {count} (to {row['longest_ms_by_cause'][cause]:.0f})"
            for cause, count in sorted(row["above_5_ms"].items())
        )
        print(
            f"{run.name:28} {row['records_from']:9,} {row['median_ms']:9} {row['p99_ms']:7} {row['longest_ms']:8} "
            f"{row['mib']:7,} {row['page_faults']:9,}  {causes}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", metavar="TEXT", help="only runs whose names contain one of these")
    parser.add_argument("--records", type=int, default=10_000_000, help="records that a state holds at most")
    parser.add_argument("--touch", type=int, default=0, metavar="MIB", help="memory to write to first (default 0)")
    given = parser.parse_args()
    panes.touch(given.touch << 20)
    watch = Watch()
    for owner, name, cause in CAUSES:
        watch.follow(owner, name, cause)
    gc.callbacks.append(watch.collecting)
    gc.freeze()  # as processes with a state do: what is imported is not looked through
    print(f"load {os.getloadavg()[0]:.1f}; {given.touch} MiB of memory touched first; ms of processor time")
    print(
        f"{'run':28} {'records ≥':>9} {'median':>9} {'p99':>7} {'longest':>8} {'MiB':>7} {'faults':>9}  "
        "above 5 ms, by cause"
    )
    results, pauses = [], dict[str, Any]()
    for each in RUNS:
        if given.only and not any(text in each.name for text in given.only):
            continue
        run = Run(**asdict(each) | {"records": given.records})
        start = time.process_time()
        found = calls(run, watch)
        rows = by_size(found)
        show(run, rows)
        pauses[run.name] = histogram(found)
        results.append(
            asdict(run)
            | {"sizes": rows, "total_s": round(sum(call.ms for call in found) / 1000, 2)}
            | {"with_input_s": round(time.process_time() - start, 1)}
        )
        print(f"{'':28} {results[-1]['total_s']} s in all")
    print("\ncalls by cause, from each of these ms up to the next: " + ", ".join(map(str, EDGES_MS)))
    for name, kept in pauses.items():
        for cause, counts in sorted(kept.items()):
            print(f"{name:28} {cause:20} " + " ".join(f"{count:6}" for count in counts))
    report = {
        "load": os.getloadavg(),
        "touched_mib": given.touch,
        "machine": platform.machine(),
        "numpy": np.__version__,
        "edges_ms": EDGES_MS,
        "results": results,
        "pauses": pauses,
    }
    target = ROOT / "bench" / "results" / f"pauses-{time.strftime('%Y%m%dT%H%M%S')}.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(report, indent=1))
    print(target)


if __name__ == "__main__":
    main()
