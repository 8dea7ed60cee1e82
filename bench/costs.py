"""What stages, plans and rules cost: ``python -m bench.costs [--sets M100,M1000] [--records N] [--shards N]``.

The stages of a pipeline in this process, on one core: no Spark, no state log, no sinks. Figures are processor time a
record, after the first batch, which loads the kernels. Runs of several sets take turns.

The table of stages is whole. Those of plans and rules have what the meters of ``plan.costs`` measure and share: they
leave out decoding, packing, and the routing of hits. A figure is what rules share: a key, a field and a window.
"""

from __future__ import annotations

import argparse
import os
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from bench.report import Report, Row, median, say, table_text
from bench.workload import files_of, needs_device, rule_set, write_pipeline
from crossline.backtest.backtest import BacktestSpec, RecordedInput
from crossline.backtest.in_process import inputs_of
from crossline.cli.backtest import setting_of
from crossline.evaluate.bounds import Bounds
from crossline.generate.tx import TxWorkload
from crossline.plan.compile import StorePlan
from crossline.plan.costs import NO_RULE, Meter
from crossline.rule_registry.lists import lists_in
from crossline.rule_registry.rule_files import read_rules
from crossline.rules.ruleset import RuleSet
from crossline.runtime.local.memory import MemoryJudge
from crossline.runtime.machine.temporary_folders import own_folder_for
from crossline.runtime.snapshot.rule_costs import Costs
from crossline.runtime.snapshot.snapshot import HeldSnapshot, PlanSnapshot
from crossline.runtime.stages.outcome import Outcome, collect_outcome
from crossline.runtime.stages.stages import Stage, stages_of
from crossline.runtime.work.task import Task

RECORD_BYTES = 240


@dataclass(slots=True)
class Spent:
    """What the batches after the first took; ``stages_ns`` by stage, ``rules_ms`` by rule version."""

    snapshot: PlanSnapshot
    records: int = 0
    alerts: int = 0
    stages_ns: Counter[str] = field(default_factory=Counter)
    rules_ms: Counter[str] = field(default_factory=Counter)
    meter: Meter = field(default_factory=Meter)

    def us(self, ns: float) -> float:
        """The part of a record, in microseconds."""
        return ns / 1e3 / max(1, self.records)

    def add(self, outcome: Outcome, stages_ns: Counter[str], costs: Costs) -> None:
        """One more batch."""
        self.records += outcome.figures["records"]
        self.alerts += len(outcome.alerts)
        self.stages_ns += stages_ns
        self.meter.add(outcome.costs.to_json())
        self.rules_ms.update(costs.of(self.snapshot, outcome.costs))


def measure(name: str, records: int, batch: int, shards: int) -> Spent:
    """Run rule set ``name`` over ``records`` records in batches of about ``batch``."""
    rules = rule_set(name)
    device = needs_device(rules)
    files = files_of(TxWorkload(with_device=device), records, "tx-device" if device else "tx")
    with own_folder_for("bench") as folder:
        judged = spec_of(write_pipeline(folder / "p", rules, {"kind": "files", "path": str(files)}), files)
        inputs = inputs_of(judged, folder, 1, batch * RECORD_BYTES)
        source, costs = HeldSnapshot(inputs.aligned(judged.snapshot(judged.rules, shards))), Costs()
        stages, spent = stages_of(source, inputs.intake, MemoryJudge(source)), Spent(source.snapshot)
        for number, (rows,) in enumerate(inputs.batches(1)):
            outcome, stages_ns = through(stages, number, rows)
            if number:
                spent.add(outcome, stages_ns, costs)
        return spent


def spec_of(pipeline: Path, files: Path) -> BacktestSpec:
    """The rules, lists and settings of a pipeline file over records of files."""
    setting = setting_of(None, None, None, str(pipeline), as_of_log=False)
    rules = RuleSet.from_rules(read_rules(setting.rules, setting.known()))
    history = RecordedInput(setting.streams, {name: [str(files / "*.jsonl")] for name in setting.streams})
    lists = {} if setting.lists is None else lists_in(setting.lists)
    return BacktestSpec(rules, history, lists, setting.defaults, Bounds(setting.partition_lag_ms))


def through(stages: Sequence[Stage], number: int, batch: Sequence[pa.RecordBatch]) -> tuple[Outcome, Counter[str]]:
    """A batch through each stage as a whole; what comes of it, and the processor time in ns by stage."""
    spent: Counter[str] = Counter()
    rows = list(batch)
    for stage in stages:
        began_ns = time.process_time_ns()
        rows = list(stage.step(Task(batch_id=number), iter(rows)))
        spent[stage.name] += time.process_time_ns() - began_ns
    bodies = [each for out in rows for each in zip(*(out.column(n).to_pylist() for n in (2, 3)), strict=True)]
    return collect_outcome(bodies, None), spent


def stage_rows(name: str, spent: Spent) -> Iterator[Row]:
    """What each stage took."""
    for stage, ns in spent.stages_ns.items():
        yield {"rules": name, "stage": stage, "us_a_record": spent.us(ns)}


def plan_rows(name: str, spent: Spent) -> Iterator[Row]:
    """What each state store of the records took, and those of hits and conditions together."""
    found: dict[str, int] = dict(spent.meter.state_stores)
    for plan in spent.snapshot.plans():
        for store in plan.state_stores if plan.depth == 1 else ():
            us = spent.us(found.pop(store.state_store.name, 0))
            yield {"rules": name, "plan": store.state_store.name, **sizes(store), "us_a_record": us}
    others = {
        f"{len(found)} of hits": sum(found.values()),
        "conditions": spent.meter.conditions.total(),
        "alerts": spent.meter.hits_ns,
    }
    yield from ({"rules": name, "plan": what, "us_a_record": spent.us(ns)} for what, ns in others.items())


def sizes(store: StorePlan) -> Row:
    """What a state store has of each."""
    plan: Any = store.plan
    windows = plan.kind in {"windows", "panes"}
    return {
        "kernel": plan.kind,
        "rules_there": len(plan.judging),
        "filters": plan.filters,
        "windows": len(plan.windows) if windows else None,
        "figures": len(plan.aggregates) if windows else None,
    }


def rule_rows(name: str, spent: Spent) -> Iterator[Row]:
    """What the rules of each type took."""
    kind_of = {f"{v.rule.rule_id}@{v.rule.version}": v.rule.rule_type for v in spent.snapshot.rules.versions}
    by_kind: defaultdict[str, list[float]] = defaultdict(list)
    for version, ms in spent.rules_ms.items():
        by_kind["no rule" if version == NO_RULE else kind_of[version]].append(spent.us(ms * 1e6))
    counts = Counter(kind_of.values())
    for kind, each in sorted(by_kind.items(), key=lambda of: -sum(of[1])):
        count = counts.get(kind)
        mean = 1e3 * sum(each) / count if count else None
        costliest = {"mean_ns": mean, "most_ns": 1e3 * max(each) if count else None}
        yield {"rules": name, "type": kind, "there": count, "us_a_record": sum(each), **costliest}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", default="M100,M1000", help="rule sets, separated by commas")
    parser.add_argument("--records", type=int, default=300_000)
    parser.add_argument("--batch", type=int, default=60_000, help="records of a batch, about")
    parser.add_argument("--shards", type=int, default=2)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="a third of the records, one run")
    options = parser.parse_args()
    records = options.records // 3 if options.quick else options.records
    report = Report("costs", f"Processor time a record, one core, in process, {records:,} records")
    names = options.sets.split(",")
    runs: dict[str, list[Spent]] = {name: [] for name in names}
    for number in range(1 if options.quick else options.runs):
        for name in names:
            spent = measure(name, records, options.batch // 3 if options.quick else options.batch, options.shards)
            runs[name].append(spent)
            us = spent.us(spent.stages_ns.total())
            say(f"{name}, run {number + 1}: {us:.2f} us a record, load average {os.getloadavg()[0]:.1f}")
    tables: dict[str, list[Row]] = {"stages": [], "plans": [], "rules": []}
    for name, each in runs.items():
        ordered = sorted(each, key=lambda spent: spent.us(spent.stages_ns.total()))
        add_row(report, name, ordered)
        middle = ordered[(len(ordered) - 1) // 2]
        tables["stages"] += stage_rows(name, middle)
        tables["plans"] += plan_rows(name, middle)
        tables["rules"] += rule_rows(name, middle)
    for what, rows in tables.items():
        print(f"\nby {what.removesuffix('s')}\n{table_text(rows)}")
    report.details |= tables
    report.finish()


def add_row(report: Report, name: str, ordered: list[Spent]) -> None:
    """The row of a rule set: how much it shares, and what it took."""
    first = ordered[0]
    stores = [store for plan in first.snapshot.plans() for store in plan.state_stores]
    figures = sum(sizes(store)["figures"] or 0 for store in stores)
    us = median([each.us(each.stages_ns.total()) for each in ordered])
    report.add(
        rules=name,
        versions=len(first.snapshot.rules.versions),
        plans=len(stores),
        figures=figures,
        us_a_record=us,
        ns_a_rule=1e3 * us / len(first.snapshot.rules.versions),
        ns_a_figure=1e3 * us / figures if figures else None,
        alerts=first.alerts,
    )


if __name__ == "__main__":
    main()
