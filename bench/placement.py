"""The gain of shard placement on a cluster: ``python -m bench.placement [--records N] [--runs N] [--batches N]``.

R5 over files, on ``local-cluster``: the executors are processes of this machine. Runs with placement and without it
take turns; without it, the task of a shard goes to any free executor. The rates are those of this machine, whose
processors all executors share. The amounts read again, and the memory of each executor, are those of a cluster.
"""

from __future__ import annotations

import argparse
import os

from bench.report import Report, median, say
from bench.runs import Run, run_pipeline
from bench.workload import files_of, rule_set
from crossline.generate.tx import TxWorkload

BYTES = 240  # a record, with some to spare


def measure(records: int, batches: int, executors: int, shards: int, *, placement: bool) -> Run:
    """One run; ``batches``: into how many its records are cut."""
    folder = files_of(TxWorkload(), records, "tx")
    engine = {"master": f"local-cluster[{executors},1,1024]", "shards": shards}
    engine["spark"] = {"spark.executor.memory": "512m", "spark.default.parallelism": executors}
    engine["spark"]["spark.python.authenticate.socketTimeout"] = "120s"  # workers begin side by side, on few processors
    source = {"kind": "files", "path": str(folder), "max_batch_bytes": max(1, records // batches * BYTES)}
    return run_pipeline(rule_set("R5"), source, engine=engine, arguments=[] if placement else ["--no-placement"])


def read_again(run: Run) -> tuple[int, int]:
    """Batches of a shard that were read from its log once all executors were there, and their bytes."""
    late = run.batches[len(run.batches) // 2 :]
    return sum(each.get("segments_read", 0) for each in late), sum(each.get("segments_read_bytes", 0) for each in late)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--batches", type=int, default=40)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--executors", type=int, default=2)
    parser.add_argument("--shards", type=int, default=16)
    options = parser.parse_args()
    report = Report("placement", "Shard placement on a cluster, on and off")
    runs: dict[bool, list[Run]] = {True: [], False: []}
    for _ in range(options.runs):
        for placement, mine in runs.items():
            run = measure(options.records, options.batches, options.executors, options.shards, placement=placement)
            mine.append(run)
            segments, size = read_again(run)
            say(
                f"placement {placement}: steady {run.steady_rate():,.0f}/s, cpu {run.cpu_us_per_record()['all']:.2f} "
                f"us a record, read again {segments} segments, {size / 1e6:,.1f} MB, plan {plan_ms(run):.0f} ms, load "
                f"average {os.getloadavg()[0]:.1f}"
            )
    for placement, mine in runs.items():
        report.add(
            shards="placed" if placement else "anywhere",
            records_per_s=round(median([run.steady_rate() for run in mine])),
            cpu_us=round(median([run.cpu_us_per_record()["all"] for run in mine]), 2),
            read_again=round(median([float(read_again(run)[0]) for run in mine])),
            read_again_mb=round(median([read_again(run)[1] / 1e6 for run in mine]), 1),
            plan_ms=round(median([plan_ms(run) for run in mine])),
        )
    report.finish()


def plan_ms(run: Run) -> float:
    """Median milliseconds from the begin of a batch to that of its first task."""
    return median([each["wall_ms"]["plan"] for each in run.batches[len(run.batches) // 2 :]])


if __name__ == "__main__":
    main()
