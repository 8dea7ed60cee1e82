"""What is compiled ahead: after it nothing is, whatever the rules are and however records come."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from crossline.basics.streams.schema import load_streams
from crossline.plan.compose import compile_all
from crossline.rules.base import Defaults
from crossline.rules.rule_reader import load_rules_text
from crossline.rules.ruleset import RuleSet
from crossline.runtime.workers import kernel_warmup as module

STREAM = """
schema_version: 1
streams:
  s: {id: i, event_time: {field: t}, fields: {i: string, t: integer, k: string, v: integer}}
"""
STEPS = (
    "warm_panes",
    "warm_patterns",
    "_decode_all",
    "warm_pairs",
    "warm_windows",
    "_judge_some",
    "warm_in_order",
    "warm_retraction",
)


def test_nothing_is_compiled_after_what_is_compiled_ahead() -> None:
    """Also not where it stands in the cache: that this process loads it shows that a first run would have waited."""
    program = Path(__file__).with_name("compiled_later.py")
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout)
    assert found["ahead"] > 10
    assert {tuple(each) for each in found["alerted"]} == {("again", "keys", "long", "of_hits", "order", "vain")}
    assert found["later"] == []


def test_steps_are_reported_before_they_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[object] = []
    for name in STEPS:
        monkeypatch.setattr(module, name, partial(found.append, name))
    module.warm(**module.ALL, on_step=lambda *step: found.append(step))
    assert found == [
        *(("windows with a resolution", 0, 8), "warm_panes", ("sequences and absences", 1, 8), "warm_patterns"),
        *(("late records of large keys", 2, 8), "warm_retraction", ("formats", 3, 8), "_decode_all"),
        *(("keys of two fields", 4, 8), "warm_pairs", ("windows", 5, 8), "warm_windows"),
        *(("a batch", 6, 8), "_judge_some", ("records out of order", 7, 8), "warm_in_order"),
    ]
    found.clear()
    module.warm(on_step=lambda *step: found.append(step))
    assert found == [("windows", 0, 2), "warm_windows", ("a batch", 1, 2), "_judge_some"]


RULES = """
- {rule_id: plain, version: 1, rule_type: velocity, source_topic: s, group_by: k, window: 1m, aggregation_type: count,
   aggregation_threshold: 1}
"""
LONG = RULES.replace("plain", "long").replace("window: 1m", "window: 2h, resolution: 10m")
ABSENT = """
- {rule_id: vain, version: 1, rule_type: absence, source_topic: s, group_by: k, within: 5s, allowed_lateness: 5s,
   watermark_delay: 1s, after: [{field: v, operator: "==", value: 1}], expect: [{field: v, operator: "==", value: 2}]}
"""
AGAIN = RULES.replace("plain", "again").replace("window: 1m", "window: 1m, late_policy: reevaluate")


@pytest.mark.parametrize(
    ("rules", "more"),
    [
        (RULES, []),
        (AGAIN, ["warm_retraction"]),
        (LONG, ["warm_panes"]),
        (ABSENT, ["warm_patterns"]),
        (LONG + ABSENT, ["warm_panes", "warm_patterns"]),
    ],
    ids=["windows", "retraction", "panes", "patterns", "both"],
)
def test_what_a_plan_is_judged_by_is_compiled_and_nothing_else(
    rules: str, more: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    did: list[str] = []
    for name in STEPS:
        monkeypatch.setattr(module, name, partial(did.append, name))
    streams = load_streams(STREAM, "s.yaml")
    parsed = RuleSet.from_rules(item.rule for item in load_rules_text(rules, "r.yaml", streams))
    module.warm_for(compile_all(parsed, streams, Defaults()).values())
    assert did == [*more, "warm_windows", "_judge_some"]


def test_two_processes_compile_what_one_would_and_neither_what_the_other_does(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    did: list[str] = []
    for name in STEPS:
        monkeypatch.setattr(module, name, partial(did.append, name))
    for half in module.HALVES:
        module.main([half])
    assert sorted(did) == sorted(STEPS)
    did.clear()
    module.main([])
    assert sorted(did) == sorted(STEPS)
    assert capsys.readouterr().err.count("compiling kernels") == 3
