"""Records per second from JSON lines to alerts: ``python -m bench.throughput [--sets R1,R5] [--records N] [--runs N]``.

Files of JSON lines -> Spark -> alerts in a JSON lines file and a SQLite store, with checkpoints, on two cores, as fast
as possible. Each run is a process of its own; rule sets take turns. No figure includes the start of the Spark session.
The first batch starts Python's workers and loads the kernels: it is part of `whole`, not of `steady`.
"""

from __future__ import annotations

import argparse
import os

from bench.report import Report, median, say
from bench.runs import Run, medians, run_pipeline, spread
from bench.workload import files_of, needs_device, rule_set
from crossline.generate.tx import TxWorkload

RECORDS = {"R1": 2_000_000, "R5": 2_000_000, "R100": 300_000, "R1000": 100_000, "M100": 2_000_000, "M1000": 1_000_000}
TARGETS = {"R1": 500_000, "R5": 300_000, "R100": 80_000, "R1000": 30_000, "M100": 80_000, "M1000": 30_000}


def measure(name: str, records: int) -> Run:
    """One run of a rule set."""
    rules = rule_set(name)
    device = needs_device(rules)
    folder = files_of(TxWorkload(with_device=device), records, "tx-device" if device else "tx")
    # Batches of a tenth or more, so that every run has some to be steady in.
    batch_bytes = min(256 * 1024 * 1024, max(1, records // 8) * 240)
    return run_pipeline(rules, {"kind": "files", "path": str(folder), "max_batch_bytes": batch_bytes})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", default=",".join(RECORDS), help="rule sets, separated by commas")
    parser.add_argument("--records", type=int, help="records per set; by default 2,000,000, fewer for the large sets")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="a tenth of the records, one run")
    options = parser.parse_args()
    report = Report("throughput", "Records a second, JSON lines to alerts, 2 cores")
    names = options.sets.split(",")
    runs: dict[str, list[Run]] = {name: [] for name in names}
    for number in range(1 if options.quick else options.runs):
        for name in names:
            records = options.records or RECORDS.get(name, 100_000)
            run = measure(name, records // 10 if options.quick else records)
            runs[name].append(run)
            say(
                f"{name}, run {number + 1}: steady {run.steady_rate():,.0f}/s, whole {run.whole_rate():,.0f}/s, "
                f"cpu {run.cpu_us_per_record()['all']:.2f} us a record, load average {os.getloadavg()[0]:.1f}"
            )
    for name, each in runs.items():
        add_rows(report, name, each)
    report.notes += [
        "steady: after the first batch; whole: all batches; the session's start is in neither",
        "cpu bound: what two cores give at the processor time measured (user + system of Java, workers and driver)",
    ]
    report.finish()


def add_rows(report: Report, name: str, runs: list[Run]) -> None:
    """The row of one rule set, and where the time of its batches went."""
    cpu = medians([run.cpu_us_per_record() for run in runs])
    report.add(
        rules=name,
        records=runs[0].records,
        runs=len(runs),
        steady_per_s=median([run.steady_rate() for run in runs]),
        steady_range_k=spread([run.steady_rate() for run in runs]),
        whole_per_s=median([run.whole_rate() for run in runs]),
        cpu_us_per_record=cpu["all"],
        cpu_bound_per_s=2e6 / cpu["all"],
        target_per_s=TARGETS.get(name),
        alerts=runs[0].alerts,
    )
    report.details.setdefault("profile", {})[name] = {
        "cpu_us_per_record": cpu,
        "batch_phases_ms": medians([run.phases_ms() for run in runs]),
        "tasks_ms_per_batch": medians([run.spent_ms() for run in runs]),
        "records_per_batch": runs[0].records / len(runs[0].batches),
    }


if __name__ == "__main__":
    main()
