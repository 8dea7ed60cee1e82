"""The time until a killed pipeline judges again: ``python -m bench.recovery [--records 10000000]``.

A pipeline judges records that all stay in its window. Then SIGKILL ends all of its processes in the middle of a batch.
A new process starts, rebuilds the state from the segments of the state log, runs the interrupted batch again and goes
on. The time runs from the start of that command until the store has its first batch.
"""

from __future__ import annotations

import argparse
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import orjson
import psutil

from bench.report import Report, median, say
from bench.runs import LOG_TAIL, ROOT, as_installed
from bench.workload import Rules, rule_set, velocity, write_pipeline
from crossline.runtime.java.child_processes import end_with_parent
from crossline.runtime.machine.temporary_folders import own_folder_for

# R1's key space with a window that nothing leaves; R5 with windows of a day: three key spaces.
SETS: Mapping[str, Rules] = {
    "R1": [velocity("account_count", "24h", "count", ">=", 1_000_000_000, group_by="account_id")],
    "R5": [{**rule, "window": "24h", "aggregation_threshold": 10**15} for rule in rule_set("R5")],
}
TARGET_S = 8.0
POLL_S = 0.05
WAIT_S = 900.0


def start(pipeline: Path, *arguments: str) -> subprocess.Popen[bytes]:
    """A module in a process of its own, with its output in a file next to the pipeline."""
    command = [sys.executable, "-m", *arguments]
    with (pipeline.parent / "child.log").open("ab") as log:
        return subprocess.Popen(
            command,
            cwd=ROOT,
            env=as_installed(),
            stdout=log,
            stderr=log,
            preexec_fn=end_with_parent,  # noqa: PLW1509 - one thread
        )


def delivered(pipeline: Path) -> list[Mapping[str, Any]]:
    """The figures of the batches that the store has, in their order."""
    with suppress(sqlite3.OperationalError), closing(sqlite3.connect(pipeline.parent / "out" / "alerts.db")) as store:
        rows = store.execute("SELECT figures FROM batches ORDER BY batch_id").fetchall()
        return [orjson.loads(figures) for (figures,) in rows]
    return []


def judged(pipeline: Path) -> int:
    """Records in them."""
    return sum(figures["records"] for figures in delivered(pipeline))


def kill_all(process: subprocess.Popen[bytes]) -> None:
    """SIGKILL to the process and everything below it, at once."""
    family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
    for each in family:
        with suppress(psutil.NoSuchProcess):
            each.kill()
    process.wait()
    psutil.wait_procs(family, timeout=30)


def until_judged(pipeline: Path, process: subprocess.Popen[bytes], records: int) -> None:
    """Wait until that many are delivered; a few milliseconds later the next batch is under way."""
    deadline_s = time.monotonic() + WAIT_S
    while judged(pipeline) < records:
        if process.poll() is not None or time.monotonic() > deadline_s:
            log = (pipeline.parent / "child.log").read_text(encoding="utf-8")
            raise SystemExit(f"the pipeline did not get there:\n{log[-LOG_TAIL:]}")
        time.sleep(POLL_S)
    time.sleep(POLL_S)


def measure(rules: Rules, records: int) -> dict[str, Any]:
    """One kill and restart; seconds by phase, and what was there to be rebuilt."""
    source = {"kind": "generator", "workload": "tx", "records": records + 1_500_000}
    with own_folder_for("bench") as folder:
        pipeline = write_pipeline(folder / "p", rules, source)
        process = start(pipeline, "bench.pipeline_process", str(pipeline), str(folder / "figures.json"))
        until_judged(pipeline, process, records)
        kill_all(process)
        before = delivered(pipeline)
        held = sum(figures["records"] for figures in before)
        began_s = time.monotonic()
        again = start(pipeline, "crossline.cli.main", "run", str(pipeline))
        until_judged(pipeline, again, held + 1)
        restart_s = time.monotonic() - began_s - POLL_S
        kill_all(again)
        first = delivered(pipeline)[len(before)]
        state = sum(p.stat().st_size for p in (pipeline.parent / "out" / "checkpoint" / "state").rglob("*.seg"))
        return {
            "records": held,
            "retained": first["retained"],
            "state_mib": state >> 20,
            "restart_s": restart_s,
            "first_batch_s": first["detect_ms"] / 1e3,
            "rebuild_s": first["spent_ms"]["state"] / 1e3,
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=10_000_000, help="records judged and retained before the kill")
    parser.add_argument("--sets", default="R1", help=f"rule sets of {', '.join(SETS)}")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="one run of 1,000,000 records")
    options = parser.parse_args()
    report = Report("recovery", "From the start after SIGKILL to the end of the first batch, 2 cores")
    for name in options.sets.split(","):
        runs: list[dict[str, Any]] = []
        for number in range(1 if options.quick else options.runs):
            runs.append(measure(SETS[name], 1_000_000 if options.quick else options.records))
            load = os.getloadavg()[0]
            say(f"{name}, run {number + 1}: judging again after {runs[-1]['restart_s']:.1f} s, load average {load:.1f}")
        add_row(report, name, runs)
    report.notes += [
        "first batch: planning, rebuilding, judging; restart: until it is delivered",
        "rebuild: seconds of the tasks together that went into reading segments and loading the kernel's memory",
    ]
    report.finish()


def add_row(report: Report, name: str, runs: Sequence[Mapping[str, Any]]) -> None:
    """Medians of one rule set."""
    report.add(
        rules=name,
        runs=len(runs),
        **{field: median([run[field] for run in runs]) for field in runs[0]},
        worst_s=max(run["restart_s"] for run in runs),
        target_s=TARGET_S,
    )


if __name__ == "__main__":
    main()
