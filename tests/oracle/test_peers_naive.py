"""What ``bench.decisions`` calls right is what crossline decides: R5, its policy, and bursts as they are sent."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import orjson
import pytest
from bench.decisions import SCENARIOS, RequestPlan, made, wrong
from bench.decisions_systems import POLICY
from bench.peers.naive import decisions
from bench.workload import R5, STREAM, stream_spec

from crossline.backtest.backtest import BacktestSpec, RecordedInput
from crossline.backtest.in_process import backtest
from crossline.basics.streams.schema import StreamSpec
from crossline.evaluate.bounds import Bounds
from crossline.generate.tx import TxWorkload
from crossline.rules.base import Defaults
from crossline.rules.policy.policy import Deciding, Policy
from crossline.rules.rule_reader import load_rules_text
from crossline.rules.ruleset import RuleSet

NOW_S = 1_767_225_600.0


def judged(lines: list[bytes], folder: Path) -> list[str]:
    """What crossline decides about each line, in their order."""
    (folder / "in.jsonl").write_bytes(b"".join(line + b"\n" for line in lines))
    streams = {STREAM: StreamSpec.model_validate(stream_spec())}
    rules = RuleSet.from_rules(each.rule for each in load_rules_text(orjson.dumps(R5).decode(), "rules.yaml"))
    known = {name: value for name, value in POLICY.items() if name in Policy.model_fields}
    given = BacktestSpec(
        rules,
        RecordedInput(streams, {STREAM: [str(folder / "in.jsonl")]}),
        defaults=Defaults(),
        bounds=Bounds(60_000),
        deciding=Deciding(Policy.model_validate(known), every=True),
    )
    backtest(given, folder / "alerts.jsonl", decisions=folder / "decisions.jsonl", processes=1)
    found = {
        each["record_id"]: each for each in map(orjson.loads, (folder / "decisions.jsonl").read_bytes().splitlines())
    }
    return [found.get(orjson.loads(line)["transaction_id"], {"decision": "allow"})["decision"] for line in lines]


def burst() -> RequestPlan:
    return made(SCENARIOS["bursts"], seconds=10, warm_s=0, begin_s=NOW_S)


@pytest.mark.parametrize("which", ["bursts", "hot"])
def test_crossline_decides_as_the_naive_windows(which: str, tmp_path: Path) -> None:
    hot = TxWorkload(seed=3, accounts=150, merchants=20, disorder_ms=0, rate_per_s=20)
    lines = burst().lines if which == "bursts" else hot.lines(0, 4_000).splitlines()
    expected = decisions(map(orjson.loads, lines))
    assert set(expected) == {"allow", "review", "block"}
    assert judged(lines, tmp_path) == expected


def test_the_answers_of_a_burst_are_compared_as_a_whole() -> None:
    """20 bursts of 12, of which the last three are beyond the line, and 20 of three, of which two are."""
    plan = burst()
    right = decisions(map(orjson.loads, plan.lines))
    plan.found = {"answers": [[200, "peek", each, None] for each in right]}
    assert wrong(plan) == {
        "burst_answers": 300,
        "wrong_in_bursts": "0 (0.0%)",
        "holds_missed": "0 of 100",
        "wrong_else": "0 of 2000",
    }
    mine = [number for number, group in enumerate(plan.groups) if group == 0]
    turned = [plan.found["answers"][number] for number in mine][::-1]
    for number, found in zip(mine, turned, strict=True):
        plan.found["answers"][number] = found
    assert wrong(plan)["holds_missed"] == "0 of 100"
    plan.found["answers"] = [[200, "peek", "allow", None]] * len(plan.lines)
    assert wrong(plan)["holds_missed"] == "100 of 100"
    assert Counter(plan.groups)[0] == 12


def test_what_has_no_answer_is_wrong() -> None:
    plan = burst()
    plan.found = {"answers": [None] * len(plan.lines)}
    assert wrong(plan)["wrong_in_bursts"] == "300 (100.0%)"
    assert wrong(plan)["wrong_else"] == "2000 of 2000"
