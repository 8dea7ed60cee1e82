"""Bytes per retained record: ``python -m bench.memory [--records 4000000] [--sets R1,R5]``.

One shard in a process of its own, without Spark. Records of workload tx are routed and judged as a worker does it; all
of them stay inside the windows. Two views: the arrays of each key space, as it counts them (including room to grow),
and the growth of the resident memory of the process.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import yaml

from bench.report import Report, say
from bench.runs import run_child
from bench.workload import STREAM, Rules, rule_set, stream_spec
from crossline.basics.streams.schema import StreamSpec
from crossline.evaluate.bounds import Bounds
from crossline.evaluate.shard import judge
from crossline.generate.tx import TxWorkload
from crossline.ingest.decode import decode_table, make_layout
from crossline.ingest.route.part_codec import pack, unpack
from crossline.ingest.route.partitioner import Chunk, route
from crossline.rules.base import Defaults
from crossline.rules.rule_reader import load_rules_text
from crossline.rules.ruleset import RuleSet
from crossline.runtime.machine.temporary_folders import own_folder_for
from crossline.runtime.snapshot.snapshot import PlanSnapshot

BATCH = 100_000
WARM = 3  # batches before the memory of the process is noted first
WINDOW_S = 8  # of event time that all records lie in: inside the shortest window of R5


def snapshot_of(rules: Rules, *, shards: int = 1) -> PlanSnapshot:
    """The rules, as workers have them."""
    spec = StreamSpec.model_validate(stream_spec())
    items = load_rules_text(yaml.safe_dump([dict(rule) for rule in rules]), "bench", {STREAM: spec})
    return PlanSnapshot(RuleSet.from_rules([item.rule for item in items]), {STREAM: spec}, Defaults(), shards, Bounds())


def hold(name: str, records: int) -> dict[str, Any]:
    """Judge the records, keep them, and measure the memory."""
    snapshot = snapshot_of(rule_set(name))
    plan, layout, state = snapshot.plan(STREAM), make_layout(STREAM, snapshot.streams[STREAM]), snapshot.new_state()
    workload = TxWorkload(rate_per_s=records // WINDOW_S, disorder_ms=0)
    process, before, at = psutil.Process(), 0, 0
    for number, start in enumerate(range(0, records, BATCH)):
        if number == WARM:
            before, at = process.memory_info().rss, start
        offsets = range(start, min(start + BATCH, records))
        table = workload.records(start, len(offsets))
        decoded = decode_table(layout, table, "bench", np.arange(offsets.start, offsets.stop, dtype=np.int64))
        parts = route(plan, decoded.records, Chunk(STREAM, number, "bench"), 1, {})
        blob = pack(parts)
        del table, decoded, parts
        judge([plan], state, list(unpack(blob, "bench")), Bounds())
    grown = process.memory_info().rss - before
    state_stores = {
        state_store: {
            "records": store.records,
            "keys": store.keys,
            "bytes": store.bytes_in_memory(),
            "key_bytes": store.key_bytes(),
        }
        for state_store, store in state.stores.items()
    }
    return {"state_stores": state_stores, "rss_grown": grown, "records_meanwhile": records - at}


def add_rows(report: Report, name: str, held: dict[str, Any]) -> None:
    """A row for each key space, one for the process."""
    total = 0
    for state_store, size in held["state_stores"].items():
        total += size["records"]
        report.add(
            rules=name,
            key_space=state_store.split("|")[-1],
            records=size["records"],
            keys=size["keys"],
            bytes_per_record=size["bytes"] / size["records"],
            of_it_keys=size["key_bytes"] / size["records"],
            without_keys=(size["bytes"] - size["key_bytes"]) / size["records"],
        )
    grown = held["records_meanwhile"] * len(held["state_stores"])
    report.add(
        rules=name, key_space="process, all key spaces", records=total, bytes_per_record=held["rss_grown"] / grown
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=4_000_000)
    parser.add_argument("--sets", default="R1,R5")
    parser.add_argument("--quick", action="store_true", help="judge 600,000 records")
    parser.add_argument("--hold", nargs=2, metavar=("SET", "OUT"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    records = 600_000 if options.quick else options.records
    if options.hold:
        Path(options.hold[1]).write_text(json.dumps(hold(options.hold[0], records)), encoding="utf-8")
        return
    report = Report("memory", f"Bytes per retained record, one shard, {records:,} records in all windows")
    for name in options.sets.split(","):
        with own_folder_for("bench") as folder:
            out = str(folder / "held.json")
            run_child(["--records", str(records), "--hold", name, out], "bench.memory")
            held = json.loads(Path(out).read_text(encoding="utf-8"))
        say(f"{name}: done, load average {os.getloadavg()[0]:.1f}")
        add_rows(report, name, held)
    report.notes.append(
        "target: 48 bytes a record besides its distinct key; the process's row has keys and all else in it"
    )
    report.finish()


if __name__ == "__main__":
    main()
