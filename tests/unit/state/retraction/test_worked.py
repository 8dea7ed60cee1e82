"""The example that the package's docstring draws: the replay when the late record comes, and its output."""

from __future__ import annotations

import json
import re
from typing import Any

from tests.unit.state.windows.naive import Row, line

from crossline.basics.streams.schema import load_streams
from crossline.evaluate.detect import detect, new_state
from crossline.ingest.decode import decode_lines, make_layout
from crossline.plan.compose import compile_all
from crossline.plan.spaces import AggregateSpec, KeySpacePlan, WindowSpec
from crossline.rules.base import Defaults
from crossline.rules.rule_reader import load_rules_text
from crossline.rules.ruleset import RuleSet
from crossline.state import retraction as package

from .kit import placed, retraction, variants

STREAM = """
schema_version: 1
streams:
  payments:
    id: id
    event_time: {field: at}
    ingest_time: {field: came}
    fields: {id: string, card: string, amount: integer, at: integer, came: integer}
"""
RULE = """
- {rule_id: spent, version: 1, rule_type: velocity, source_topic: payments, group_by: card, window: 10s, emit: every,
   aggregation_type: avg, aggregation_field: amount, aggregation_threshold: 100, late_policy: reevaluate, score: 40}
"""


def drawn(name: str) -> list[str]:
    """The cells of a line of the drawing, which begins with ``name``; without what stands behind the last one."""
    (found,) = re.findall(rf"^    {re.escape(name)} {{2,}}(.*)$", package.__doc__ or "", re.MULTILINE)
    return re.findall(r"p\d|\d+(?: !)?|retracted|amended|-", re.split(r" {4,}(?=alerts|variant|corrections)", found)[0])


IDS, CLOCKS_S, AMOUNTS = drawn("record"), list(map(int, drawn("clock, s"))), list(map(int, drawn("amount")))
ORDER = [0, 1, 3, 4, 2]  # p3 comes last


def hits(cells: list[str], ids: list[str]) -> list[tuple[str, float]]:
    return [(name, float(cell.split()[0])) for name, cell in zip(ids, cells, strict=True) if cell.endswith("!")]


def test_what_is_judged_again_is_as_drawn() -> None:
    cursor = WindowSpec(0, 10_000, False, False, True)
    plan = KeySpacePlan(
        (("amount", "int"),), 1, (cursor,), (AggregateSpec(0, 0, "avg"),), (line(0, ">=", 100),), 10_000
    )
    rows = [
        Row("card", name, 1_000 * clock, (amount,), ingest=1_000 * clock)
        for name, clock, amount in zip(IDS, CLOCKS_S, AMOUNTS, strict=True)
    ]
    came = [rows[at] for at in ORDER]
    came[-1] = Row("card", "p3", came[-1].clock, came[-1].values, ingest=20_000, lateness=12_000)
    state = retraction(plan)
    (before,) = variants(state.judge(placed(plan, came[:4], 0)).replayed[0])
    assert before == (None, ["p1", "p2", "p4", "p5"], hits(drawn("average"), ["p1", "p2", "p4", "p5"]))
    without, with_ = variants(state.judge(placed(plan, came[4:], 4)).replayed[0])
    assert without == (None, ["p4", "p5"], hits(drawn("without p3")[2:], ["p4", "p5"]))
    assert with_ == ("p3", ["p3", "p4", "p5"], hits(drawn("with p3")[2:], ["p3", "p4", "p5"]))


def test_what_is_reported_is_as_drawn() -> None:
    spec = load_streams(STREAM, "stream.yaml")["payments"]
    rules = RuleSet.from_rules(item.rule for item in load_rules_text(RULE, "rules.yaml", {"payments": spec}))
    plans = list(compile_all(rules, {"payments": spec}, Defaults()).values())
    records: list[dict[str, Any]] = [
        {"id": IDS[at], "card": "c", "amount": AMOUNTS[at], "at": 1_000 * CLOCKS_S[at], "came": 1_000 * CLOCKS_S[at]}
        for at in ORDER
    ]
    records[-1]["came"] = 20_000
    layout, state, lines, offset = make_layout("payments", spec), new_state(1), [], 0
    for record in records:
        data = json.dumps(record).encode() + b"\n"
        found, state = detect(plans, state, decode_lines(layout, data, "log", offset).records)
        lines.append([(each["record_id"], each.get("outcome"), each["value"]) for each in found.alerts])
        offset += len(data)
    first = [(name, None, value) for name, value in hits(drawn("average"), ["p1", "p2", "p4", "p5"])]
    assert [each for batch in lines[:4] for each in batch] == first
    assert drawn("emitted") == ["-", "-", "-", "retracted", "amended"]
    amended = float(drawn("with p3")[-1].split()[0])
    assert sorted(lines[4]) == [("p4", "retracted", None), ("p5", "amended", amended)]
