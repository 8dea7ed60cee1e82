"""What repeated measurements share: the rounds, their row in the report, and the command line."""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.report import Report, percentile

TARGET_MS = 200.0


def rounds_ms(ask: Callable[[], object], rounds: int) -> list[float]:
    """Milliseconds of each of ``rounds`` calls, after one that is not counted."""
    ask()
    spent = []
    for _ in range(rounds):
        began = time.perf_counter()
        ask()
        spent.append(1_000 * (time.perf_counter() - began))
    return spent


def add_times(report: Report, times_ms: list[float], target_ms: float | None = None, **row: Any) -> None:
    """A row with the percentiles of ``times_ms``; with a target, whether it is kept."""
    p50, p99 = (round(percentile(times_ms, share), 2) for share in (0.5, 0.99))
    kept = {} if target_ms is None else {"kept": p99 <= target_ms}
    report.add(**row, p50_ms=p50, p99_ms=p99, max_ms=round(max(times_ms), 1), **kept)


def parser_of(doc: str | None, alerts: int, rounds: int) -> argparse.ArgumentParser:
    """With the options that all such measurements have."""
    parser = argparse.ArgumentParser(description=doc)
    parser.add_argument("--alerts", type=int, default=alerts)
    parser.add_argument(
        "--folder", type=Path, help="folder of the data, created if missing; by default a temporary one"
    )
    parser.add_argument("--rounds", type=int, default=rounds)
    return parser


@contextmanager
def folder_of(given: Path | None, name: str) -> Iterator[Path]:
    """``given``, or one that is removed at the end."""
    if given is not None:
        yield given
        return
    with tempfile.TemporaryDirectory(prefix=f"crossline-{name}-") as made:
        yield Path(made)
