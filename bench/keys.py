"""The effect of the number of keys: ``python -m bench.keys [--keys 1000,10000,…] [--records 10000000]``.

R1 with every account equally often, in scattered order (the worst for caches). All records lie inside one window, so
every key and record is kept to the end. The threshold is out of reach, so runs of few and of many keys deliver the
same.
"""

from __future__ import annotations

import argparse
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from bench.report import Report, median, say
from bench.runs import Run, medians, run_pipeline, spread
from bench.workload import DATA, FILE_RECORDS, velocity
from crossline.generate.text import json_lines, numbered
from crossline.generate.tx import LINES_BATCH, TxWorkload

RULES = [velocity("account_count", "60s", "count", ">=", 1_000_000_000, group_by="account_id")]
STEP = 7_368_787  # a prime: record number times this, modulo the keys, meets each key in turn, far from the one before
WINDOW_S = 50


@dataclass(frozen=True, slots=True)
class Scattered:
    """Records of workload tx whose account is, one after the other, each of ``keys``."""

    keys: int
    records: int

    def lines(self, start: int, count: int) -> bytes:
        """Records [start, start + count) as JSON lines; all records span 50 s of event time."""
        base = TxWorkload(rate_per_s=max(1, self.records // WINDOW_S), disorder_ms=0)
        numbers = np.arange(start, start + count, dtype=np.int64)
        accounts = numbered("a", numbers * STEP % self.keys, 8)
        table = base.records(start, count)
        return json_lines(table.set_column(table.column_names.index("account_id"), "account_id", pa.array(accounts)))

    def write(self, folder: Path) -> None:
        """All of them, as files."""
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for number, first in enumerate(range(0, self.records, FILE_RECORDS)):
            end = min(first + FILE_RECORDS, self.records)
            with (folder / f"part-{number:05d}.jsonl").open("wb") as file:
                for start in range(first, end, LINES_BATCH):
                    file.write(self.lines(start, min(LINES_BATCH, end - start)))


def last_half_rate(run: Run) -> float:
    """Records a second over the last half of the batches, when keys and records are many."""
    middle, last = run.batches[len(run.batches) // 2], run.batches[-1]
    return float((last["records_so_far"] - middle["records_so_far"]) / (last["ended_s"] - middle["ended_s"]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", default="1000,10000,100000,1000000,10000000")
    parser.add_argument("--records", type=int, default=10_000_000, help="records per run; at least as many as keys")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="1,000 to 1,000,000 keys and 1,000,000 records")
    options = parser.parse_args()
    records = 1_000_000 if options.quick else options.records
    counts = [keys for keys in map(int, options.keys.split(",")) if keys <= records]
    report = Report("keys", f"R1 over {records:,} records, by the number of keys, 2 cores")
    runs: dict[int, list[Run]] = {keys: [] for keys in counts}
    for keys in counts:
        folder = DATA / f"keys-{keys}"
        Scattered(keys, records).write(folder)
        for _ in range(1 if options.quick else options.runs):
            run = run_pipeline(RULES, {"kind": "files", "path": str(folder)})
            runs[keys].append(run)
            say(f"{keys:,} keys: {run.steady_rate():,.0f}/s, load average {os.getloadavg()[0]:.1f}")
        shutil.rmtree(folder)
    few = median([last_half_rate(run) for run in runs[counts[0]]])
    for keys, each in runs.items():
        rate, cpu = median([last_half_rate(run) for run in each]), medians([run.cpu_us_per_record() for run in each])
        last = each[-1].batches[-1]
        report.add(
            keys=keys,
            records=records,
            retained=last["retained"],
            last_half_per_s=rate,
            range_k=spread([last_half_rate(run) for run in each]),
            of_fewest_keys=round(rate / few, 2),
            cpu_us_per_record=cpu["all"],
            cpu_bound_per_s=2e6 / cpu["all"],
            workers_mib=last["rss_bytes"]["workers"] >> 20,
        )
    report.finish()


if __name__ == "__main__":
    main()
