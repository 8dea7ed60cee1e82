"""Compares the alerts of a pipeline run over workload tx with the alerts of the naive twin, record by record.

``python -m bench.equality`` writes the file, runs ``crossline run --drain`` on it with the example rules R5, and
compares every alert: id, key, value, count, window, record ids, times. ``--direct`` runs it without Spark. The twin is
the fast twin of the tests, which compare it with the slow one. The exit code is 0 if all alerts are equal, else 1.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import orjson
import yaml

from crossline.basics.streams.schema import load_streams
from crossline.evaluate.detect import detect, new_state
from crossline.generate.tx import LINES_BATCH, TxWorkload
from crossline.ingest.decode import decode_lines, make_layout
from crossline.plan.compile import compile_stream
from crossline.rules.base import Defaults
from crossline.rules.rule_reader import load_rules_text
from crossline.rules.ruleset import RuleSet
from crossline.runtime.machine.temporary_folders import own_folder_for

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from oracle.fastpath import alert_values, hit_values  # noqa: E402 - the tests are no installed package
from oracle.quick import quick_detect, with_times  # noqa: E402

EXAMPLE = ROOT / "examples" / "tx"
DIFFERENCES_SHOWN = 5

AlertRow = tuple[Any, ...]


def expected_of(lines: bytes) -> list[AlertRow]:
    """The alerts of the twin."""
    rules = yaml.safe_load((EXAMPLE / "r5.yaml").read_text(encoding="utf-8"))
    records = with_times([orjson.loads(line) for line in lines.splitlines()], "transaction_id", "event_time")
    return [hit_values(hit, records[hit.position]) for hit in quick_detect(rules, records)]


def by_pipeline(lines: bytes, folder: Path) -> Iterator[AlertRow]:
    """The alerts of ``crossline run``, from its JSON lines."""
    (folder / "rules").mkdir()
    shutil.copy(EXAMPLE / "r5.yaml", folder / "rules")
    shutil.copy(EXAMPLE / "stream.yaml", folder)
    (folder / "tx.jsonl").write_bytes(lines)
    pipeline = {
        "schema_version": 1,
        "name": "equality",
        "streams": "stream.yaml",
        "sources": {"payments": {"kind": "files", "path": "tx.jsonl", "max_batch_bytes": 4 << 20}},
        "rules": {"kind": "directory", "path": "rules"},
        "sinks": [{"kind": "jsonl", "path": "alerts.jsonl"}],
        "engine": {"trigger": "0s", "checkpoint": "checkpoint"},
    }
    (folder / "pipeline.yaml").write_text(yaml.safe_dump(pipeline), encoding="utf-8")
    command = [sys.executable, "-c", "from crossline.cli.main import main; main()"]
    subprocess.run([*command, "run", str(folder / "pipeline.yaml"), "--drain"], check=True)
    for line in (folder / "alerts.jsonl").read_bytes().splitlines():
        yield alert_values(orjson.loads(line))


def by_detect(lines: bytes) -> Iterator[AlertRow]:
    """The alerts of ``detect``, in three batches on two shards."""
    streams = load_streams((EXAMPLE / "stream.yaml").read_text(encoding="utf-8"), "stream.yaml")
    loaded = load_rules_text((EXAMPLE / "r5.yaml").read_text(encoding="utf-8"), "r5.yaml", streams, ())
    rules = RuleSet.from_rules(item.rule for item in loaded)
    plan = compile_stream(rules, "payments", streams["payments"], Defaults())
    layout, state, start = make_layout("payments", streams["payments"]), new_state(shards=2), 0
    for part in range(1, 4):
        end = lines.index(b"\n", len(lines) * part // 3 - 1) + 1
        records = decode_lines(layout, lines[start:end], "tx.jsonl", start).records
        found, state = detect(plan, state, records)
        yield from map(alert_values, found.alerts)
        start = end


def compare(expected: Sequence[AlertRow], reported: Sequence[AlertRow]) -> bool:
    """Print both counts by rule and the first differences. Whether there are none."""
    wanted, given = Counter(expected), Counter(reported)
    rules = sorted({alert[0] for alert in [*expected, *reported]})
    print(f"{'rule':28} {'twin':>8} {'alerts':>8} {'equal':>8}")
    for rule in rules:
        of_rule = [Counter({a: n for a, n in found.items() if a[0] == rule}) for found in (wanted, given)]
        print(f"{rule:28} " + " ".join(f"{c.total():8,}" for c in (*of_rule, of_rule[0] & of_rule[1])))
    for title, missing in (("only the twin has", wanted - given), ("the twin has not", given - wanted)):
        for alert in sorted(missing.elements())[:DIFFERENCES_SHOWN]:
            print(f"{title}: {alert}")
    return wanted == given


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--direct", action="store_true", help="run without Spark")
    options = parser.parse_args()
    workload = TxWorkload(seed=options.seed)
    cuts = range(0, options.records, LINES_BATCH)
    lines = b"".join(workload.lines(cut, min(LINES_BATCH, options.records - cut)) for cut in cuts)
    began = time.monotonic()
    expected = expected_of(lines)
    print(f"the twin judged {options.records:,} records in {time.monotonic() - began:.0f} s", file=sys.stderr)
    with own_folder_for("bench") as folder:
        reported = list(by_detect(lines) if options.direct else by_pipeline(lines, folder))
    equal = compare(expected, reported)
    print("equal" if equal else "NOT EQUAL")
    sys.exit(0 if equal else 1)


if __name__ == "__main__":
    main()
