"""The workload tx judged by the example rules R5, against the quick twin, and that against the slow one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from crossline.basics.streams.schema import load_streams
from crossline.evaluate.detect import Detection, detect, new_state
from crossline.generate.tx import TxWorkload
from crossline.ingest.decode import decode_lines, make_layout
from crossline.plan.compile import compile_stream
from crossline.rules.base import Defaults
from crossline.rules.rule_reader import load_rules_text
from crossline.rules.ruleset import RuleSet

from .fastpath import alert_values, hit_values
from .naive import naive_detect
from .quick import quick_detect, with_times

EXAMPLE = Path(__file__).parents[2] / "examples" / "tx"
R5_TEXT = (EXAMPLE / "r5.yaml").read_text(encoding="utf-8")
R5: list[dict[str, Any]] = yaml.safe_load(R5_TEXT)
RECORDS = 20_000


def records_of(lines: bytes) -> list[dict[str, Any]]:
    return with_times([orjson.loads(line) for line in lines.splitlines()], "transaction_id", "event_time")


def detected(lines: bytes, shards: int, cuts: int) -> list[Any]:
    streams = load_streams((EXAMPLE / "stream.yaml").read_text(encoding="utf-8"), "stream.yaml")
    rules = RuleSet.from_rules(item.rule for item in load_rules_text(R5_TEXT, "r5.yaml", streams, ()))
    plan = compile_stream(rules, "payments", streams["payments"], Defaults())
    layout, state, start, whole = make_layout("payments", streams["payments"]), new_state(shards), 0, Detection()
    for part in range(1, cuts + 1):
        end = lines.index(b"\n", len(lines) * part // cuts - 1) + 1
        found, state = detect(plan, state, decode_lines(layout, lines[start:end], "tx.jsonl", start).records)
        whole.alerts += found.alerts
        assert not found.duplicates
        assert not found.late
        start = end
    return sorted(map(alert_values, whole.alerts))


@pytest.mark.parametrize(("shards", "cuts"), [(1, 1), (3, 7)])
def test_r5_over_tx(shards: int, cuts: int) -> None:
    # Few accounts, so that ten seconds of traffic cross every line.
    lines = TxWorkload(seed=3, accounts=1_000, merchants=300).lines(0, RECORDS)
    records = records_of(lines)
    expected = sorted(hit_values(hit, records[hit.position]) for hit in quick_detect(R5, records))
    assert {alert[0] for alert in expected} == {body["rule_id"] for body in R5}
    assert len(expected) > 1_000
    assert detected(lines, shards, cuts) == expected


TIGHT = [
    {**body, "window": window, "aggregation_threshold": line}
    for body, window, line in zip(R5, ("60ms", "90ms", "40ms", "200ms", "150ms"), (3, 6000, 3, 6000, 3000), strict=True)
]


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**32), st.integers(3, 8))
def test_the_quick_twin_is_the_slow_one(seed: int, accounts: int) -> None:
    workload = TxWorkload(seed=seed, accounts=accounts, merchants=3, rate_per_s=200, disorder_ms=60)
    records = records_of(workload.lines(0, 150))
    quick = quick_detect(TIGHT, records)
    assert len({hit.rule_id for hit in quick}) >= 4
    slow = naive_detect(TIGHT, records)
    assert sorted(quick, key=lambda hit: hit.alert_id) == sorted(slow.hits, key=lambda hit: hit.alert_id)
    assert not slow.late
