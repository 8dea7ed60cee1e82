"""The time until killed processes are made up for: ``python -m bench.recovery [--records 10000000] [--kill WHAT]``.

A pipeline judges records that all stay in its window. Then SIGKILL ends all of its processes in the middle of a batch.
A new process starts, rebuilds the state from the segments of the state log, runs the interrupted batch again and goes
on. The time runs from the start of that command until the store has its first batch.

``--kill state-server``, ``worker``, ``daemon`` or ``executor``: the oldest such process dies, several times in turn,
while records come at a pace; with ``executors`` all of them at once. The time runs from the kill until the store has
the first batch that was judged after it: one that had to read a log, or that began after the kill. With executors the
master is ``local-cluster[2,1,1024]``; the second one is killed once four batches were small and read nothing, which is
before the replacement of the first one can judge.
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
from chaos.parts.supervised import EXECUTOR

from bench.report import Report, median, say
from bench.runs import LOG_TAIL, ROOT, as_installed
from bench.workload import STREAM, Rules, rule_set, velocity, write_pipeline
from crossline.io.chunks import STARTED
from crossline.runtime.java.child_processes import end_with_parent
from crossline.runtime.machine.temporary_folders import own_folder_for
from crossline.runtime.sources.inputs import PACED_CHUNKS_PER_S

# R1's key space with a window that nothing leaves; R5 with windows of a day: three key spaces.
SETS: Mapping[str, Rules] = {
    "R1": [velocity("account_count", "24h", "count", ">=", 1_000_000_000, group_by="account_id")],
    "R5": [{**rule, "window": "24h", "aggregation_threshold": 10**15} for rule in rule_set("R5")],
}
TARGET_S = 8.0
LOSS_TARGET_S = 2.0
POLL_S = 0.05
WAIT_S = 1_800.0
# What dies, and the master that it is of.
KILLS: Mapping[str, tuple[str, str]] = {
    "state-server": ("cl-state-server", "local[2]"),
    "worker": ("cl-worker", "local[2]"),
    "daemon": ("cl-daemon", "local[2]"),
    "executor": (EXECUTOR, "local-cluster[2,1,1024]"),
    "executors": (EXECUTOR, "local-cluster[2,1,1024]"),
}
PACE = 10_000  # records a second, once all others are judged
CALM = 4  # batches before each kill that begin and end in time and read no log
LATE_S = 1.0  # a batch that waits no longer to begin is in time


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
    parser.add_argument("--kill", default="pipeline", choices=["pipeline", *KILLS], help="what dies")
    parser.add_argument("--standby", action="store_true", help="each state server has one (engine.standby)")
    options = parser.parse_args()
    if options.quick:
        options.records, options.runs = 1_000_000, 1
    if options.kill != "pipeline":
        report_losses(options)
        return
    report = Report("recovery", "From the start after SIGKILL to the end of the first batch, 2 cores")
    for name in options.sets.split(","):
        runs: list[dict[str, Any]] = []
        for number in range(options.runs):
            runs.append(measure(SETS[name], options.records))
            load = os.getloadavg()[0]
            say(f"{name}, run {number + 1}: judging again after {runs[-1]['restart_s']:.1f} s, load average {load:.1f}")
        add_row(report, name, runs)
    report.notes += [
        "first batch: planning, rebuilding, judging; restart: until it is delivered",
        "rebuild: seconds of the tasks together that went into reading segments and loading the kernel's memory",
    ]
    report.finish()


def segments_read(figures: Mapping[str, Any]) -> int:
    """Batches of the log that were read for it."""
    return int(figures.get("segments_read", 0))


def named(process: subprocess.Popen[bytes], name: str) -> list[psutil.Process]:
    """Processes of the pipeline that are called so, or are Java's and run a class of this name."""
    found = []
    for each in psutil.Process(process.pid).children(recursive=True):
        with suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
            if each.name() == name or (each.name() == "java" and name in " ".join(each.cmdline())):
                found.append(each)
    return found


def until_calm(pipeline: Path, process: subprocess.Popen[bytes]) -> list[Mapping[str, Any]]:
    """Wait until the pace is kept and nothing is read again; the last batches."""
    deadline_s, seen = time.monotonic() + WAIT_S, len(delivered(pipeline))
    while True:
        last = delivered(pipeline)[seen:][-CALM:]
        small = all(figures["records"] <= 3 * PACE for figures in last)
        if len(last) == CALM and small and not any(map(segments_read, last)):
            return last
        if process.poll() is not None or time.monotonic() > deadline_s:
            raise SystemExit(f"never calm; records of the last batches: {[figures['records'] for figures in last]}")
        time.sleep(POLL_S)


def kill_some(pipeline: Path, process: subprocess.Popen[bytes], kill: str) -> dict[str, Any]:
    """Seconds from the death of what ``kill`` says until a batch that was judged after it is delivered."""
    calm = until_calm(pipeline, process)
    before = len(delivered(pipeline))
    began_s, began_ms = time.monotonic(), time.time() * 1e3
    found = sorted(named(process, KILLS[kill][0]), key=psutil.Process.create_time)
    for each in found if kill == "executors" else found[:1]:
        each.kill()
    while True:
        new = delivered(pipeline)[before:]
        after = [each for each in new if segments_read(each) or each["began_ms"] >= began_ms]
        if after:
            break
        if process.poll() is not None or time.monotonic() - began_s > WAIT_S:
            raise SystemExit("no batch after the kill")
        time.sleep(POLL_S / 5)
    first = after[0]
    return {
        "loss_s": time.monotonic() - began_s,
        "begins_s": (first["began_ms"] - began_ms) / 1e3,
        "batch_s": first["detect_ms"] / 1e3,
        "calm_batch_s": median([each["detect_ms"] / 1e3 for each in calm]),
        "rebuild_s": first["spent_ms"].get("state", 0.0) / 1e3,
        "records": first["records"],
        "segments": segments_read(first),
        "retained": first["retained"],
    }


def measure_losses(rules: Rules, records: int, kill: str, times: int, *, standby: bool) -> list[dict[str, Any]]:
    """Kills one after the other, in one run."""
    _, master = KILLS[kill]
    engine: dict[str, Any] = {"master": master, "shards": 2, "standby": standby}
    if KILLS[kill][0] == EXECUTOR:
        engine |= {"spark": {"spark.executor.memory": "512m"}}
    with own_folder_for("bench") as folder:
        source = {"kind": "generator", "workload": "tx", "pace_per_s": PACE}
        pipeline = write_pipeline(folder / "p", rules, source, engine=engine)
        begin_behind(pipeline, records)
        process = start(pipeline, "bench.pipeline_process", str(pipeline), str(folder / "figures.json"), "--serve")
        until_judged(pipeline, process, records)
        runs = []
        for number in range(times):
            runs.append(kill_some(pipeline, process, kill))
            load = os.getloadavg()[0]
            say(f"{kill} {number + 1}: judged after {runs[-1]['loss_s']:.2f} s, load {load:.1f}: {runs[-1]}")
        kill_all(process)
        return runs


def begin_behind(pipeline: Path, records: int) -> None:
    """Have the paced source begin as if it had for so long that ``records`` are due at once."""
    folder = pipeline.parent / "out" / "checkpoint" / "sources" / STREAM
    folder.mkdir(parents=True)
    started_ms = int(time.time() * 1e3 - records * 1e3 / PACE)
    state = {"started_ms": started_ms, "chunk_records": PACE // PACED_CHUNKS_PER_S}
    (folder / STARTED).write_bytes(orjson.dumps(state))


def report_losses(options: argparse.Namespace) -> None:
    """Kills of one process, by rule set."""
    report = Report("recovery", f"From SIGKILL to a {options.kill} to the end of the first batch after it, 2 cores")
    for name in options.sets.split(","):
        runs = measure_losses(SETS[name], options.records, options.kill, options.runs, standby=options.standby)
        medians = {field: median([run[field] for run in runs]) for field in runs[0]}
        report.add(
            rules=name,
            kills=len(runs),
            **medians,
            worst_s=max(run["loss_s"] for run in runs),
            target_s=LOSS_TARGET_S,
        )
    report.notes += [
        f"{PACE:,} records come a second; begins: from the kill to the first batch after it; calm batch: one before it",
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
