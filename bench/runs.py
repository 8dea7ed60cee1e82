"""Runs of a pipeline in a process of its own, and the figures that every measurement reads from them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from bench.report import median
from bench.workload import Rules, write_pipeline
from crossline.runtime.java.child_processes import end_with_parent
from crossline.runtime.machine.temporary_folders import own_folder_for

ROOT = Path(__file__).parent.parent
LOG_TAIL = 3_000


@dataclass(frozen=True, slots=True)
class Run:
    """One run of ``bench.pipeline_process``; times in seconds on one clock."""

    figures: Mapping[str, Any]

    @property
    def batches(self) -> list[dict[str, Any]]:
        """What was noted at the end of each batch."""
        return list(self.figures["batches"])

    @property
    def records(self) -> int:
        """Records judged."""
        return int(self.figures["records"])

    @property
    def alerts(self) -> int:
        """Alerts of all rules."""
        return sum(self.figures["alerts"].values())

    def whole_rate(self) -> float:
        """Records a second from the start of the query, the session being up, to the end of the last batch."""
        return float(self.records / (self.batches[-1]["ended_s"] - self.figures["started_s"]))

    def steady_rate(self) -> float:
        """Records a second after the first batch, which starts Python's workers and loads the kernels."""
        first, last = self.batches[0], self.batches[-1]
        if first is last:
            return self.whole_rate()
        return float((self.records - first["records_so_far"]) / (last["ended_s"] - first["ended_s"]))

    def cpu_us_per_record(self) -> dict[str, float]:
        """Processor time a record after the first batch, by kind of process, and their sum."""
        first, last = self.batches[0], self.batches[-1]
        if first is last:
            first = {"records_so_far": 0, **self.figures["before"]}
        records = self.records - first["records_so_far"]
        by_kind = {
            kind: (last["cpu_s"][kind] - first["cpu_s"][kind]) * 1e6 / records for kind in ("java", "workers", "driver")
        }
        return {**by_kind, "all": sum(by_kind.values())}

    def phases_ms(self) -> dict[str, float]:
        """Median milliseconds of Spark's phases of a batch, the first left out."""
        return medians([progress["ms"] for progress in self.figures["progress"][1:]])

    def spent_ms(self) -> dict[str, float]:
        """Median milliseconds that the tasks of a batch spent by step, together; the first batch left out."""
        return medians([batch["spent_ms"] for batch in self.batches[1:]])


def medians(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The median of every name that occurs."""
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: median([row[name] for row in rows if name in row]) for name in names}


def run_pipeline(
    rules: Rules,
    source: Mapping[str, Any],
    *,
    engine: Mapping[str, Any] | None = None,
    records: int | None = None,
    arguments: Sequence[str] = (),
) -> Run:
    """Run a pipeline of its own over ``source`` until all, or ``records`` records, are judged."""
    with own_folder_for("bench") as folder:
        pipeline = write_pipeline(folder / "p", rules, source, engine=engine)
        out = folder / "figures.json"
        until = ["--records", str(records)] if records is not None else []
        run_child([str(pipeline), str(out), *until, *arguments])
        return Run(orjson.loads(out.read_bytes()))


def run_child(arguments: Sequence[str], module: str = "bench.pipeline_process") -> None:
    """Run a module of the measurements; its output is in the error if it fails."""
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        env=environment(),
        preexec_fn=end_with_parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise SystemExit(f"{module} failed:\n{done.stdout[-LOG_TAIL:]}")


def environment() -> dict[str, str]:
    """The environment of a child: it finds this package."""
    path = os.environ.get("PYTHONPATH", "")
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [path, str(ROOT)]))}


def as_installed() -> dict[str, str]:
    """The same, in which Python may keep what it has compiled, as a user's does."""
    return {name: value for name, value in environment().items() if name != "PYTHONDONTWRITEBYTECODE"}


def spread(values: Sequence[float]) -> str:
    """Lowest to highest, in thousands."""
    return f"{min(values) / 1e3:,.1f}-{max(values) / 1e3:,.1f}"
