"""Measures the lake writer beside a run: ``python -m bench.lake [--minutes N] [--rate N] [--commit-every S]``.

A pipeline of R1 judges payments at ``--rate`` records a second, which are appended to a file, and ``crossline lake
write`` follows it with the priority that it has beside a run. The report has one row a minute: processor time of the
writer as a share of one core, rows, files, manifests and snapshots of the records' table, the slowest commit, and how
long planning and reading take for two questions of an analyst: the payments of an account, and all alerts, of the last
``--window`` minutes. At the end the run stops, and the rows are counted against the records of its committed batches.

``--commit-every 15 --maintain-every 300 --minutes 60`` has as many commits as four hours of the defaults.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import IO, Any

import orjson
import psutil
import yaml

from bench.report import Report, say
from crossline.generate.source import read_source
from crossline.io.files.listing import ChunkList
from crossline.lake.catalogs.catalog import open_lake
from crossline.lake.reading import LakeReader
from crossline.lake.tables.row_filters import all_of, between, equal
from crossline.lake.tables.table_layouts import records_table
from crossline.rule_registry.content import read_pipeline_in_place
from crossline.runtime.machine.temporary_folders import own_folder_for
from crossline.runtime.snapshot.checkpoint import LAKE
from crossline.runtime.snapshot.spark_log import last_committed, offsets_of

TX = Path(__file__).parents[1] / "examples" / "tx"
START_S_MAX = 300.0
END_S_MAX = 600.0
POLL_S = 0.2
FEED_S = 0.2
SETTLE_S = 5.0
NICE = 10  # as beside a run
PIECE_BYTES = 1 << 24
ASKED = 5  # how often a question is asked for one row
MS_PER_MINUTE = 60_000
SHARE_MAX = 3.0  # percent of a core, at 5,000 records a second
ACCOUNT = "a0000018"


@dataclass(frozen=True, slots=True)
class Load:
    """What is measured: for how long, how many records a second, how often the writer commits and maintains."""

    minutes: int
    rate: int
    commit_every_s: int
    maintain_every_s: int
    window_minutes: int


def write_project(folder: Path, load: Load) -> Path:
    """The pipeline file of a project with R1 over files."""
    rules = folder / "rules"
    for each in (rules, folder / "in"):
        each.mkdir()
    (rules / "rules.yaml").write_text((TX / "r1.yaml").read_text())
    streams = yaml.safe_load((TX / "stream.yaml").read_text())
    (name,) = streams["streams"]
    pipeline = folder / "pipeline.yaml"
    every = {"commit_every": f"{load.commit_every_s}s", "maintain_every": f"{load.maintain_every_s}s"}
    settings: dict[str, Any] = {
        "schema_version": 1,
        "name": "lakebench",
        "streams": streams["streams"],
        "sources": {name: {"kind": "files", "path": "in/*.jsonl"}},
        "rules": {"kind": "directory", "path": "rules"},
        "sinks": [{"kind": "sqlite", "path": "out/alerts.db"}],
        "engine": {"checkpoint": "out/checkpoint"},
        "lake": {"writer": False, **every},
    }
    pipeline.write_text(yaml.safe_dump(settings))
    return pipeline


class Feeder:
    """A process that appends ``rate`` generated records a second to a file, with event times of now."""

    def __init__(self, path: Path, rate: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._stop_event = context.Event()
        self._process = context.Process(target=feed, args=(path, rate, self._stop_event), daemon=True)
        self._path = path

    def start(self) -> None:
        """Begin."""
        self._process.start()

    def stop(self) -> None:
        """Stop, and wait for the last record."""
        self._stop_event.set()
        self._process.join()

    def records(self, upto: int | None = None) -> int:
        """How many records were written, before byte ``upto`` of the file."""
        left = self._path.stat().st_size if upto is None else upto
        found = 0
        with self._path.open("rb") as file:
            while left and (piece := file.read(min(left, PIECE_BYTES))):
                found, left = found + piece.count(b"\n"), left - len(piece)
        return found


def feed(path: Path, rate: int, stop: Event) -> None:
    """Write what is due every 200 ms."""
    base_ms = time.time_ns() // 1_000_000
    source = read_source({"workload": "tx", "seed": 1, "rate_per_s": rate, "base_ms": base_ms})
    began_s, records = time.monotonic(), 0
    with path.open("ab") as file:
        while not stop.wait(FEED_S):
            due = int((time.monotonic() - began_s) * rate)
            file.write(source.lines(records, due - records))
            file.flush()
            records = due


class Commits:
    """The commits that the writer has reported since the last question."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._at = 0

    def slowest_ms(self) -> list[int]:
        """Of each slice, the slowest commit of a table."""
        with self._path.open("rb") as file:
            file.seek(self._at)
            lines = [line for line in file if line.endswith(b"\n")]
        self._at += sum(map(len, lines))
        return [max(took.values()) for line in lines if (took := orjson.loads(line)["commit_ms"])]


def cpu_s(process: psutil.Process) -> float:
    """Processor seconds of a process so far."""
    spent = process.cpu_times()
    return float(spent.user + spent.system)


def start(arguments: list[str], out: IO[bytes], errors: IO[bytes]) -> psutil.Popen:
    """A command of crossline."""
    return psutil.Popen([sys.executable, "-m", "crossline", *arguments], stdout=out, stderr=errors)


def measure(folder: Path, load: Load) -> Report:
    """Run for ``minutes`` after the first commit."""
    title = f"The lake writer beside a run of R1 at {load.rate:,} records/s, commits every {load.commit_every_s} s"
    report = Report("lake", f"{title}, maintenance every {load.maintain_every_s} s")
    pipeline = write_project(folder, load)
    feeder = Feeder(folder / "in" / "payments.jsonl", load.rate)
    feeder.start()
    config = read_pipeline_in_place(pipeline)
    (stream,) = config.streams
    written = folder / "written.jsonl"
    with (folder / "run.log").open("wb") as log, written.open("wb") as out:
        run = start(["run", str(pipeline)], log, log)
        writer = start(["lake", "write", str(pipeline), "--json"], out, log)
        writer.nice(NICE)
    try:
        reader = LakeReader(open_lake(config), config)
        deadline_s = time.monotonic() + START_S_MAX
        while not _rows(reader, stream):
            if run.poll() is not None or writer.poll() is not None or time.monotonic() > deadline_s:
                raise SystemExit(f"the run did not start: {(folder / 'run.log').read_text()[-2000:]}")
            time.sleep(POLL_S)
        commits = Commits(written)
        for minute in range(1, load.minutes + 1):
            before_s, began_s = cpu_s(writer), time.monotonic()
            time.sleep(60)
            share = 100 * (cpu_s(writer) - before_s) / (time.monotonic() - began_s)
            report.add(minute=minute, writer_percent=round(share, 2), **_sample(reader, stream, commits, load))
            say(f"minute {minute}: {report.rows[-1]}")
    finally:
        feeder.stop()
        time.sleep(SETTLE_S)  # the run reads what is there
        report.details["exit_codes"] = {"run": _end(run), "writer": _end(writer)}
    report.details["last_slice"] = written.read_text().splitlines()[-1]
    report.details["spooled"] = sorted(each.name for each in (folder / "out" / "checkpoint" / LAKE).iterdir())
    report.details["log"] = (folder / "run.log").read_text()[-4_000:]
    judged = feeder.records(_judged_bytes(folder / "out" / "checkpoint", stream))
    _count(report, feeder.records(), judged, _rows(reader, stream))
    return report


def _end(process: psutil.Popen) -> int | None:
    """Stop a process, and wait for it; its exit code, None: it was killed."""
    process.terminate()
    try:
        return int(process.wait(END_S_MAX))
    except (psutil.TimeoutExpired, subprocess.TimeoutExpired):
        process.kill()
        return None


def _rows(reader: LakeReader, stream: str) -> int:
    return sum(status.rows for status in reader.status() if status.name == records_table(stream))


def _sample(reader: LakeReader, stream: str, commits: Commits, load: Load) -> dict[str, Any]:
    """One row of the report, but for the writer's share."""
    (table,) = (each for each in reader.tables() if each.layout.name == records_table(stream))
    (status,) = (each for each in reader.status() if each.name == records_table(stream))
    snapshot = table.table.current_snapshot()
    now_ms = time.time_ns() // 1_000_000
    since_ms = now_ms - load.window_minutes * MS_PER_MINUTE
    account = [equal("account_id", ACCOUNT), between("_event_time", since_ms, now_ms)]
    alerts = [between("event_time", since_ms, now_ms)]
    slowest = commits.slowest_ms()
    return {
        "rows": status.rows,
        "files": status.files,
        "manifests": 0 if snapshot is None else len(snapshot.manifests(table.table.io)),
        "snapshots": status.snapshots,
        "mib": round(status.size / 2**20, 1),
        "commit_ms": round(statistics.median(slowest)) if slowest else None,
        "commit_ms_max": max(slowest, default=None),
        **_timed("plan", lambda: list(table.table.scan(row_filter=all_of(account)).plan_files())),
        **_timed("account", lambda: reader.records(stream, account, ("_record_id",))),
        **_timed("alerts", lambda: reader.rows("alerts", alerts, ("alert_id",))),
        "load": round(os.getloadavg()[0], 1),
    }


def _timed(name: str, ask: Callable[[], object]) -> dict[str, int]:
    """The median time of a question in milliseconds, and of the processors, which other load changes less."""
    took: list[tuple[float, float]] = []
    for _ in range(ASKED):
        began_s, began_cpu_s = time.perf_counter(), time.process_time()
        ask()
        took.append((time.perf_counter() - began_s, time.process_time() - began_cpu_s))
    wall_s, cpu = (statistics.median(each) for each in zip(*took, strict=True))
    return {f"{name}_ms": round(1e3 * wall_s), f"{name}_cpu_ms": round(1e3 * cpu)}


def _judged_bytes(checkpoint: Path, stream: str) -> int:
    """Where the committed batches of the run end in the file; a batch that it did not commit is judged again."""
    (offsets,) = offsets_of(str(checkpoint), last_committed(str(checkpoint)))
    listed = ChunkList(str(checkpoint / "sources" / stream))
    listed.refresh()
    return listed.chunks(0, offsets["chunk"])[-1].end if offsets else 0


def _count(report: Report, written: int, judged: int, rows: int) -> None:
    report.notes.append(
        f"{written:,} records were written to the file, {judged:,} are in committed batches, {rows:,} are in the lake"
    )
    kept = [row["writer_percent"] for row in report.rows]
    mean = sum(kept) / max(1, len(kept))
    report.notes.append(f"the writer took {mean:.2f} % of a core on average (asked: at most {SHARE_MAX:g} %)")


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=int, default=10)
    parser.add_argument("--rate", type=int, default=5_000)
    parser.add_argument("--commit-every", type=int, default=60)
    parser.add_argument("--maintain-every", type=int, default=3_600)
    parser.add_argument("--window", type=int, default=10)
    given = parser.parse_args()
    load = Load(given.minutes, given.rate, given.commit_every, given.maintain_every, given.window)
    with own_folder_for("bench") as folder:
        measure(folder, load).finish()


if __name__ == "__main__":
    main()
