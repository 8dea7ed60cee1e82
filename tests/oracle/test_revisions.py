"""Decisions under corrections: the last word on a record is what the log in order decides, whatever the cuts."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from crossline.runtime.local.memory import MemoryJudge

from .corrected import in_event_order
from .decisions import naive_decisions
from .logged import LoggedJudge, decided
from .naive import naive_detect
from .strategies import LISTS, STREAM, Body, Record, wire_record
from .test_corrections import BUSY, disordered, reevaluated
from .test_corrections_keys import BUSY as OF_KEYS
from .test_decisions import POLICIES, WATERMARK, WEIGHTS, comparable, deciding, weighted
from .test_detect_equals_naive import DEEP, many
from .test_runners import judged_of, split

LARGE: Body = {
    "rule_id": "large",
    "version": 1,
    "rule_type": "threshold",
    "source_topic": STREAM,
    "conditions": [{"field": "amount", "operator": ">=", "value": 2}],
    "action": "review",
    "score": 20,
}


@settings(many, max_examples=300 if DEEP else 8)
@given(
    st.lists(st.sampled_from(BUSY) | st.sampled_from(OF_KEYS), min_size=1, max_size=2),
    st.lists(WEIGHTS, min_size=1, max_size=3),
    POLICIES,
    disordered(20),
    st.sampled_from([(1, 1), (2, 300), (3, 2_000)]),
)
def test_the_last_decision_on_a_record_is_that_of_the_log_in_order(
    bodies: list[Body], weights: list[Body], policy: Body, made: list[Record], spread: tuple[int, int]
) -> None:
    rules = weighted([*(reevaluated(body, number) for number, body in enumerate(bodies)), LARGE], weights, 0)
    made = list({record["_id"]: record for record in reversed(made)}.values())[::-1]
    made.sort(key=lambda record: record["_ingest_ms"])
    ordered = in_event_order(made)
    plainly = [{**body, "late_policy": "evaluate"} for body in rules]
    result = naive_detect(plainly, ordered, defaults=WATERMARK, lists=LISTS)
    # Of a rule that judges again the alert of the crossing is known as far back as it looks.
    result.standing = [replace(each, alert_id=None) if each.beyond else each for each in result.standing]
    wanted = {each.record_id: each for each in naive_decisions(policy, plainly, result, ordered, WATERMARK)}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = split([orjson.dumps(wire_record(record)) + b"\n" for record in made], folder, 1)
        judged = deciding(judged_of(rules, paths, ingest_column=True), policy)
        whole = decided(judged, folder, 1, 1_000_000, MemoryJudge)
        cut = decided(judged, folder, *spread, lambda source: LoggedJudge(source, folder / "state"))
    assert cut == whole
    ids = [each["decision_id"] for each in whole]
    assert len(set(ids)) == len(ids)
    last: dict[str, Any] = {}
    for each in whole:
        before = last.get(each["record_id"])
        assert each["revision"] == (
            0 if each["kind"] == "decision" else 1 if before is None else before["revision"] + 1
        )
        last[each["record_id"]] = each
    content = {record_id: each for record_id, each in last.items() if each["reasons"]}
    assert sorted(content) == sorted(wanted)
    for record_id, each in content.items():
        assert comparable({**each, "decision_id": wanted[record_id].decision_id}) == wanted[record_id]
        assert each["kind"] == "decision" or each["revises"] == wanted[record_id].decision_id
    assert all(each["decision"] == "allow" for each in last.values() if not each["reasons"])
