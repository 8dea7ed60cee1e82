"""The cost of the checkpoint per batch: ``python -m bench.checkpoint [--rate 2000] [--trigger 1s] [--seconds 60]``.

Generated traffic at a fixed rate, R5, one batch per trigger interval. Checkpoint work is everything that lets a batch
survive a kill: Spark's logs of offsets and commits, the segments of the shards with their compaction and removal, and
the progress marks of the pipeline. The times of concurrent tasks are added up.
"""

from __future__ import annotations

import argparse

from bench.report import Report, percentile
from bench.runs import Run, run_pipeline
from bench.workload import rule_set
from crossline.basics.times import parse_duration_ms

TARGET_SHARE = 0.10
SPARK_STEPS = ("walCommit", "commitOffsets")
TASK_STEPS = ("state", "log")
DRIVER_STEPS = ("mark",)
WARM_BATCHES = 10


def works_ms(run: Run) -> list[dict[str, float]]:
    """Milliseconds of checkpoint work by step, for each batch but the first ones."""
    spark = {progress["batch"]: progress["ms"] for progress in run.figures["progress"]}
    rows = []
    for batch in run.batches[WARM_BATCHES:]:
        if batch["batch"] not in spark:
            continue
        of_spark = {step: spark[batch["batch"]].get(step, 0) for step in SPARK_STEPS}
        of_tasks = {step: batch["spent_ms"].get(step, 0.0) for step in TASK_STEPS}
        rows.append({**of_spark, **of_tasks, **{step: batch["after_ms"][step] for step in DRIVER_STEPS}})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=int, default=2000)
    parser.add_argument("--trigger", default="1s")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--quick", action="store_true", help="run for 20 seconds")
    options = parser.parse_args()
    seconds = 20 if options.quick else options.seconds
    records = options.rate * (seconds + WARM_BATCHES)
    source = {"kind": "generator", "workload": "tx", "records": records, "pace_per_s": options.rate}
    run = run_pipeline(rule_set("R5"), source, engine={"trigger": options.trigger}, records=records)
    rows = works_ms(run)
    totals = [sum(row.values()) for row in rows]
    interval_ms = parse_duration_ms(options.trigger)
    report = Report("checkpoint", f"Checkpoint work at {options.rate:,} records/s, R5, trigger {options.trigger}")
    for step in (*SPARK_STEPS, *TASK_STEPS, *DRIVER_STEPS):
        _row(report, step, [row[step] for row in rows], interval_ms)
    _row(report, "all", totals, interval_ms, TARGET_SHARE)
    report.notes += [
        f"{len(rows)} batches of {run.records / len(run.batches):,.0f} records on average",
        "state: looking up what a worker holds, catching up, merging old segments; log: writing a batch's segments",
        "mark: the offsets that go with an ingest time, for rules that come later",
    ]
    report.finish()


def _row(report: Report, step: str, ms: list[float], interval_ms: int, target: float | None = None) -> None:
    mean = sum(ms) / len(ms)
    report.add(
        step=step,
        mean_ms=round(mean, 2),
        p50_ms=round(percentile(ms, 0.5), 2),
        p99_ms=round(percentile(ms, 0.99), 2),
        share_of_interval=round(mean / interval_ms, 4),
        target_share=target,
    )


if __name__ == "__main__":
    main()
