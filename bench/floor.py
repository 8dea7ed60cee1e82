"""The fixed cost of a small batch: ``python -m bench.floor [--records-per-batch 500] [--batches 300]``.

With so few records a batch costs only its overhead: planning, the start of tasks, the transfer to Python, the
checkpoint, the sinks. Batches follow each other without a pause. The report covers the last half of them, when Java has
finished compiling.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dev.services.broker import LocalBroker

from bench.report import Report, median, percentile, say
from bench.runs import Run, medians, run_child, run_pipeline
from bench.workload import STREAM, files_of, rule_set
from crossline.generate.tx import TxWorkload

LINE_BYTES = 222


def last_half(run: Run) -> tuple[list[float], dict[str, float]]:
    """Milliseconds from batch to batch, and processor milliseconds a batch, of the last half of a run."""
    batches = run.batches[len(run.batches) // 2 :]
    pairs = list(itertools.pairwise(batches))
    wall_ms = [(after["ended_s"] - before["ended_s"]) * 1e3 for before, after in pairs]
    # Processor time is looked up now and then: as many milliseconds of it a millisecond as passed between two looks.
    passed_s = batches[-1]["usage_s"] - batches[0]["usage_s"]
    mean_ms = sum(wall_ms) / len(wall_ms)
    cpu_ms = {
        kind: (batches[-1]["cpu_s"][kind] - batches[0]["cpu_s"][kind]) / passed_s * mean_ms
        for kind in ("java", "workers", "driver")
    }
    return wall_ms, cpu_ms


@contextmanager
def source_of(kind: str, records: int, batch: int) -> Iterator[dict[str, Any]]:
    """A source that has ``records`` records from the start and gives out ``batch`` of them at a time."""
    if kind == "files":
        folder = files_of(TxWorkload(), max(100_000, records), "tx")
        yield {"kind": "files", "path": str(folder), "max_batch_bytes": batch * LINE_BYTES}
        return
    with LocalBroker() as broker:
        broker.create_topic(STREAM, 2)
        say(f"sending {records:,} records")
        to = ["--records", str(records), "--brokers", broker.brokers, "--topic", STREAM]
        run_child(["generate", "tx", *to], "crossline.cli.main")
        yield {"kind": "kafka", "brokers": broker.brokers, "topic": STREAM, "max_records_per_batch": batch}


def add_row(report: Report, name: str, run: Run) -> None:
    """The row of one rule set."""
    wall_ms, cpu_ms = last_half(run)
    report.add(
        rules=name,
        records_per_batch=round(run.records / len(run.batches)),
        batches=len(run.batches),
        ms_p50=median(wall_ms),
        ms_min=min(wall_ms),
        ms_p90=percentile(wall_ms, 0.9),
        cpu_ms=sum(cpu_ms.values()),
        **{f"cpu_{kind}_ms": value for kind, value in cpu_ms.items()},
    )
    half = run.figures["progress"][len(run.figures["progress"]) // 2 :]
    phases: dict[str, Any] = medians([progress["ms"] for progress in half])
    tasks = medians([batch["spent_ms"] for batch in run.batches[len(run.batches) // 2 :]])
    report.details.setdefault("waterfall_ms", {})[name] = {"spark": phases, "tasks_together": tasks}
    report.notes.append(f"{name}, median ms by Spark's phases: {', '.join(f'{k} {v:.0f}' for k, v in phases.items())}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records-per-batch", type=int, default=500)
    parser.add_argument("--batches", type=int, default=300)
    parser.add_argument("--sets", default="R1,R5")
    parser.add_argument("--source", choices=("files", "kafka"), default="kafka")
    parser.add_argument("--quick", action="store_true", help="run 60 batches")
    options = parser.parse_args()
    batches = 60 if options.quick else options.batches
    report = Report("floor", f"The floor of a batch of {options.records_per_batch} records from {options.source}")
    per_batch = options.records_per_batch
    with source_of(options.source, (batches + 20) * per_batch, per_batch) as source:
        for name in options.sets.split(","):
            add_row(report, name, run_pipeline(rule_set(name), source, records=batches * per_batch))
    report.finish()


if __name__ == "__main__":
    main()
