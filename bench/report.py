"""The report of a measurement: a table on stdout, and JSON in ``bench/results`` with machine, versions and commit."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

BENCH = Path(__file__).parent
RESULTS = BENCH / "results"
PACKAGES = ("pyspark", "pyarrow", "numba", "numpy", "pandas", "orjson", "confluent-kafka")

Row = Mapping[str, Any]


def machine() -> dict[str, Any]:
    """Processor, cores and memory."""
    lines = _lines("/proc/cpuinfo")
    model = next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine()
    )
    kib = next((int(line.split()[1]) for line in _lines("/proc/meminfo") if line.startswith("MemTotal")), 0)
    return {
        "processor": model,
        "cores": os.cpu_count(),
        "memory_gib": round(kib / 2**20, 1),
        "system": platform.platform(),
    }


def versions() -> dict[str, str]:
    """Python, and the packages that figures depend on."""
    return {"python": platform.python_version(), **{name: importlib.metadata.version(name) for name in PACKAGES}}


def commit() -> str:
    """The commit that was measured, with ``+`` where files differ from it."""
    done = subprocess.run(
        ["git", "describe", "--always", "--abbrev=12", "--dirty=+", "--exclude=*"],  # noqa: S607 - the user's git
        cwd=BENCH,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip() or "unknown"


@dataclass(slots=True)
class Report:
    """The result of one measurement: ``rows`` are the table, ``details`` are in the JSON only, ``notes`` in both."""

    name: str
    title: str
    rows: list[Row] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    details: dict[str, Any] = field(default_factory=dict)
    load_before: tuple[float, float, float] = field(default_factory=os.getloadavg)
    began: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))

    def add(self, **row: Any) -> None:
        """One more row."""
        self.rows.append(row)

    def finish(self) -> Path:
        """Print the table, write the JSON; its path is returned."""
        after = os.getloadavg()
        print(f"\n{self.title}")
        print(table_text(self.rows))
        for note in self.notes:
            print(f"  {note}")
        print(f"  load average before {self.load_before[0]:.1f}, after {after[0]:.1f}; commit {commit()}")
        RESULTS.mkdir(exist_ok=True)
        path = RESULTS / f"{self.name}.json"
        body = {
            "measurement": self.name,
            "title": self.title,
            "began": self.began,
            "ended": datetime.now(UTC).isoformat(timespec="seconds"),
            "machine": machine(),
            "versions": versions(),
            "commit": commit(),
            "arguments": sys.argv[1:],
            "load_average": {"before": self.load_before, "after": after},
            "rows": self.rows,
            "notes": self.notes,
            **self.details,
        }
        path.write_text(json.dumps(body, indent=1, default=str) + "\n", encoding="utf-8")
        return path


def table_text(rows: Sequence[Row]) -> str:
    """Rows under the names of their columns, numbers to the right."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    cells = [[_cell(row.get(name)) for name in names] for row in rows]
    widths = [max(len(name), *(len(line[i]) for line in cells)) for i, name in enumerate(names)]
    left = [any(isinstance(row.get(name), str) for row in rows) for name in names]
    lines = [names, ["-" * width for width in widths], *cells]
    return "\n".join(
        "  ".join(
            text.ljust(width) if to_left else text.rjust(width)
            for text, width, to_left in zip(line, widths, left, strict=True)
        ).rstrip()
        for line in lines
    )


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:,.1f}" if abs(value) >= 10 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def percentile(values: Iterable[float], share: float) -> float:
    """The smallest value that at least ``share`` (0 to 1) of all are not above."""
    ordered = sorted(values)
    return ordered[max(0, -(-int(share * 1_000_000 * len(ordered)) // 1_000_000) - 1)]


def median(values: Sequence[float]) -> float:
    """The middle value."""
    return statistics.median(values)


def say(text: str) -> None:
    """A line of progress, on stderr."""
    sys.stderr.write(f"  {text}\n")
    sys.stderr.flush()


def _lines(path: str) -> list[str]:
    file = Path(path)
    return file.read_text(encoding="utf-8").splitlines() if file.exists() else []
