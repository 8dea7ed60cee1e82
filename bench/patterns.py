"""The throughput of the pattern kernel and the memory of a record: sequences and absences over 50,000 keys.

Prints a table and writes JSON under bench/results/. Times are processor seconds of this process. The table shows the
load of the machine too, since caches and memory are shared. Memory is touched first, as in ``bench.panes``.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numba
import numpy as np

from bench.kernel import FOREVER, Case, batches
from bench.panes import touch
from crossline.plan.pattern_spaces import AbsencePlan, AbsenceSpacePlan, PatternSpacePlan, SequencePlan, StepPlan
from crossline.state.batch import KeyedBatch
from crossline.state.patterns.absence_store import AbsenceSpaceState
from crossline.state.patterns.store import PatternSpaceState

ROOT = Path(__file__).parent.parent
WITHIN_MS = 60_000
ANY = 3  # the entry that every record is in


@dataclass(frozen=True)
class Run:
    """``parts``: the part of the records in entries 0, 1 and 2, each in one of them; the others are in ANY alone."""

    case: Case
    lines: tuple[SequencePlan | AbsencePlan, ...]
    parts: tuple[float, float, float]


def a_pattern(*steps: StepPlan, strict: int | None = None, until: int | None = None, number: int = 0) -> SequencePlan:
    return SequencePlan(f"r{number}", 1, steps, WITHIN_MS, until, strict, FOREVER, None)


THREE = a_pattern(StepPlan(0), StepPlan(1), StepPlan(2))
MISSED = AbsencePlan("r0", 1, 0, 1, WITHIN_MS, 30_000, FOREVER, None)
EVEN = (0.34, 0.33, 0.33)
RARE = (0.05, 0.02, 0.01)
RUNS = (
    Run(Case("three steps, zipf", "", 50_000, 4_000_000, 10_000, zipf=True), (THREE,), EVEN),
    Run(Case("three steps", "", 50_000, 4_000_000, 10_000), (THREE,), EVEN),
    Run(Case("three steps, 1 % late", "", 50_000, 4_000_000, 10_000, late=0.01, zipf=True), (THREE,), EVEN),
    Run(Case("three steps, 10^6 keys", "", 1_000_000, 4_000_000, 20_000), (THREE,), EVEN),
    Run(Case("three steps, rare", "", 50_000, 4_000_000, 10_000, zipf=True), (THREE,), RARE),
    Run(
        Case("three times, then one", "", 50_000, 4_000_000, 10_000, zipf=True),
        (a_pattern(StepPlan(0, 3), StepPlan(1)),),
        (0.9, 0.1, 0.0),
    ),
    Run(
        Case("three steps, strict", "", 50_000, 4_000_000, 10_000, zipf=True),
        (a_pattern(StepPlan(0), StepPlan(1), StepPlan(2), strict=ANY),),
        EVEN,
    ),
    Run(
        Case("100 patterns", "", 50_000, 400_000, 10_000, zipf=True),
        tuple(a_pattern(StepPlan(n % 3), StepPlan(n // 3 % 3), StepPlan(2), until=2, number=n) for n in range(100)),
        EVEN,
    ),
    Run(Case("absence", "", 50_000, 4_000_000, 10_000, zipf=True), (MISSED,), (0.5, 0.5, 0.0)),
    Run(Case("absence, even keys", "", 50_000, 4_000_000, 10_000), (MISSED,), (0.2, 0.8, 0.0)),
    Run(Case("absence, 1 % late", "", 50_000, 4_000_000, 10_000, late=0.01, zipf=True), (MISSED,), (0.5, 0.5, 0.0)),
    Run(Case("absence, most fire", "", 50_000, 4_000_000, 10_000), (MISSED,), (0.5, 0.1, 0.4)),
)


def fed(run: Run) -> Iterator[KeyedBatch]:
    rng = np.random.default_rng(2)
    chosen = np.array([1 << ANY | 1, 1 << ANY | 2, 1 << ANY | 4, 1 << ANY], np.uint8)
    parts = (*run.parts, 1 - sum(run.parts))
    for batch in batches(run.case, 0):
        yield replace(batch, filters=chosen[rng.choice(4, len(batch), p=parts)][:, None])


def _state(run: Run) -> PatternSpaceState | AbsenceSpaceState:
    absences = tuple(line for line in run.lines if isinstance(line, AbsencePlan))
    if absences:
        return AbsenceSpaceState(AbsenceSpacePlan(4, absences, WITHIN_MS), 90_000)
    patterns = tuple(line for line in run.lines if isinstance(line, SequencePlan))
    return PatternSpaceState(PatternSpacePlan(4, patterns, WITHIN_MS), 90_000)


def measured(run: Run) -> dict[str, Any]:
    state, times, hits, peak = _state(run), [], 0, 0
    for batch in fed(run):
        start = time.process_time()
        found = state.judge(batch)
        due = state.due(int(batch.ingest_ms[-1]))
        peak = max(peak, state.records)
        state.evict(int(batch.ingest_ms[-1]) - 90_001)
        times.append(time.process_time() - start)
        hits += len(found) + (len(due) if due is not None else 0)
    sizes, seconds, key_bytes = state.sizes(), sum(times), state.key_bytes()
    return asdict(run.case) | {
        "records_per_s": round(run.case.events / seconds),
        "ns_per_record": round(seconds / run.case.events * 1e9),
        "ns_per_record_quickest_tenth": round(float(np.quantile(times, 0.1)) / run.case.batch * 1e9),
        "hits": hits,
        "records": sizes.records,
        "records_peak": peak,
        "keys_held": sizes.keys,
        "bytes_per_record_without_keys": round((sizes.bytes - key_bytes) / max(1, sizes.records), 1),
        "bytes_per_key": round(key_bytes / max(1, sizes.keys), 1),
        "load": os.getloadavg()[0],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", metavar="TEXT", help="only runs whose names contain one of these")
    parser.add_argument("--scale", type=float, default=1.0, help="factor for the number of records")
    parser.add_argument(
        "--touch", type=int, default=1024, metavar="MIB", help="memory to write to first (default 1024)"
    )
    given = parser.parse_args()
    touch(given.touch << 20)
    print(
        f"{'run':24} {'M records/s':>11} {'ns':>6} {'best':>6} {'hits':>8} {'records':>9} {'B/record':>8} {'B/key':>6}"
    )
    results = []
    for run in RUNS:
        if given.only and not any(text in run.case.name for text in given.only):
            continue
        r = measured(replace(run, case=replace(run.case, events=int(run.case.events * given.scale))))
        results.append(r)
        print(
            f"{run.case.name:24} {r['records_per_s'] / 1e6:11.2f} {r['ns_per_record']:6} "
            f"{r['ns_per_record_quickest_tenth']:6} {r['hits']:8} {r['records']:9} "
            f"{r['bytes_per_record_without_keys']:8} {r['bytes_per_key']:6}   load {r['load']:.1f}",
            flush=True,
        )
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S607
    report = {
        "commit": commit.stdout.strip(),
        "processors": os.cpu_count(),
        "machine": platform.processor() or platform.machine(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "numba": numba.__version__,
        "touched_mib": given.touch,
        "results": results,
    }
    target = ROOT / "bench" / "results" / f"patterns-{time.strftime('%Y%m%dT%H%M%S')}.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(report, indent=1))
    print(target)


if __name__ == "__main__":
    main()
