"""The cost of a record under ``late_policy: reevaluate``, of one key that gets very many, some of them late.

``python -m bench.retraction [--only NAME ...] [--batches N] [--late SHARE ...] [--decides]``. Records of one key, 1,000
a second, one in ten (or ``--late``) up to 2 s late, through decoding, routing and one shard. Only the judging of the
shard is timed, in processor seconds of this process, and only once the window is full. Beside each case stand the same
rules under ``evaluate``. ``--decides``: as for a policy, which is told where rules hold. ``--profile`` prints where the
time goes. Garbage is looked for as seldom as by the workers of a pipeline.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import json
import pstats
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from bench.report import Report
from crossline.basics.conditions.lists import named_lists
from crossline.basics.streams.schema import load_streams
from crossline.evaluate.bounds import Bounds
from crossline.evaluate.shard import ShardState, judge
from crossline.ingest.decode import decode_lines, make_layout
from crossline.ingest.route.part_codec import pack, unpack
from crossline.ingest.route.partitioner import Chunk
from crossline.ingest.route.plan_inputs import entering
from crossline.plan.compile import StreamPlan
from crossline.plan.compose import compile_all
from crossline.rules.base import Defaults
from crossline.rules.rule_reader import load_rules_text
from crossline.rules.ruleset import RuleSet
from crossline.runtime.machine.garbage import collect_seldom

START_MS, RATE, LATE_MS = 1_700_000_000_000, 1_000, 2_000
KINDS = ("card", "cash", "web", "transfer", "wallet")
STREAM = {
    "schema_version": 1,
    "streams": {
        "payments": {
            "event_time": {"field": "at", "unit": "ms"},
            "ingest_time": {"field": "received_at", "unit": "ms"},
            "id": "payment_id",
            "fields": {
                "payment_id": "string",
                "account": "string",
                "merchant": "string",
                "kind": "string",
                "amount": "integer",
                "at": "integer",
                "received_at": "integer",
            },
        }
    },
}


@dataclass(frozen=True, slots=True)
class Case:
    """``seconds``: of the windows. ``batch``: records of a batch. ``far``: thresholds are never met, else always."""

    name: str
    rules: str
    seconds: int
    batch: int
    far: bool = True


CASES = (
    Case("count, 10 s", "count", 10, 500),
    Case("count, 10 s, met", "count", 10, 500, far=False),
    Case("count near its threshold, 10 s", "near", 10, 500),
    Case("sum near its threshold, 10 s", "sum", 10, 500),
    Case("average near its threshold, 10 s", "avg", 10, 500),
    Case("four of five kinds, 10 s", "kinds", 10, 500),
    Case("four of five kinds, from none, 10 s", "kinds", 0, 5_000),
    Case("five rules, 10 s", "five", 10, 500),
    Case("formula, 10 s", "formula", 10, 500),
    Case("count, 1 min", "count", 60, 500),
    Case("five rules, 1 min", "five", 60, 500),
    Case("count, 10 min", "count", 600, 2_000),
    Case("formula, 10 min", "formula", 600, 2_000),
)


def rules_of(case: Case, policy: str) -> list[dict[str, Any]]:
    common = {"source_topic": "payments", "version": 1, "late_policy": policy, "allowed_lateness": "10s"}
    velocity = {**common, "rule_type": "velocity", "group_by": "account", "window": f"{case.seconds}s"}
    held = case.seconds * RATE
    threshold = {"near": held, "count": held * 4 if case.far else held // 2}.get(case.rules, held * 4)
    near = {"sum": ("amount", held * 500), "avg": ("amount", 500), "kinds": ("kind", 4)}
    if case.rules in near:
        field, line = near[case.rules]
        kind = "distinct_count" if case.rules == "kinds" else case.rules
        figure = {"aggregation_type": kind, "aggregation_field": field, "aggregation_threshold": line}
        return [{**velocity, "rule_id": case.rules, **figure, "window": f"{case.seconds or 10}s"}]
    count = {**velocity, "rule_id": "count", "aggregation_type": "count", "aggregation_threshold": threshold}
    if case.rules in ("count", "near"):
        return [count]
    if case.rules == "five":
        bounds = {"sum": held * 4_000, "avg": 900, "distinct_count": 10_000, "max": 1_000}
        fields = {"distinct_count": "merchant"}
        others = [
            {**velocity, "rule_id": kind, "aggregation_type": kind, "aggregation_threshold": bound}
            | {"aggregation_field": fields.get(kind, "amount")}
            for kind, bound in bounds.items()
        ]
        return [count, *others]
    window = {"group_by": "account", "window": f"{case.seconds}s"}
    figures = {"usual": {"avg": "amount", **window}, "tries": {"count": True, **window}}
    when = "tries >= 6 and amount > 5 * usual"
    return [{**common, "rule_id": "formula", "rule_type": "formula", "figures": figures, "when": when}]


def lines_of(first: int, count: int, rng: Any, share: float) -> bytes:
    """JSON lines of ``count`` records, number ``first`` and on, of which a ``share`` is late."""
    ingest = START_MS + np.arange(first, first + count) * 1_000 // RATE
    late = np.where(rng.random(count) < share, rng.integers(1, LATE_MS, count), 0)
    amounts, merchants = rng.integers(1, 1_000, count), rng.integers(0, 500, count)
    return b"".join(
        json.dumps(
            {
                "payment_id": f"p{first + i}",
                "account": "a1",
                "merchant": f"m{merchants[i]}",
                "kind": KINDS[merchants[i] % len(KINDS)],
                "amount": int(amounts[i]),
                "at": int(ingest[i] - late[i]),
                "received_at": int(ingest[i]),
            }
        ).encode()
        + b"\n"
        for i in range(count)
    )


def plans_of(case: Case, policy: str) -> list[StreamPlan]:
    streams = load_streams(json.dumps(STREAM), "stream.yaml")
    loaded = load_rules_text(json.dumps(rules_of(case, policy)), "rules.yaml", streams, ())
    defaults = Defaults(time_mode="event_time", watermark_delay_ms=1_000, allowed_lateness_ms=10_000)
    return list(compile_all(RuleSet.from_rules(item.rule for item in loaded), streams, defaults).values())


def batches(case: Case, plans: list[StreamPlan], count: int, share: float) -> Iterator[tuple[bool, list[Any]]]:
    """Parts of the shard, batch by batch; the first fill the window, in batches of 20,000, and are not timed."""
    rng, (plan,) = np.random.default_rng(1), plans
    layout, first, offset = make_layout(plan.stream, plan.spec), 0, 0
    filling = case.seconds * RATE
    sizes = [min(20_000, filling - at) for at in range(0, filling, 20_000)] + [case.batch] * (count + (filling > 0))
    for number, size in enumerate(sizes):
        data = lines_of(first, size, rng, share)
        if number < len(sizes) - count - (filling > 0):  # what fills the window comes in order
            data = lines_of(first, size, _Never(), share)
        decoded = decode_lines(layout, data, "log", offset)
        parts = list(entering(plans, decoded.records, Chunk("log", number, "log", False), 1, named_lists({})))
        yield number >= len(sizes) - count, list(unpack(pack(part for _, part in parts), "parts"))
        first, offset = first + size, offset + len(data)


class _Never:
    """As a generator of random numbers by which nothing is late."""

    def random(self, count: int) -> Any:
        return np.ones(count)

    def integers(self, low: int, high: int, count: int) -> Any:
        return low + np.arange(count) * 7 % (high - low)


def run(
    case: Case, policy: str, options: argparse.Namespace, share: float, profile: cProfile.Profile | None
) -> Mapping[str, Any]:
    plans, state, times, hits, count = plans_of(case, policy), ShardState(), list[float](), 0, options.batches
    for timed, parts in batches(case, plans, count, share):
        if timed and profile is not None:
            profile.enable()
        start = time.process_time()
        output = judge(plans, state, parts, Bounds(decides=options.decides))
        if profile is not None:
            profile.disable()
        if timed:
            times.append(time.process_time() - start)
            hits += len(output.hits)
    mean = sum(times) / (count * case.batch) * 1e6
    return {"us": round(mean, 1), "median_us": round(float(np.median(times)) / case.batch * 1e6, 1), "hits": hits}


def main() -> None:
    """Measure the cases, print a table and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", action="append", default=[], help="a case by its name; may be repeated")
    parser.add_argument("--batches", type=int, default=10, help="batches that are timed")
    parser.add_argument("--late", action="append", type=float, default=[], help="a share that is late; may be repeated")
    parser.add_argument("--decides", action="store_true", help="as for a policy")
    parser.add_argument("--profile", action="store_true", help="print where the time goes")
    options = parser.parse_args()
    collect_seldom()
    gc.freeze()
    report = Report("retraction", "Judging again: one key of 1,000 records/s, some up to 2 s late")
    for case, share in product(CASES, options.late or [0.1]):
        if options.only and case.name not in options.only:
            continue
        profile = cProfile.Profile() if options.profile else None
        again = run(case, "reevaluate", options, share, profile)
        once = run(case, "evaluate", options, share, None)
        report.add(case=case.name, batch=case.batch, late=share, **again, evaluate_us=once["us"])
        if profile is not None:
            pstats.Stats(profile).sort_stats("tottime").print_stats(22)
    report.finish()


if __name__ == "__main__":
    main()
