"""Measures whether anything grows in a long session: ``python -m bench.soak [--mixed] [--batches N | --minutes N]``.

Small batches of generated traffic pass through a pipeline of R5, or of rules of all types with a policy, with its usual
sinks. All run in one session, in which the pipeline stops and starts again and again. At intervals the threads,
descriptors and resident bytes of all its processes are noted, and the size of Java's heap after a collection. The
windows are full after some hundred batches; from then on neither the state nor anything else may grow.
"""

from __future__ import annotations

import argparse
import gc
import os
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import yaml
from pyspark.sql import SparkSession

from bench.report import Report, median, say
from bench.workload import rule_set, write_pipeline
from crossline.io.sinks.base import Delivery
from crossline.runtime.machine.temporary_folders import own_folder_for
from crossline.runtime.pipeline.assemble import RunOptions, assemble, read_config
from crossline.runtime.pipeline.pipeline import Pipeline
from crossline.runtime.spark.session import build_session, wake_workers
from crossline.runtime.spark_internals.gateway import end_session
from crossline.runtime.work.totals import Totals
from crossline.settings.config import in_folder

KINDS = ("driver", "java", "state_servers", "workers")
WARM_SHARE = 0.2  # of the samples: pools fill, code is compiled, windows fill
MIB = 1 << 20
MIXED = Path(__file__).parent / "mixed"
BATCHES_MAX = 1 << 60
EVENT_RATE = 20  # records a second of event time: the widest window of R5 holds 20,000
# What a figure may have grown by from the first samples after warming up to the last ones and still count as flat.
SLACK = {"threads": 3, "fds": 3, "rss_mib": 64, "heap_mib": 16}


@dataclass(slots=True)
class Soak:
    """Counts batches over all starts, and takes a sample every ``every`` of them."""

    session: SparkSession
    every: int
    began_s: float = field(default_factory=time.monotonic)
    batches: int = 0
    records: int = 0
    starts: int = 0
    samples: list[dict[str, Any]] = field(default_factory=list)
    until: int = 0
    until_s: float = float("inf")  # of the clock that ``began_s`` is of
    reached: threading.Event = field(default_factory=threading.Event)

    def batch(self, delivery: Delivery, _: Totals) -> None:
        """A batch was delivered."""
        self.batches += 1
        self.records += delivery.figures["records"]
        if self.batches % self.every == 0:
            self.samples.append(self.sample())
        if self.batches >= self.until or time.monotonic() >= self.until_s:
            self.reached.set()

    def sample(self) -> dict[str, Any]:
        """Threads, descriptors and resident bytes by kind of process; what Java's heap holds."""
        gc.collect()
        jvm: Any = self.session.sparkContext._jvm  # noqa: SLF001 - PySpark has no other way to Java
        jvm.java.lang.System.gc()
        memory = jvm.java.lang.Runtime.getRuntime()
        found: dict[str, Any] = {
            "batches": self.batches,
            "starts": self.starts,
            "seconds": time.monotonic() - self.began_s,
            "heap_mib": (memory.totalMemory() - memory.freeMemory()) / MIB,
        }
        for kind in KINDS:
            found |= {f"{kind}_{what}": 0 for what in ("processes", "threads", "fds", "rss_mib")}
        own = psutil.Process()
        for process in [own, *own.children(recursive=True)]:
            try:
                kind = kind_of(process, own.pid)
                figures = (1, process.num_threads(), process.num_fds(), process.memory_info().rss / MIB)
            except psutil.Error:
                continue
            for what, value in zip(("processes", "threads", "fds", "rss_mib"), figures, strict=True):
                found[f"{kind}_{what}"] += value
        return found


def kind_of(process: psutil.Process, driver: int) -> str:
    """Which kind of process it is; a state server is known by the socket that it listens on."""
    if process.pid == driver:
        return "driver"
    if process.name() == "java":
        return "java"
    listening = [str(each.laddr) for each in process.net_connections("unix")]
    return "state_servers" if any("/server-" in name for name in listening) else "workers"


def pipeline_of(folder: Path, options: argparse.Namespace) -> Path:
    """The pipeline's file, written into ``folder``."""
    source = {"kind": "generator", "workload": "tx", "rate_per_s": EVENT_RATE}
    engine = {"max_batch_records": options.records, "trigger": options.trigger}
    rules = yaml.safe_load((MIXED / "rules.yaml").read_text(encoding="utf-8")) if options.mixed else rule_set("R5")
    path = write_pipeline(folder / "p", rules, source, engine=engine)
    if options.mixed:
        (path.parent / "lists").mkdir()
        (path.parent / "lists" / "home.txt").write_text("EUR\n", encoding="utf-8")
        (path.parent / "policy.yaml").write_bytes((MIXED / "policy.yaml").read_bytes())
        with path.open("a", encoding="utf-8") as file:
            file.write("policy: policy.yaml\nlists: {kind: directory, path: lists}\n")
    return path


def soak(folder: Path, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Run all batches; the samples."""
    pipeline = pipeline_of(folder, options)
    config = in_folder(read_config(str(pipeline)), str(pipeline.parent))
    session = build_session(config.name, config.engine.master)
    wake_workers(session)
    state = Soak(session, options.every)
    try:
        for number in range(options.starts):
            state.starts = number + 1
            if options.minutes:
                state.until, state.until_s = BATCHES_MAX, state.began_s + share_s(options, number + 1)
            else:
                state.until = options.batches * (number + 1) // options.starts
            state.reached.clear()
            running = assemble(session, config, RunOptions(on_batch=state.batch)).start()
            until_reached(running, state)
            running.stop()
            say(f"{state.batches:,} batches, {state.starts} starts, {time.monotonic() - state.began_s:.0f} s")
        state.samples.append(state.sample())
    finally:
        end_session(session)
    return state.samples


def share_s(options: argparse.Namespace, starts: int) -> float:
    """The seconds that so many starts have together."""
    return float(options.minutes * 60 * starts / options.starts)


def until_reached(running: Pipeline, state: Soak) -> None:
    """Wait for the batches of this start; raises what ended the pipeline before."""

    def stop() -> None:
        state.reached.wait()
        running.stop()

    waiting = threading.Thread(target=stop, daemon=True)
    waiting.start()
    try:
        running.wait()
    finally:
        state.reached.set()
        waiting.join()


def growth(samples: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """By figure: the median of the first samples after warming up and of as many last ones, and whether it is flat."""
    rest = samples[round(len(samples) * WARM_SHARE) :]
    part = max(1, len(rest) // 4)
    names = ["heap_mib", *(f"{kind}_{what}" for kind in KINDS for what in ("threads", "fds", "rss_mib"))]
    rows = []
    for name in names:
        first, last = (median([sample[name] for sample in some]) for some in (rest[:part], rest[-part:]))
        slack = next(allowed for what, allowed in SLACK.items() if name.endswith(what))
        rows.append({"figure": name, "first": first, "last": last, "flat": "yes" if last - first <= slack else "NO"})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=int, default=10_000)
    parser.add_argument("--starts", type=int, default=20)
    parser.add_argument("--minutes", type=float, default=0, help="duration, instead of a number of batches")
    parser.add_argument("--mixed", action="store_true", help="rules of all types and a policy, instead of R5")
    parser.add_argument("--trigger", default="0s", help="time between batches")
    parser.add_argument("--records", type=int, default=200, help="records per batch")
    parser.add_argument(
        "--every", type=int, default=0, help="batches between two samples; by default there are 40 samples"
    )
    parser.add_argument("--quick", action="store_true", help="run 300 batches with 6 starts")
    options = parser.parse_args()
    if options.quick:
        options.batches, options.starts = 300, 6
    options.every = options.every or max(1, options.batches // 40)
    many = f"{options.minutes:g} minutes" if options.minutes else f"{options.batches:,} batches"
    what = "rules of all types" if options.mixed else "R5"
    report = Report("soak", f"{many} of {options.records} records a batch, {options.starts} starts, {what}")
    with own_folder_for("bench") as folder:
        samples = soak(folder, options)
    for sample in samples:
        report.add(**{name: value for name, value in sample.items() if not name.endswith("_processes")})
    grown = growth(samples)
    report.details |= {"samples": samples, "growth": grown}
    report.notes += [
        f"{row['figure']}: {row['first']:,.0f} after warming up, {row['last']:,.0f} at the end; flat: {row['flat']}"
        for row in grown
    ]
    report.notes.append(
        f"samples every {options.every} batches; flat: grown by no more than {SLACK}; {os.cpu_count()} cores"
    )
    report.finish()


if __name__ == "__main__":
    main()
