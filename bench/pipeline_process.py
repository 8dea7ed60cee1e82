"""Runs one pipeline in this process, as ``crossline run`` does, and writes its measurements.

``python -m bench.pipeline_process PIPELINE OUT [--records N | --serve]``. Each run has a process of its own, so no run
profits from the run before.
"""

from __future__ import annotations

import argparse
import signal
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import psutil

from crossline.io.sinks.base import Delivery
from crossline.observe.watch.run_watch import RunWatch as Pages
from crossline.runtime.machine.freed_memory import DRIVER_ARENAS, keep_freed_memory
from crossline.runtime.machine.garbage import OBJECTS_AT_START, collect_seldom
from crossline.runtime.machine.thread_turns import take_short_turns
from crossline.runtime.pipeline import pipeline
from crossline.runtime.pipeline.assemble import RunOptions, assemble, clocks_of, read_config
from crossline.runtime.pipeline.pipeline import Pipeline
from crossline.runtime.spark.session import build_session, wake_workers
from crossline.runtime.work.totals import Totals
from crossline.settings.config import in_folder

USAGE_EVERY_S = 0.5  # looking at all processes takes milliseconds, which a small batch would feel


@dataclass(slots=True)
class Watch:
    """Notes each batch as it ends: time, processor time and memory of this process and all below it."""

    own: psutil.Process = field(default_factory=psutil.Process)
    batches: list[dict[str, Any]] = field(default_factory=list)
    seen_s: float = 0.0
    seen: dict[str, Any] = field(default_factory=dict)
    pages: Pages | None = None

    def batch(self, delivery: Delivery, totals: Totals) -> None:
        """A batch was delivered."""
        if self.pages is not None:
            self.pages.batch(delivery, totals)
        now_s = time.monotonic()
        if not self.batches or now_s - self.seen_s >= USAGE_EVERY_S:
            self.seen_s, self.seen = now_s, self.usage()
        self.batches.append(
            {
                "batch": delivery.batch_id,
                "ended_s": now_s,
                "usage_s": self.seen_s,
                "alerts": len(delivery.alerts),
                "records_so_far": totals.records,
                "after_ms": totals.after_ms,
                **delivery.figures,
                **self.seen,
            }
        )

    def usage(self) -> dict[str, Any]:
        """Seconds of processor time so far and resident bytes now, of Java, of the Python workers, of this process."""
        cpu = {"java": 0.0, "workers": 0.0, "driver": 0.0}
        rss = dict.fromkeys(cpu, 0)
        for process in [self.own, *self.own.children(recursive=True)]:
            try:
                times, memory, name = process.cpu_times(), process.memory_info().rss, process.name()
            except psutil.NoSuchProcess:
                continue
            kind = "driver" if process.pid == self.own.pid else "java" if name == "java" else "workers"
            cpu[kind] += times.user + times.system
            if kind == "workers":
                cpu[kind] += times.children_user + times.children_system
            rss[kind] += memory
        return {"cpu_s": cpu, "rss_bytes": rss}


def progress_of(query: Any) -> list[dict[str, Any]]:
    """Spark's own figures of the last batches: rows and milliseconds by phase."""
    return [
        {"batch": p.batchId, "rows": p.numInputRows, "started": p.timestamp, "ms": dict(p.durationMs)}
        for p in query.recentProgress
    ]


def session(config: Any, given: list[str]) -> Any:
    """The session that ``crossline run`` makes, with ``given`` settings (NAME=VALUE) on top."""
    settings = {"spark.sql.streaming.numRecentProgressUpdates": "2000"}
    return build_session(
        config.name,
        config.engine.master,
        settings=settings | dict(config.engine.spark) | dict(text.split("=", 1) for text in given),
    )


def finish(running: Pipeline, options: argparse.Namespace) -> Totals:
    """Run up to the given number of records."""
    if options.serve:
        # As in ``crossline run``: this thread is in a call to Spark when the signal comes.
        stop = threading.Thread(target=running.stop, name="stop")
        signal.signal(signal.SIGTERM, lambda *_: stop.start())
        totals = running.wait()
        running.stop()
        return totals
    return running.drain() if options.records is None else running.run_until(options.records)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pipeline", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--records", type=int, help="stop after this number of records")
    parser.add_argument("--serve", action="store_true", help="run until SIGTERM")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of Spark, to compare"
    )
    parser.add_argument("--no-placement", action="store_true", help="shards go to any free executor, to compare")
    options = parser.parse_args()
    collect_seldom(OBJECTS_AT_START)  # as the command does
    take_short_turns()
    keep_freed_memory(arenas_max=DRIVER_ARENAS)
    if options.no_placement:
        pipeline.shard_placement_of = lambda *_: None  # type: ignore[assignment]
        options.set.append("spark.locality.wait.process=0")
    began_s = time.monotonic()
    config = in_folder(read_config(str(options.pipeline)), str(options.pipeline.parent.absolute()))
    spark = session(config, options.set)
    wake_workers(spark)
    watch = Watch(pages=None if config.watch is None else Pages(config.watch, config.name, clocks_of(config)))
    started_s = time.monotonic()
    before = watch.usage()
    reported = None if watch.pages is None else watch.pages.figures
    running = assemble(spark, config, RunOptions(complete=not options.serve, on_batch=watch.batch, sink_watch=reported))
    if watch.pages is not None:
        watch.pages.follow(running)
    running.start()
    query = spark.streams.active[0]
    totals = finish(running, options)
    watch.batches[-1:] = [{**last, "usage_s": time.monotonic(), **watch.usage()} for last in watch.batches[-1:]]
    result = {
        "began_s": began_s,
        "started_s": started_s,
        "before": before,
        "batches": watch.batches,
        "progress": progress_of(query),
        "records": totals.records,
        "alerts": totals.alerts,
        "dead": totals.dead,
        "late": totals.late,
    }
    if watch.pages is not None:
        watch.pages.close()
    options.out.write_bytes(orjson.dumps(result, option=orjson.OPT_INDENT_2))
    spark.stop()


if __name__ == "__main__":
    main()
