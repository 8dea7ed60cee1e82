"""The start-up time of commands: what they import, and when ``run`` and ``demo`` show their first alert.

``python -m bench.startup [--rounds N] [--only "NAME;NAME"] [--cold] [--quick]``. The commands take turns, so that load
on the machine affects all of them. The first round, in which the system reads the files, does not count. ``run`` is
that of the project which ``crossline init`` writes (24 records), from the command to the first line of its alerts.

``--cold`` also measures once the processor seconds of all processes of ``crossline demo``, from the command to the
first alert that it shows, with an empty folder of compiled kernels (``NUMBA_CACHE_DIR``).
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from bench.report import Report
from bench.runs import ROOT, as_installed
from crossline.runtime.java.child_processes import end_with_parent
from crossline.runtime.machine.temporary_folders import own_folder_for

TX = ROOT / "examples" / "tx"
RECORDS = 10_000
TARGETS_S = {
    "--help": 0.2,
    "rules check": 0.3,
    "alerts list": 0.4,
    "backtest, one record": 0.7,
    "rules test, 10,000 records": 0.9,
    "run, to the first alert": 5.0,
}
COLD_TARGET_S = 60.0
COLD = "demo, to the first alert, no kernel compiled"
FIRST_ALERT_MAX_S = 600.0
_TICK_S = 0.01
_CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
_CROSSLINE = [sys.executable, "-m", "crossline"]


@dataclass(frozen=True, slots=True)
class Spent:
    """Seconds from the command to its end, or to the first alert; of the processors, those of all its processes."""

    wall_s: float
    processor_s: float


def crossline(*arguments: object) -> str:
    """Run a command to its end; what it printed. Raises SystemExit where it fails."""
    done = subprocess.run(
        [*_CROSSLINE, *map(str, arguments)], env=as_installed(), check=False, capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(f"crossline {' '.join(map(str, arguments))} failed:\n{done.stderr[-3_000:]}")
    return done.stdout


def to_end(*arguments: object) -> Spent:
    """A command from its start to its end."""
    before, began = _children_s(), time.perf_counter()
    crossline(*arguments)
    return Spent(time.perf_counter() - began, _children_s() - before)


def to_first_alert(arguments: Sequence[object], shown: Path, alerts: Path, environment: dict[str, str]) -> Spent:
    """A command from its start to the first line in the file ``alerts``; its output goes to ``shown``, then it ends."""
    began = time.perf_counter()
    with shown.open("wb") as out, _stopped([*_CROSSLINE, *map(str, arguments)], environment, out) as process:
        while not (alerts.is_file() and alerts.stat().st_size):
            if process.poll() is not None or time.perf_counter() - began > FIRST_ALERT_MAX_S:
                raise SystemExit(f"crossline {arguments[0]} ended, or took {FIRST_ALERT_MAX_S:.0f} s, without an alert")
            time.sleep(_TICK_S)
        return Spent(time.perf_counter() - began, tree_processor_s(process.pid))


@contextmanager
def _stopped(command: Sequence[str], environment: dict[str, str], out: BinaryIO) -> Iterator[subprocess.Popen[bytes]]:
    """The running command, which is asked to stop at the end, and waited for."""
    quiet = subprocess.DEVNULL
    with subprocess.Popen(
        command,
        env=environment,
        stdin=quiet,
        stdout=out,
        stderr=quiet,
        preexec_fn=end_with_parent,  # noqa: PLW1509 - there are no threads
    ) as process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)


def _children_s() -> float:
    used = os.times()
    return used.children_user + used.children_system


def tree_processor_s(pid: int) -> float:
    """Processor seconds of a process, of those below it, and of those of them that ended and were waited for."""
    parents, spent = {}, {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it ended
            continue
        number = int(stat.parent.name)
        parents[number] = int(fields[1])
        spent[number] = sum(map(int, fields[11:15])) / _CLOCK_TICKS
    return sum(seconds for number, seconds in spent.items() if number == pid or _is_below(number, pid, parents))


def _is_below(number: int, pid: int, parents: dict[int, int]) -> bool:
    while number in parents:
        number = parents[number]
        if number == pid:
            return True
    return False


def commands_in(folder: Path) -> dict[str, Callable[[], Spent]]:
    """What is measured, by the names of ``TARGETS_S``; what they read is made in ``folder``."""
    some, one, project = folder / "some.jsonl", folder / "one.jsonl", folder / "project"
    crossline("generate", "tx", "--records", RECORDS, "--output", some)
    one.write_bytes(some.read_bytes().partition(b"\n")[0] + b"\n")
    crossline("init", project)
    crossline("run", project / "pipeline.yaml", "--drain")  # its store is what `alerts list` reads
    rules = ("--rules", TX / "r1.yaml", "--stream", TX / "stream.yaml")
    runs = iter(range(sys.maxsize))

    def run() -> Spent:
        fresh = folder / f"run-{next(runs)}"
        crossline("init", fresh)
        return to_first_alert(
            ["run", fresh / "pipeline.yaml"], fresh / "shown", fresh / "out" / "alerts.jsonl", as_installed()
        )

    made: list[Callable[[], Spent]] = [
        lambda: to_end("--help"),
        lambda: to_end("rules", "check", TX / "r1.yaml", "--stream", TX / "stream.yaml"),
        lambda: to_end("alerts", "list", "--db", project / "out" / "crossline.db"),
        lambda: to_end("backtest", "--input", one, *rules, "--output", folder / "alerts.jsonl"),
        lambda: to_end("rules", "test", TX / "r1.yaml", "--input", some, "--stream", TX / "stream.yaml"),
        run,
    ]
    return dict(zip(TARGETS_S, made, strict=True))


def cold_demo(folder: Path) -> Spent:
    """The demo from an empty folder of compiled kernels."""
    (folder / "kernels").mkdir()
    environment = {**as_installed(), "NUMBA_CACHE_DIR": str(folder / "kernels")}
    shown = folder / "shown"  # the demo prints its alerts, and before them nothing
    return to_first_alert(["demo", "--folder", folder / "demo", "--no-console"], shown, shown, environment)


def measure(folder: Path, names: Sequence[str], rounds: int, *, cold: bool) -> Report:
    """All of ``names`` in turns, ``rounds`` times after one that is not counted."""
    report = Report("startup", f"Starts, {rounds} rounds in turns; medians, in seconds")
    commands = commands_in(folder)
    spent: dict[str, list[Spent]] = {name: [] for name in names}
    for number in range(rounds + 1):
        for name in names:
            found = commands[name]()
            if number:
                spent[name].append(found)
    for name, found in spent.items():
        wall_s = [each.wall_s for each in found]
        median_s = statistics.median(wall_s)
        report.add(
            command=name,
            target_s=TARGETS_S[name],
            measured_s=round(median_s, 3),
            least_s=round(min(wall_s), 3),
            most_s=round(max(wall_s), 3),
            processor_s=round(statistics.median(each.processor_s for each in found), 3),
            kept="yes" if median_s <= TARGETS_S[name] else "no",
        )
    if cold:
        once = cold_demo(folder)
        kept = "yes" if once.processor_s <= COLD_TARGET_S else "no"
        report.add(command=COLD, measured_s=round(once.wall_s, 1), processor_s=round(once.processor_s, 1), kept=kept)
        report.notes.append(f"of the demo processor_s is held against {COLD_TARGET_S:.0f} s, of the others measured_s")
    report.details["spent"] = {
        name: [(each.wall_s, each.processor_s) for each in found] for name, found in spent.items()
    }
    return report


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default=";".join(TARGETS_S), help="commands to measure, separated by ;")
    parser.add_argument(
        "--cold", action="store_true", help="measure the demo without compiled kernels too; it takes some minutes"
    )
    parser.add_argument("--quick", action="store_true", help="run two rounds")
    given = parser.parse_args()
    names = given.only.split(";")
    if unknown := [name for name in names if name not in TARGETS_S]:
        parser.error(f"nothing measured is named {'; '.join(unknown)}; known: {'; '.join(TARGETS_S)}")
    with own_folder_for("bench") as folder:
        measure(folder, names, 2 if given.quick else given.rounds, cold=given.cold).finish()


if __name__ == "__main__":
    main()
