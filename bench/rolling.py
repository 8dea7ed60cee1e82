"""Exact rolling figures by crossline and by its peers: ``python -m bench.rolling [--records N] [--rounds N]``.

The systems take turns on the same file of workload tx, on the same two cores, each in processes of its own, from the
command to the prompt. They answer R1 or R5. Every answer is compared with brute force, record by record, in the order
that the system claims (bench/peers/answers.py): event order for peers that wait for a watermark or correct themselves,
arrival order for crossline, which answers at once.

- ``backtest`` is ``crossline backtest``, ``run`` is ``crossline run --drain`` in Spark with checkpoints: an alert where
  a rule begins to hold for a key.
- ``backtest-every`` has an alert with its evidence at every record where a rule holds, as many as a peer has answers.
- ``flink`` is Flink SQL in streaming mode, ``flink-batch`` in batch mode (bench/peers/flink.py): a row with the figure
  at every record where a rule holds. Maven and a Java of version 17 or 21 are necessary. Maven fetches Flink once.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.json

from bench.backtest import Timed, timed
from bench.peers import flink
from bench.peers.answers import Answers, Compared, Order, compare, count, expected, reported
from bench.report import Report, median, say
from bench.runs import ROOT, as_installed
from bench.workload import DATA, rule_set, write_pipeline
from crossline.generate.tx import LINES_BATCH, TxWorkload
from crossline.runtime.machine.temporary_folders import own_folder_for

CORES = 2
MODES = {"flink": "streaming", "flink-batch": "batch"}
LACKS = (
    "peers give no alert id, no evidence, no message, no rules as data: statements are compiled into the job",
    "flink: a row behind the watermark is dropped without a trace, and an answer waits 2 s of event time and more",
    "crossline: the figure of an answer is that of its arrival; what comes late changes later answers alone",
)

Found = Callable[[], Iterator[tuple[str, str, float]]]


@dataclass(frozen=True, slots=True)
class System:
    """A system: how its command is made ready, where its answers are, and what it claims."""

    ready: Callable[[], list[str]]
    answers: Found
    order: Order
    crossings: bool = False


def one_file(records: int) -> Path:
    """Workload tx as one file, made once and kept."""
    path = DATA / f"tx-one-{records}.jsonl"
    workload = TxWorkload()
    if not path.exists():
        say(f"making {records:,} records in {path}")
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        with part.open("wb") as file:
            for start in range(0, records, LINES_BATCH):
                file.write(workload.lines(start, min(LINES_BATCH, records - start)))
        part.replace(path)
    return path


def alerts(path: Path) -> Iterator[tuple[str, str, float]]:
    """Rule, record id and figure of each alert of crossline."""
    with path.open("rb") as lines:
        for line in lines:
            found = orjson.loads(line)
            yield found["rule_id"], found["record_id"], found["value"]


def own_command(name: str, what: str, file: Path, folder: Path) -> list[str]:
    """The command of crossline, its pipeline written anew: no checkpoint is left of the run before."""
    rules = [{**rule, "emit": "every"} if what == "backtest-every" else rule for rule in rule_set(name)]
    source = {"kind": "files", "path": str(file), "max_batch_bytes": 64 << 20}
    pipeline = write_pipeline(folder, rules, source, sinks=[{"kind": "jsonl", "path": "out/alerts.jsonl"}])
    (folder / "out").mkdir()
    command = [sys.executable, "-m", "crossline.cli.main"]
    if what == "run":
        return [*command, "run", str(pipeline), "--drain"]
    given = ["--pipeline", str(pipeline), "--input", str(file), "--output", str(folder / "out" / "alerts.jsonl")]
    return [*command, "backtest", *given]


def systems(name: str, wanted: Sequence[str], file: Path, folder: Path) -> dict[str, System]:
    """Those that take turns for a rule set."""
    found: dict[str, System] = {}
    for what in wanted:
        out = folder / f"{name}-{what}"
        if what in MODES:
            ready = partial(flink.command, name, file, out, mode=MODES[what])
            found[what] = System(ready, partial(flink.answers, out), "event")
        else:
            ready = partial(own_command, name, what, file, out)
            own = partial(alerts, out / "out" / "alerts.jsonl")
            found[what] = System(ready, own, "arrival", crossings=what != "backtest-every")
    return found


def warm_s(name: str, what: str, file: Path, folder: Path) -> float:
    """Seconds of the second execution in a JVM, planning included, its start not."""
    command = flink.command(name, file, folder / "warm", mode=MODES[what], times=2)
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT, env=as_installed())
    return [float(each) for each in re.findall(r"^seconds ([\d.]+)$", done.stdout, re.MULTILINE)][1]


def measure(name: str, file: Path, folder: Path, options: argparse.Namespace, report: Report) -> None:
    """All rounds of a rule set, and their rows."""
    rules = [rule["rule_id"] for rule in rule_set(name)]
    turns = systems(name, options.systems.split(","), file, folder)
    runs: dict[str, list[Timed]] = {what: [] for what in turns}
    given: dict[str, Answers] = {}
    records: pa.Table = pyarrow.json.read_json(file)
    ids = records["transaction_id"].to_pylist()
    for number in range(options.rounds):
        for what, system in turns.items():
            runs[what].append(timed(system.ready()))
            load = os.getloadavg()[0]
            say(f"{name}, round {number + 1}, {what}: {runs[what][-1].seconds:.1f} s, load average {load:.1f}")
            if not number:
                given[what] = reported(system.answers(), rules, ids)
    warm = {what: warm_s(name, what, file, folder) for what in turns if options.warm and what in MODES}
    brute: dict[tuple[Order, bool], Answers] = {}
    for what, system in turns.items():
        claims = system.order, system.crossings
        if claims not in brute:
            brute[claims] = expected(records, rules, system.order, crossings=system.crossings)
        compared = compare(brute[claims], given[what])
        add_row(report, name, what, system, runs=runs, compared=compared, records=len(records), warm=warm.get(what))
    note_orders(report, name, records, rules, brute)


def add_row(
    report: Report,
    name: str,
    what: str,
    system: System,
    *,
    runs: Mapping[str, Sequence[Timed]],
    compared: Compared,
    records: int,
    warm: float | None,
) -> None:
    """The row of one system; its time as a multiple of that of the first."""
    seconds = median([each.seconds for each in runs[what]])
    report.add(
        rules=name,
        system=what,
        rounds=len(runs[what]),
        seconds=seconds,
        range_s=f"{min(each.seconds for each in runs[what]):.1f}-{max(each.seconds for each in runs[what]):.1f}",
        processor_s=median([each.processor_s for each in runs[what]]),
        peak_mib=max(each.peak_mib for each in runs[what]),
        records_per_s=records / seconds,
        of_first=seconds / median([each.seconds for each in next(iter(runs.values()))]),
        warm_s=warm,
        answers="begins" if system.crossings else "every record",
        order=system.order,
        right=compared.right,
        wrong=compared.wrong,
        missing=compared.missing,
        extra=compared.extra,
    )


def note_orders(
    report: Report, name: str, records: pa.Table, rules: Sequence[str], brute: Mapping[tuple[Order, bool], Answers]
) -> None:
    """How far the two semantics are apart, by brute force alone."""
    by_order: dict[Order, Answers] = {
        order: brute.get((order, False)) or expected(records, rules, order) for order in ("event", "arrival")
    }
    apart = compare(by_order["event"], by_order["arrival"])
    report.notes.append(
        f"{name} by brute force: {count(by_order['event']):,} answers in event order, {count(by_order['arrival']):,} "
        f"in arrival order; {apart.right:,} are the same, {apart.wrong:,} have another figure, {apart.missing:,} are "
        f"in event order alone, {apart.extra:,} in arrival order alone"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", default="R1,R5", help="R1, R5, or both, separated by commas")
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--systems", default="backtest,backtest-every,run,flink,flink-batch", help="what takes turns, in this order"
    )
    parser.add_argument("--warm", action="store_true", help="run Flink's job once more in a JVM that has run it before")
    parser.add_argument("--fetch", action="store_true", help="fetch and build the peers, and measure nothing")
    options = parser.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    if any(what in MODES for what in options.systems.split(",")):
        flink.built()
    if options.fetch:
        return
    file = one_file(options.records)
    report = Report(
        "rolling", f"Exact rolling figures of {options.records:,} records, command to prompt, {CORES} cores"
    )
    report.details["peers"] = {"flink": flink.version()}
    with own_folder_for("bench") as folder:
        for name in options.sets.split(","):
            measure(name, file, folder, options, report)
    report.notes += [
        "answers: where a rule begins to hold for a key, or at every record where it holds; of the first round",
        "right, wrong (another figure), missing, extra: beside brute force in the order that the system claims",
        "warm_s: Flink's second execution in one JVM, without the start of the JVM; all other times are of cold starts",
        *LACKS,
    ]
    report.finish()


if __name__ == "__main__":
    main()
