"""The time of a backtest, from the command to the prompt: ``python -m bench.backtest [--records N] [--spark]``.

Runs ``crossline backtest`` over the files of workload tx, in processes of this machine. ``--spark`` also runs it in
Spark. If DuckDB is installed in this environment (``pip install duckdb``), SQL over the same files computes the same
figures: window functions, without alerts, state or order of arrival. ``--forms json,csv,parquet`` compares formats of
the same records. The variants take turns. Each run is a process of its own.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import resource
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet

from bench.report import Report, median, say
from bench.runs import ROOT, as_installed
from bench.workload import Rules, files_of, rule_set, stream_spec, write_pipeline
from crossline.basics.times import parse_duration_ms
from crossline.generate.tx import TxWorkload
from crossline.runtime.machine.temporary_folders import own_folder_for

SUFFIXES = {"json": "*.jsonl", "csv": "*.csv", "parquet": "*.parquet"}
LOOK_S = 0.5  # between two looks at the memory
TYPES = {"string": "VARCHAR", "integer": "BIGINT", "number": "DOUBLE"}
SQL = """
import sys, duckdb
connection = duckdb.connect()
connection.execute("SET threads = %d" % int(sys.argv[2]))
print(connection.execute(sys.argv[1]).fetchall())
"""


def sql_of(rules: Rules, files: Path, fields: Mapping[str, str]) -> str:
    """How often each rule's figure is beyond its line, as one query over the records."""
    figures, counts = [], []
    for rule in rules:
        keys = rule["group_by"] if isinstance(rule["group_by"], list) else [rule["group_by"]]
        taken = f"{rule['aggregation_type']}({rule.get('aggregation_field', '*')})"
        conditions = [f"{each['field']} = '{each['value']}'" for each in rule.get("conditions", [])]
        chosen = f" FILTER ({' AND '.join(conditions)})" if conditions else ""
        window = f"RANGE BETWEEN {parse_duration_ms(rule['window']) - 1} PRECEDING AND CURRENT ROW"
        over = f"OVER (PARTITION BY {', '.join(keys)} ORDER BY event_time {window})"
        figures.append(f"{taken}{chosen} {over} AS {rule['rule_id']}")
        counts.append(f"sum(({rule['rule_id']} {rule['operator']} {rule['aggregation_threshold']})::int)")
    columns = ", ".join(f"{name}: '{TYPES[kind]}'" for name, kind in fields.items())
    source = f"read_json('{files}/*.jsonl', format = 'newline_delimited', columns = {{{columns}}})"
    return f"SELECT {', '.join(counts)} FROM (SELECT {', '.join(figures)} FROM {source})"  # noqa: S608 - our own rules


@dataclass(frozen=True, slots=True)
class Timed:
    """A command: seconds from its start to its end, of processor time too, and what its processes take of memory.

    ``peak_mib``: the most of all of them together, 0 where nobody looked. ``fresh_pages``: pages that the system gave
    them, mostly zeroed.
    """

    seconds: float
    processor_s: float
    peak_mib: float
    fresh_pages: int


def timed(command: Sequence[str], *, look: bool = False) -> Timed:
    """Run a command to its end.

    ``look``: look at its memory too. That takes milliseconds a process, from a command that keeps all processors busy,
    so such a run's seconds say little.
    """
    used, pages, peak = _processor_s(), _fresh_pages(), 0.0
    began = time.monotonic()
    with subprocess.Popen(
        command, cwd=ROOT, env=as_installed(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as running:
        while True:
            with suppress(subprocess.TimeoutExpired):
                _, body = running.communicate(timeout=LOOK_S if look else None)
                break
            peak = max(peak, _mib_of(running.pid))
    passed = time.monotonic() - began
    if running.returncode:
        raise SystemExit(f"{' '.join(command[:4])} … failed:\n{body[-3000:]}")
    return Timed(passed, _processor_s() - used, peak, _fresh_pages() - pages)


def _mib_of(pid: int) -> float:
    """Of a process and all below it, what they share counted once."""
    held = 0
    with suppress(psutil.Error):
        for each in [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]:
            with suppress(psutil.Error):
                held += each.memory_full_info().pss
    return held / 2**20


def _processor_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _fresh_pages() -> int:
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_minflt


def in_form(form: str, files: Path, folder: Path) -> Path:
    """The records of ``files`` in another form, a file for each, in a folder of their own."""
    made = folder / form
    made.mkdir(exist_ok=True)
    for file in sorted(files.glob("*.jsonl")):
        table = pyarrow.json.read_json(file)
        if form == "csv":
            pyarrow.csv.write_csv(table, made / f"{file.stem}.csv")
        else:
            pyarrow.parquet.write_table(table, made / f"{file.stem}.parquet")
    return made


def commands(name: str, records: int, folder: Path, forms: Sequence[str], *, spark: bool) -> dict[str, list[str]]:
    """What takes turns for a rule set."""
    files = files_of(TxWorkload(), records, "tx")
    rules = rule_set(name)
    found: dict[str, list[str]] = {}
    for form in forms:
        there = files if form == "json" else in_form(form, files, folder)
        source = {"kind": "files", "path": str(there)}
        pipeline = write_pipeline(folder / f"{name}-{form}", rules, source, form=form)
        own = [sys.executable, "-m", "crossline.cli.main", "backtest", "--pipeline", str(pipeline)]
        own += ["--input", str(there / SUFFIXES[form]), "--output", str(folder / "alerts.jsonl")]
        found[f"processes, {form}"] = own
        if spark:
            found[f"spark, {form}"] = [*own, "--on", "spark"]
    if importlib.util.find_spec("duckdb") is not None:
        query = sql_of(rules, files, stream_spec()["fields"])
        found["duckdb"] = [sys.executable, "-c", SQL, query, str(os.cpu_count())]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", default="R1,R5", help="rule sets, separated by commas")
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--forms", default="json", help=f"formats of {', '.join(SUFFIXES)}, separated by commas")
    parser.add_argument("--spark", action="store_true", help="run the backtest in Spark too")
    parser.add_argument("--quick", action="store_true", help="a tenth of the records, one run")
    options = parser.parse_args()
    records = options.records // 10 if options.quick else options.records
    report = Report("backtest", f"Backtest of {records:,} records, from the command to the prompt")
    with own_folder_for("bench") as folder:
        for name in options.sets.split(","):
            runs: dict[str, list[Timed]] = {}
            turns = commands(name, records, folder, options.forms.split(","), spark=options.spark)
            for number in range(1 if options.quick else options.runs):
                for what, command in turns.items():
                    runs.setdefault(what, []).append(timed(command))
                    say(f"{name}, run {number + 1}, {what}: {runs[what][-1].seconds:.2f} s")
            peaks = {what: timed(command, look=True).peak_mib for what, command in turns.items()}
            add_rows(report, name, records, runs, peaks)
    report.notes.append("processor_s, peak_mib, fresh_pages: of the command and all processes below it, together")
    report.notes.append("peak_mib: of a run of its own, which is not timed: looking at memory takes the command's time")
    report.finish()


def add_rows(
    report: Report, name: str, records: int, runs: Mapping[str, Sequence[Timed]], peaks: Mapping[str, float]
) -> None:
    """A row for each that took turns, and its time as a multiple of DuckDB's."""
    duck = median([each.seconds for each in runs["duckdb"]]) if "duckdb" in runs else None
    for what, each in runs.items():
        passed = median([one.seconds for one in each])
        row: dict[str, Any] = {"rules": name, "what": what, "runs": len(each), "seconds": passed}
        row["range_s"] = f"{min(one.seconds for one in each):.2f}-{max(one.seconds for one in each):.2f}"
        row["processor_s"] = median([one.processor_s for one in each])
        row["peak_mib"] = peaks[what]
        row["fresh_pages"] = median([one.fresh_pages for one in each])
        row["records_per_s"] = records / passed
        row["of_duckdb"] = passed / duck if duck else None
        report.add(**row)


if __name__ == "__main__":
    main()
