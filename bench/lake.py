"""Measures the lake writer beside a run: ``python -m bench.lake [--minutes N] [--rate N] [--commit-every S]``.

A pipeline of R1 judges payments at ``--rate`` records a second, which are appended to a file, and starts the writer as
users do. The report
has one row a minute: processor time of the writer as a share of one core, rows, files, bytes and snapshots of the
records' table, the time of a scan of one key over all records, and the lag: records that were judged and are not in the
lake. At the end the run stops, and the rows are counted against the records that it judged.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import psutil
import yaml

from bench.report import Report, say
from crossline.generate.source import read_source
from crossline.lake.catalog import open_lake
from crossline.lake.reading import LakeReader
from crossline.lake.row_filters import equal
from crossline.rule_registry.content import read_pipeline_in_place
from crossline.runtime.machine.temporary_folders import own_folder_for

TX = Path(__file__).parents[1] / "examples" / "tx"
START_S_MAX = 300.0
END_S_MAX = 600.0
POLL_S = 0.2
FEED_S = 0.2
SETTLE_S = 5.0
SHARE_MAX = 3.0  # percent of a core, at 5,000 records a second


def write_project(folder: Path, commit_every_s: int) -> Path:
    """The pipeline file of a project with R1 over files."""
    rules = folder / "rules"
    for each in (rules, folder / "in"):
        each.mkdir()
    (rules / "rules.yaml").write_text((TX / "r1.yaml").read_text())
    streams = yaml.safe_load((TX / "stream.yaml").read_text())
    (name,) = streams["streams"]
    pipeline = folder / "pipeline.yaml"
    settings: dict[str, Any] = {
        "schema_version": 1,
        "name": "lakebench",
        "streams": streams["streams"],
        "sources": {name: {"kind": "files", "path": "in/*.jsonl"}},
        "rules": {"kind": "directory", "path": "rules"},
        "sinks": [{"kind": "sqlite", "path": "out/alerts.db"}],
        "engine": {"checkpoint": "out/checkpoint"},
        "lake": {"commit_every": f"{commit_every_s}s"},
    }
    pipeline.write_text(yaml.safe_dump(settings))
    return pipeline


class Feeder(threading.Thread):
    """Appends ``rate`` generated records a second to a file, until it is stopped."""

    def __init__(self, path: Path, rate: int) -> None:
        super().__init__(name="feeder", daemon=True)
        self._path = path
        self._rate = rate
        self._stop_event = threading.Event()
        self.records = 0

    def run(self) -> None:
        """Write what is due every 200 ms."""
        source = read_source({"workload": "tx", "seed": 1})
        began_s = time.monotonic()
        with self._path.open("ab") as file:
            while not self._stop_event.wait(FEED_S):
                due = int((time.monotonic() - began_s) * self._rate)
                file.write(source.lines(self.records, due - self.records))
                file.flush()
                self.records = due

    def stop(self) -> None:
        """Stop, and wait for the last record."""
        self._stop_event.set()
        self.join()


def writer_of(run: psutil.Process) -> psutil.Process | None:
    """The lake writer beside a run."""
    for child in run.children():
        try:
            if "lake" in child.cmdline():
                return child
        except psutil.Error:
            continue
    return None


def cpu_s(process: psutil.Process) -> float:
    """Processor seconds of a process so far."""
    spent = process.cpu_times()
    return float(spent.user + spent.system)


def measure(folder: Path, minutes: int, rate: int, commit_every_s: int) -> Report:
    """Run for ``minutes`` after the first commit."""
    report = Report(
        "lake", f"The lake writer beside a run of R1 at {rate:,} records/s, commits every {commit_every_s} s"
    )
    pipeline = write_project(folder, commit_every_s)
    feeder = Feeder(folder / "in" / "payments.jsonl", rate)
    feeder.start()
    (stream,) = read_pipeline_in_place(pipeline).streams
    with (folder / "run.log").open("wb") as log:
        run = psutil.Popen([sys.executable, "-m", "crossline", "run", str(pipeline)], stdout=log, stderr=log)
    try:
        config = read_pipeline_in_place(pipeline)
        deadline_s = time.monotonic() + START_S_MAX
        while (writer := writer_of(run)) is None or not _rows(config, stream):
            if run.poll() is not None or time.monotonic() > deadline_s:
                raise SystemExit(f"the run did not start: {(folder / 'run.log').read_text()[-2000:]}")
            time.sleep(POLL_S)
        reader = LakeReader(open_lake(config), config)
        for minute in range(1, minutes + 1):
            before_s, began_s = cpu_s(writer), time.monotonic()
            time.sleep(60)
            took_s = time.monotonic() - began_s
            report.add(minute=minute, **_sample(reader, stream, 100 * (cpu_s(writer) - before_s) / took_s))
            say(f"minute {minute}")
    finally:
        feeder.stop()
        time.sleep(SETTLE_S)  # the run reads what is there
        run.terminate()
        try:
            run.wait(END_S_MAX)
        except subprocess.TimeoutExpired:
            run.kill()
    _count(report, config, stream, feeder.records, (folder / "run.log").read_text())
    return report


def _rows(config: Any, stream: str) -> int:
    reader = LakeReader(open_lake(config), config)
    return sum(status.rows for status in reader.status() if status.name == f"records_{stream}")


def _sample(reader: LakeReader, stream: str, share: float) -> dict[str, Any]:
    (status,) = (each for each in reader.status() if each.name == f"records_{stream}")
    began_s = time.perf_counter()
    reader.records(stream, [equal("account_id", "a0000018")], ("_record_id",))
    return {
        "writer_percent": round(share, 2),
        "rows": status.rows,
        "files": status.files,
        "mib": round(status.size / 2**20, 1),
        "snapshots": status.snapshots,
        "scan_ms": round(1e3 * (time.perf_counter() - began_s)),
    }


def _count(report: Report, config: Any, stream: str, written: int, log: str) -> None:
    rows = _rows(config, stream)
    report.notes.append(f"{written:,} records were written to the file, {rows:,} are in the lake after the end")
    report.details["log"] = log[-4_000:]
    kept = [row["writer_percent"] for row in report.rows]
    mean = sum(kept) / max(1, len(kept))
    report.notes.append(f"the writer took {mean:.2f} % of a core on average (asked: at most {SHARE_MAX:g} %)")


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=int, default=10)
    parser.add_argument("--rate", type=int, default=5_000)
    parser.add_argument("--commit-every", type=int, default=60)
    given = parser.parse_args()
    with own_folder_for("bench") as folder:
        measure(folder, given.minutes, given.rate, given.commit_every).finish()


if __name__ == "__main__":
    main()
