"""Prints what is compiled, or loaded, once what is compiled ahead is ready: for a process that has run nothing yet."""

from __future__ import annotations

import gc
import json
import sys
from typing import Any

import numpy as np
import pyarrow as pa

from crossline.basics.kernels.kernel import Kernel
from crossline.basics.streams.schema import load_streams
from crossline.evaluate.detect import detect, new_state
from crossline.ingest.decode import decode_csv, decode_lines, decode_table, decode_values, make_layout
from crossline.plan.compose import compile_all
from crossline.rules.base import Defaults
from crossline.rules.rule_reader import load_rules_text
from crossline.rules.ruleset import RuleSet
from crossline.runtime.workers.kernel_warmup import ALL, warm

STREAMS = """
schema_version: 1
streams:
  p:
    id: id
    event_time: {field: at, unit: UNIT}
    fields: {id: string, at: KIND, account: string, shop: string?, amount: number, kind: string?, ok: boolean?}
"""
RULES = """
- {rule_id: again, version: 1, rule_type: velocity, source_topic: p, group_by: account, window: 1m,
   aggregation_type: distinct_count, aggregation_field: shop, aggregation_threshold: 2, late_policy: reevaluate}
- {rule_id: of_hits, version: 1, rule_type: velocity, source_topic: "rule:again", group_by: account, window: 1m,
   aggregation_type: count, aggregation_threshold: 1}
- {rule_id: long, version: 1, rule_type: velocity, source_topic: p, group_by: account, window: 2h, resolution: 10m,
   aggregation_type: distinct_count, aggregation_field: shop, aggregation_threshold: 2}
- {rule_id: vain, version: 1, rule_type: absence, source_topic: p, group_by: account, within: 5s, allowed_lateness: 5s,
   watermark_delay: 1s, after: [{field: kind, operator: "==", value: paid}],
   expect: [{field: kind, operator: "==", value: sent}]}
- {rule_id: order, version: 1, rule_type: sequence, source_topic: p, group_by: account, within: 1m,
   late_policy: reevaluate, steps: [{name: first, conditions: [{field: kind, operator: "==", value: paid}]},
   {name: second, conditions: [{field: ok, operator: exists}]}]}
- {rule_id: keys, version: 1, rule_type: formula, source_topic: p, when: "mine >= 1 and theirs >= 0",
   figures: {mine: {count: true, group_by: account, window: 1m}, theirs: {sum: amount, group_by: shop, window: 1m}}}
"""
START_S = 1_769_851_800
SECONDS = (0, 9, 3, 20, 15, 40, 59, 58)
TIMES = {"ms": "integer", "s": "number", "iso8601": "string"}


def rows_of(unit: str) -> list[dict[str, Any]]:
    body = {
        "ms": lambda s: 1_000 * (START_S + s),
        "s": lambda s: START_S + s + 0.5,
        "iso8601": "2026-01-31T09:30:{:02}Z".format,
    }
    return [
        {
            "id": f"r{n}",
            "at": body[unit](second),
            "account": "a\u00e9",
            "shop": f"s{n % 3}",
            "amount": 1.5e3 * n,
            "kind": ("paid", "sent", None)[n % 3],
            "ok": n % 2 == 0,
        }
        for n, second in enumerate(SECONDS)
    ]


def csv_of(rows: list[dict[str, Any]]) -> bytes:
    def cell(value: Any) -> str:
        return str(value).lower() if isinstance(value, bool) else "" if value is None else str(value)

    return "".join(",".join(map(cell, row.values())) + "\n" for row in rows).encode()


def alerted(unit: str) -> list[set[str]]:
    """The rules that emitted an alert, for each way in which records come."""
    streams = load_streams(STREAMS.replace("KIND", TIMES[unit]).replace("UNIT", unit), "s.yaml")
    rules = RuleSet.from_rules(item.rule for item in load_rules_text(RULES, "r.yaml", streams))
    plans, layout = list(compile_all(rules, streams, Defaults()).values()), make_layout("p", streams["p"])
    rows = rows_of(unit)
    text, offsets = [json.dumps(row).encode() for row in rows], np.arange(len(rows), dtype=np.int64)
    found = []
    for decoded in (
        decode_lines(layout, b"\n".join(text), "log", 0),
        decode_values(layout, pa.array(text), "log", offsets, None),
        decode_csv(layout, list(rows[0]), csv_of(rows), "log", 0),
        decode_table(layout, pa.Table.from_pylist(rows), "log", offsets),
    ):
        assert not decoded.dead, decoded.dead
        detection, _ = detect(plans, new_state(2), decoded.records)
        found.append({alert["rule_id"] for alert in detection.alerts})
    return found


def made() -> set[tuple[str, str, str]]:
    """Kernels that were loaded or compiled, with the kinds of their arguments."""
    # By its type: a weak reference to what is gone has no class of its own.
    kernels = [each for each in gc.get_objects() if issubclass(type(each), Kernel)]
    return {
        (each.function.__module__, each.function.__qualname__, str(kinds))
        for each in kernels
        for kinds in each._by_kinds
    }


if __name__ == "__main__":
    warm(**ALL)
    ahead = made()
    alerting_rules = [each for unit in TIMES for each in alerted(unit)]
    sys.stdout.write(
        json.dumps(
            {"ahead": len(ahead), "later": sorted(made() - ahead), "alerted": [sorted(each) for each in alerting_rules]}
        )
    )
