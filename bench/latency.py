"""Latency from Kafka to an alert that a consumer has read: ``python -m bench.latency [--rates …] [--trigger 0s]``.

A real broker, the load, the pipeline and the consumer share the machine, a process each. The load is an open loop: a
record has a due time. Its latency counts from then until the consumer has the alert that it triggered. Rules R5. One
pipeline runs all rates one after the other, each after a warm-up. It stops at the first rate that it does not keep up
with. ``--sinks all`` also sends alerts and decisions to Redis and PostgreSQL, and reads the metrics meanwhile.
``--avro`` sends records as Avro, with a schema of a registry.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import orjson
import psutil
from confluent_kafka import Consumer, TopicPartition
from dev.services.broker import LocalBroker
from dev.services.registry import LocalRegistry

from bench.report import Report, median, percentile, say
from bench.runs import LOG_TAIL, ROOT, environment, medians
from bench.sinks import Scraper, sink_setup, write
from bench.workload import STREAM
from crossline.runtime.java.child_processes import end_with_parent
from crossline.runtime.machine.temporary_folders import own_folder_for

PARTITIONS = 2
DISORDER_MS = 2_000
SAMPLE_S = 1.0
START_S_MAX = 180.0


@dataclass(slots=True)
class Phase:
    """One rate: records [first, first + count), sent from ``began_us`` on; the first ``warm_s`` are not measured."""

    rate: int
    first: int
    count: int
    warm_s: float
    began_us: float = 0.0
    behind_ms: float = 0.0
    lags: list[tuple[float, int]] = field(default_factory=list)  # (seconds into the phase, records sent and not done)
    cores: dict[str, float] = field(default_factory=dict)

    def due_us(self, number: int) -> float:
        """When record ``number`` was due."""
        return self.began_us + (number - self.first) * 1e6 / self.rate

    def measured(self, number: int) -> bool:
        """Whether the record is of this phase, after its warm-up."""
        return self.first + self.warm_s * self.rate <= number < self.first + self.count


@contextmanager
def process(module: str, *arguments: str, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A module in a process of its own, which is terminated at the end."""
    with log.open("ab") as out:
        command = [sys.executable, "-m", module, *arguments]
        running = subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment(),
            stdout=out,
            stderr=out,
            preexec_fn=end_with_parent,  # noqa: PLW1509 - it does no more than one call to the system
        )
    try:
        yield running
    finally:
        running.send_signal(signal.SIGTERM)
        try:
            running.wait(60)
        except subprocess.TimeoutExpired:
            running.kill()
            running.wait()


@dataclass(slots=True)
class Bench:
    """The parts that run, and where they leave what they know."""

    folder: Path
    brokers: str
    registry: str | None = None
    processes: dict[str, int] = field(default_factory=dict)

    @property
    def checkpoint(self) -> Path:
        """Of the pipeline."""
        return self.folder / "pipeline" / "out" / "checkpoint" / "spark"

    def done(self) -> int:
        """Records of the topic that committed batches took."""
        with suppress(OSError, ValueError):
            last = max(int(path.name) for path in (self.checkpoint / "commits").iterdir() if path.name.isdigit())
            lines = (self.checkpoint / "offsets" / str(last)).read_text(encoding="utf-8").splitlines()
            return sum(orjson.loads(lines[-1])["payments"].values())
        return 0

    def cpu_s(self) -> dict[str, float]:
        """Processor time so far of each part with all below it."""
        used = {}
        for name, pid in self.processes.items():
            used[name] = 0.0
            with suppress(psutil.NoSuchProcess):
                top = psutil.Process(pid)
                for each in [top, *top.children(recursive=True)]:
                    with suppress(psutil.NoSuchProcess):
                        times = each.cpu_times()
                        used[name] += times.user + times.system
        return used

    def send(self, phase: Phase) -> None:
        """Let the load run for one phase, and watch meanwhile how far the pipeline is behind."""
        arguments = ["--records", str(phase.count), "--start", str(phase.first), "--rate", str(phase.rate)]
        arguments += ["--disorder-ms", str(DISORDER_MS)]
        arguments += [] if self.registry is None else ["--registry", self.registry]
        log = self.folder / f"load-{phase.rate}.log"
        before = sum(end_offsets(self.brokers).values())
        with process("bench.load_ahead", self.brokers, STREAM, *arguments, log=log) as load:
            self.processes["load"] = load.pid
            while load.poll() is None and not (said := _said(log)):
                time.sleep(0.05)
            phase.began_us = said.get("began_us", 0.0)
            self._watch(phase, load)
        if load.returncode != 0:
            raise SystemExit(f"the load failed:\n{log.read_text(encoding='utf-8')[-LOG_TAIL:]}")
        phase.behind_ms = _said(log)["behind_ms_max"]
        if (sent := sum(end_offsets(self.brokers).values()) - before) != phase.count:
            raise SystemExit(f"{sent:,} of {phase.count:,} records are in the topic")

    def _watch(self, phase: Phase, load: subprocess.Popen[bytes]) -> None:
        before: dict[str, float] = {}
        since_s = 0.0
        while load.poll() is None:
            time.sleep(SAMPLE_S)
            passed_s = time.time() - phase.began_us / 1e6
            sent = min(phase.count, int(passed_s * phase.rate))
            phase.lags.append((passed_s, phase.first + sent - self.done()))
            if passed_s >= phase.warm_s and not before:
                before, since_s = self.cpu_s(), passed_s
            if before and passed_s > since_s:
                now = self.cpu_s()
                phase.cores = {
                    name: (now[name] - before[name]) / (passed_s - since_s) for name in now if now[name]
                } or phase.cores


def consumer(brokers: str) -> Consumer:
    """A consumer to look into topics with."""
    return Consumer({"bootstrap.servers": brokers, "group.id": "bench-look", "enable.auto.commit": False})


def end_offsets(brokers: str) -> dict[int, int]:
    """The end of each partition of the records' topic."""
    looking = consumer(brokers)
    try:
        return {p: looking.get_watermark_offsets(TopicPartition(STREAM, p), timeout=10)[1] for p in range(PARTITIONS)}
    finally:
        looking.close()


def _said(log: Path) -> dict[str, Any]:
    """The last whole line of JSON that the load wrote."""
    lines = [
        line for line in log.read_bytes().splitlines(keepends=True) if line.startswith(b"{") and line.endswith(b"\n")
    ]
    said: dict[str, Any] = orjson.loads(lines[-1]) if lines else {}
    return said


def measure(
    phases: Sequence[Phase],
    engine: Mapping[str, str],
    settings: Sequence[str],
    which: str = "kafka",
    *,
    avro: bool = False,
    behind: Sequence[str] = (),
    rewrites: bool = True,
) -> tuple[list[Phase], list[Mapping[str, Any]], Mapping[str, Any], list[str]]:
    """Run the phases until one is not kept up with; those run, the alerts, the pipeline's own figures, and remarks."""
    with ExitStack() as stack:
        folder = stack.enter_context(own_folder_for("bench"))
        broker = stack.enter_context(LocalBroker())
        registry = stack.enter_context(LocalRegistry()).url if avro else None
        broker.create_topic(STREAM, PARTITIONS)
        broker.create_topic("alerts")
        given = stack.enter_context(sink_setup(broker, which, behind, rewrites=rewrites))
        pipeline = write(folder / "pipeline", broker, given, registry, **engine)
        bench = Bench(folder, broker.brokers, registry)
        received, figures = folder / "received.jsonl", folder / "figures.json"
        scraper = None if given.watch_port is None else Scraper(given.watch_port)
        if scraper is not None:
            stack.enter_context(scraper.scraping())
        listening = stack.enter_context(
            process("bench.alert_listener", broker.brokers, "alerts", str(received), log=folder / "listen.log")
        )
        arguments = [str(pipeline), str(figures), "--serve", *(x for each in settings for x in ("--set", each))]
        run = []
        with process("bench.pipeline_process", *arguments, log=folder / "run.log") as running:
            await_start(bench, running, folder / "run.log")
            bench.processes |= {"pipeline": running.pid, "broker": broker.pid or 0, "consumer": listening.pid}
            bench.processes |= given.pids
            for phase in phases:
                say(f"{phase.rate:,} records/s for {phase.count / phase.rate:.0f} s")
                bench.send(phase)
                run.append(phase)
                if not keeps_up(phase):
                    break
            settle(bench, sum(phase.count for phase in run))
            time.sleep(SAMPLE_S)
        if not figures.exists():
            raise SystemExit(f"the pipeline failed:\n{(folder / 'run.log').read_text(encoding='utf-8')[-LOG_TAIL:]}")
        alerts = [
            orjson.loads(line) for line in received.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")
        ]
        remarks = [] if scraper is None else scraper.notes()
        return run, alerts, orjson.loads(figures.read_bytes()), remarks


def await_start(bench: Bench, running: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until the query has created its folder: then the session is ready."""
    deadline_s = time.monotonic() + START_S_MAX
    while not (bench.checkpoint / "metadata").exists():
        if running.poll() is not None or time.monotonic() > deadline_s:
            raise SystemExit(f"the pipeline did not start:\n{log.read_text(encoding='utf-8')[-LOG_TAIL:]}")
        time.sleep(0.2)


def settle(bench: Bench, records: int) -> None:
    """Until the pipeline has done all records, or for half a minute."""
    deadline_s = time.monotonic() + 30
    while bench.done() < records and time.monotonic() < deadline_s:
        time.sleep(0.2)


def keeps_up(phase: Phase) -> bool:
    """Whether the records waiting grew by less than a second's worth from the first to the last third of the phase."""
    lags = [lag for at_s, lag in phase.lags if at_s >= phase.warm_s and at_s <= phase.count / phase.rate]
    third = max(1, len(lags) // 3)
    return not lags or median(lags[-third:]) - median(lags[:third]) < phase.rate


def add_row(report: Report, phase: Phase, alerts: Sequence[Mapping[str, Any]]) -> None:
    """The row of one rate."""
    ms = []
    for alert in alerts:
        number = int(alert["record_id"][1:])
        if phase.measured(number):
            ms.append((alert["received_us"] - phase.due_us(number)) / 1e3)
    shown = {f"p{share:g}_ms": percentile(ms, share / 100) for share in (50, 90, 99, 99.9)} if ms else {}
    lags = [lag for at_s, lag in phase.lags if at_s >= phase.warm_s]
    report.add(
        records_per_s=phase.rate,
        seconds=round(phase.count / phase.rate - phase.warm_s),
        alerts=len(ms),
        **shown,
        max_ms=max(ms, default=None),
        lag_records_p50=median(lags) if lags else None,
        keeps_up="yes" if keeps_up(phase) else "no",
        load_behind_ms_max=phase.behind_ms,
        **{f"{name}_cores": round(cores, 2) for name, cores in phase.cores.items()},
    )


def waterfall(figures: Mapping[str, Any], phases: Sequence[Phase]) -> dict[str, Any]:
    """Median milliseconds of Spark's phases and of the tasks of a batch, by rate."""
    found = {}
    # Of a batch without a job Spark knows no records, of one that it does not plan nothing.
    taken = {each["batch"]: each["records"] for each in figures["batches"]}
    for phase in phases:
        start = datetime.fromtimestamp(phase.due_us(phase.first) / 1e6 + phase.warm_s, UTC)
        end = datetime.fromtimestamp(phase.due_us(phase.first + phase.count) / 1e6, UTC)
        in_time = [p for p in figures["progress"] if start <= datetime.fromisoformat(p["started"]) <= end]
        began_s = [(b, b["began_ms"] / 1e3) for b in figures["batches"] if b["records"]]
        batches = [b for b, at_s in began_s if start.timestamp() <= at_s <= end.timestamp()]
        ends_s = [b["ended_s"] for b in batches]
        found[str(phase.rate)] = {
            "batches": len(batches),
            "records_per_batch": median([b["records"] for b in batches]) if batches else None,
            "spark_ms": medians([p["ms"] for p in in_time if taken.get(p["batch"])]),
            "from_end_to_end_ms": medians([{"ms": 1e3 * (b - a)} for a, b in pairwise(ends_s)]),
            "batch_ms": medians([{**b["wall_ms"], **b["after_ms"]} for b in batches]),
            "tasks_together_ms": medians([b["spent_ms"] for b in batches]),
        }
    return found


def plan(rates: Sequence[int], seconds: float, warm_s: float, last_minutes: float) -> list[Phase]:
    """The phases, their records numbered on; the highest rate lasts ``last_minutes``."""
    phases: list[Phase] = []
    for rate in rates:
        first = phases[-1].first + phases[-1].count if phases else 0
        lasts_s = last_minutes * 60 if rate == max(rates) and rate >= 50_000 else seconds
        own_warm_s = warm_s if not phases else warm_s / 3
        phases.append(Phase(rate, first, int(rate * (own_warm_s + lasts_s)), own_warm_s))
    return phases


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rates", default="2000,5000,10000,20000,50000")
    parser.add_argument("--seconds", type=float, default=60, help="measured seconds of each rate")
    parser.add_argument(
        "--warm-s", type=float, default=60, help="warm-up before the first rate; a third of it before the others"
    )
    parser.add_argument("--minutes", type=float, default=5, help="measured minutes at 50,000 records/s")
    parser.add_argument("--trigger", default="0s")
    parser.add_argument("--in-process", choices=["auto", "never"], default="auto", help="the setting engine.in_process")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of Spark, to compare"
    )
    parser.add_argument("--sinks", choices=["kafka", "redis", "all"], default="kafka", help="sinks of the alerts")
    parser.add_argument("--behind", default="", help="kinds of sinks that no batch waits for, separated by commas")
    parser.add_argument("--no-rewrites", action="store_true", help="Redis does not rewrite its file meanwhile")
    parser.add_argument("--avro", action="store_true", help="send records as Avro; needs the files of the registry")
    parser.add_argument("--quick", action="store_true", help="only 2,000 records/s, 20 s after a warm-up of 30 s")
    options = parser.parse_args()
    rates = [2000] if options.quick else [int(rate) for rate in options.rates.split(",")]
    seconds, warm_s = (20.0, 30.0) if options.quick else (options.seconds, options.warm_s)
    report = Report(
        "latency",
        f"Kafka to an alert read by a consumer, R5, open loop, trigger {options.trigger}, all on this machine"
        + (", each batch a job of Spark's" if options.in_process == "never" else "")
        + (", all sinks" if options.sinks == "all" else "")
        + (f" ({options.behind} behind)" if options.behind else "")
        + (", Redis rewrites nothing" if options.no_rewrites else "")
        + (", Avro" if options.avro else ""),
    )
    phases, alerts, figures, remarks = measure(
        plan(rates, seconds, warm_s, options.minutes),
        {"trigger": options.trigger, "in_process": options.in_process},
        options.set,
        options.sinks,
        avro=options.avro,
        behind=options.behind.split(","),
        rewrites=not options.no_rewrites,
    )
    for phase in phases:
        add_row(report, phase, alerts)
    report.details["waterfall"] = waterfall(figures, phases)
    for rate, fall in report.details["waterfall"].items():
        each_ms = fall["from_end_to_end_ms"].get("ms", 0)
        records = fall["records_per_batch"] or 0
        report.notes.append(f"{fall['batches']:,} batches at {rate}/s, median {records:,.0f} records, {each_ms:.1f} ms")
        parts = ", ".join(f"{name} {ms:.0f}" for name, ms in fall["spark_ms"].items())
        report.notes.append(f"  those that Spark plans, with what follows them, median ms: {parts}")
        for name in ("batch_ms", "tasks_together_ms"):
            parts = ", ".join(f"{step} {ms:.1f}" for step, ms in fall[name].items())
            report.notes.append(f"  {name.removesuffix('_ms').replace('_', ' ')}: {parts}")
    report.notes += remarks
    report.notes.append(
        f"processors: {os.cpu_count()}; *_cores: processor seconds a second of each part with its children"
    )
    report.finish()


if __name__ == "__main__":
    main()
