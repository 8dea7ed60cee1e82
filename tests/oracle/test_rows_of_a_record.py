"""Decisions where several hits are on one record, and each is a row that is judged: what was once broken."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from crossline.rules.base import Defaults
from crossline.runtime.local.memory import MemoryJudge

from .logged import LoggedJudge, decided
from .strategies import START_MS, STREAM, Body, Record, wire_record
from .test_decisions import deciding
from .test_runners import judged_of, outcomes, split

LATE: Body = {"watermark_delay": "1s", "allowed_lateness": "6s"}
AGAIN: Body = {**LATE, "late_policy": "reevaluate", "version": 1}
LARGE: Body = {
    **LATE,
    "rule_id": "large",
    "version": 1,
    "rule_type": "threshold",
    "source_topic": STREAM,
    "conditions": [{"field": "amount", "operator": ">=", "value": 2}],
    "action": "review",
    "score": 20,
}
FEW: Body = {
    **AGAIN,
    "rule_id": "r1",
    "rule_type": "velocity",
    "source_topic": STREAM,
    "group_by": "account",
    "aggregation_type": "count",
    "window": "1s",
    "aggregation_threshold": 2,
    "operator": "<=",
    "cooldown": "3s",
    "action": "step_up",
    "score": 4,
}
BOTH: Body = {
    **AGAIN,
    "rule_id": "c",
    "rule_type": "composite",
    "any_of": ["r1", "large"],
    "join_key": "kind",
    "window": "2s",
    "emit": "every",
    "at_least": 2,
    "action": "review",
    "score": 8,
}
RISEN: Body = {
    **AGAIN,
    "rule_id": "r0",
    "rule_type": "formula",
    "source_topic": STREAM,
    "figures": {
        "before": {"last": "amount", "group_by": "device", "window": "4s", "bounds": "[)"},
        "all": {"sum": "amount", "window": "2s"},
    },
    "when": "amount > before and all == all",
    "cooldown": "1s",
    "action": "block",
    "score": 1,
    "hold": "3s",
}


def record(name: str, at: int, came: int, account: str, amount: int) -> Record:
    times = {"_event_ms": START_MS + at, "_ingest_ms": START_MS + came}
    return {"_id": name, "account": account, "device": 2, "amount": amount, "price": 0.1, "kind": "CSH", **times}


def every_way(rules: list[Body], made: list[Record], folder: Path) -> Any:
    """The decisions of a run in one piece; record by record, from the log alone, they are the same."""
    paths = split([orjson.dumps(wire_record(each)) + b"\n" for each in made], folder, 1)
    judged = deciding(judged_of(rules, paths, ingest_column=True), {"schema_version": 1, "version": 1})
    judged = replace(judged, defaults=Defaults("event_time", 7_000, 7_000))
    whole = decided(judged, folder, 1, 1_000_000, MemoryJudge)
    assert decided(judged, folder, 2, 1, lambda source: LoggedJudge(source, folder / "state")) == whole
    alerts = [
        [
            (alert["alert_id"], alert.get("outcome"))
            for outcome in outcomes(judged, folder, *spread)
            for alert in outcome.alerts
        ]
        for spread in ((1, 1_000_000), (2, 1))
    ]
    assert sorted(alerts[0], key=str) == sorted(alerts[1], key=str)
    ids = [each["decision_id"] for each in whole]
    assert len(set(ids)) == len(ids)
    return whole


@pytest.mark.parametrize("policy", ["evaluate", "reevaluate"])
@pytest.mark.parametrize("emit", [{"emit": "on_crossing"}, {"emit": "every", "cooldown": "1s"}])
def test_a_rule_that_crosses_by_one_hit_on_a_record_is_not_one_more_reason_by_the_next(
    tmp_path: Path, policy: str, emit: Body
) -> None:
    rules = [LARGE, {**LARGE, "rule_id": "also", "score": 1}]
    rules += [{**BOTH, "any_of": ["large", "also"], "at_least": 1, "late_policy": policy, "score": 100, **emit}]
    (body,) = every_way(rules, [record("t0", 0, 0, "a1", 3)], tmp_path)
    assert [each["rule_id"] for each in body["reasons"]] == ["c", "large", "also"]
    assert body["score"] == 121


def test_a_key_that_comes_in_several_parts_of_a_batch_stands_by_one_alert(tmp_path: Path) -> None:
    """Each file, and each partition, is a part of a batch that numbers its keys itself."""
    rule: Body = {**FEW, "operator": ">=", "window": "1m", "late_policy": "evaluate"}
    made = [record(f"t{n}", 100 * n, 100 * n, "a1", 0) for n in range(6)]
    paths = split([orjson.dumps(wire_record(each)) + b"\n" for each in made], tmp_path, 3)
    judged = deciding(judged_of([rule], paths, ingest_column=True), {"schema_version": 1, "version": 1})
    for spread in ((1, 1_000_000), (2, 700), (1, 1)):
        found = decided(judged, tmp_path, *spread, MemoryJudge)
        (crossing,), *rest = ([why["alert_id"] for why in each["reasons"]] for each in found)
        assert crossing is not None
        assert rest == [[crossing]] * 4


def test_what_was_reported_by_a_hit_that_is_no_more_is_reinstated_by_another(tmp_path: Path) -> None:
    """The first alert of ``c`` on t9 is emitted at the hit of ``r1``; t6 retracts that hit, t7 reinstates it."""
    made = [
        record("t9", 6_000, 6_500, "a1", 2),
        record("t6", 4_000, 7_000, "a1", 3),
        record("t7", 5_000, 8_000, "a2", 3),
    ]
    twice = {**FEW, "rule_id": "r0", "operator": ">=", "window": "2s", "emit": "every", "emit_to_sink": False}
    del twice["cooldown"]
    both = {**BOTH, "any_of": ["r0", "r1", "large"]}
    last = every_way([twice, FEW, LARGE, both], made, tmp_path)[-1]
    assert (last["record_id"], last["revision"], last["score"]) == ("t9", 2, 32)


def test_a_hold_that_other_alerts_join_is_no_reason_of_a_revision(tmp_path: Path) -> None:
    """t5 is revised by t3, and then by t0, which has nothing to do with the alert on t3 that holds it."""
    weights = {"any_of": ["r0", "r1", "large"], "weights": {"r0": 2, "r1": -1.5, "large": 1}, "threshold": 1}
    scored = {name: value for name, value in BOTH.items() if name != "at_least"}
    scored |= {**weights, "join_key": "account", "window": "6s", "score": 2}
    made = [
        record("t2", 1_500, 1_500, "a1", 1),
        record("t1", 1_000, 2_000, "a2", 3),
        record("t5", 3_500, 3_500, "a2", 3),
        record("t3", 2_000, 4_000, "a1", 2),
        record("t0", 500, 6_500, "a1", 1),
    ]
    found = every_way([RISEN, {**FEW, "score": 2, "action": "review"}, LARGE, scored], made, tmp_path)
    assert [each["revision"] for each in found if each["record_id"] == "t5"] == [0, 1, 2]
