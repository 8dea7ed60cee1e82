"""Decisions on all records for a topic: lines are given as they are, and what is left for the sinks is the same."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crossline.evaluate.decisions.batch import Decided
from crossline.evaluate.decisions.blocks import Table, block_of, table_of
from crossline.evaluate.decisions.decision import decide, weight
from crossline.evaluate.decisions.json_lines import LineInputs, decided_lines
from crossline.io.kafka.transactions.decision_topic import DecisionTopic
from crossline.io.sinks.decisions import columns_of
from crossline.rules.policy.policy import Deciding, load_policy
from crossline.rules.rule_reader import load_rules_text
from crossline.runtime.snapshot.snapshot import PlanSnapshot
from crossline.runtime.stages.decision_order import in_order
from crossline.runtime.stages.decision_writer import DecisionWriter
from crossline.runtime.stages.rows import DECIDED
from crossline.runtime.work.task import Task

TOPIC = 'a "topic"'
RULE = {"rule_id": "large", "version": 1, "rule_type": "threshold", "source_topic": "payments", "action": "review"}
RULE |= {"conditions": [{"field": "amount_cents", "operator": ">=", "value": 5}]}
POLICY = load_policy("{schema_version: 1, version: 3}", "policy.yaml")


@dataclass(slots=True)
class Given:
    """A topic that keeps what it is given."""

    found: list[tuple[Any, Any, list[Mapping[str, Any]]]] = field(default_factory=list)

    def give(self, checkpoint: str, batch: Any, shard: Any, decisions: Sequence[Mapping[str, Any]]) -> None:
        assert checkpoint == "q"
        lines = [json.loads(line) for line in columns_of(decisions).lines]
        assert lines == [dict(each) for each in decisions]
        self.found.append((batch, shard, lines))


@dataclass(frozen=True, slots=True)
class Snapshot:
    deciding: Deciding
    shards: int = 4


def table(ids: Sequence[str], holding: Sequence[bool]) -> Table:
    """Records of the ids, in their order; the rule holds at some."""
    (loaded,) = load_rules_text(json.dumps(RULE), "rules.yaml")
    many, reasons = len(ids), [number for number, holds in enumerate(holding) if holds]
    raw = [each.encode() for each in ids]
    records = {name: np.arange(many, dtype=np.int64) for name in ("place_ms", "offsets", "event_ms", "ingest_ms")}
    records |= {"chunk": np.zeros(many, np.int64), "id_bytes": np.frombuffer(b"".join(raw), np.uint8)}
    records |= {"id_offsets": np.concatenate([np.zeros(1, np.int64), np.cumsum([len(each) for each in raw])])}
    arrays: dict[str, Any] = {"reason_row": np.array(reasons, np.int64), "version": np.zeros(len(reasons), np.int64)}
    arrays |= {"alert": np.zeros((len(reasons), 16), np.uint8), "named": np.arange(len(reasons)) % 2 == 0}
    arrays["key_hash"] = np.zeros(len(reasons), np.uint64)
    block = block_of([("payments", "log", 0, "p0")], [("large", 1)], records, arrays)
    return table_of([block], lambda _: loaded.rule, weight)


def decided_of(ids: Sequence[str], holding: Sequence[bool], alone: Sequence[bool]) -> Decided:
    """As lines where a record is ``alone``, else as values."""
    found, more = table(ids, holding), {"sink_topic": TOPIC}
    chosen = np.flatnonzero(np.array(alone, np.bool_))
    made = LineInputs(partial(decide, POLICY), lambda _: "digest", np.zeros(0, np.int64), 1_000, POLICY.version, more)
    few = []
    for number in np.flatnonzero(~np.array(alone, np.bool_)).tolist():
        decision = decide(POLICY, found.record(number), found.hits(number)).to_json("digest", 1_000)
        few.append((found.place(number), {**decision, **more}))
    lines = [(found, decided_lines(found, chosen, "payments", made))] if len(chosen) else []
    return Decided(few, lines)


def values(decisions: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """As they stand in their lines."""
    return [json.loads(line) for line in columns_of(decisions).lines]


@settings(max_examples=40)
@given(
    st.lists(st.tuples(st.sampled_from(["", "ü", "long" * 9]), st.booleans(), st.booleans()), max_size=9),
    st.sampled_from(["topic", "files", "both"]),
)
def test_topic_files_and_sinks_get_what_the_values_are(drawn: list[tuple[str, bool, bool]], to: str) -> None:
    ids = [f"t{number}{more}" for number, (more, *_) in enumerate(drawn)]
    decided = decided_of(ids, [holds for _, holds, _ in drawn], [alone for *_, alone in drawn]) if ids else Decided([])
    expected = [decision for _, decision in sorted(decided.values(), key=lambda each: tuple(each[0]))]
    assert [each["record_id"] for each in expected] == ids
    topic, task = Given(), Task("q", 7, began_ms=5)
    with TemporaryDirectory() as folder:
        files = None if to == "topic" else folder
        snapshot = Snapshot(Deciding(POLICY, every=True, sink_topic=TOPIC, folder=files, pipeline="p"))
        writer = DecisionWriter(task, 3, None if to == "files" else cast("DecisionTopic", topic))
        for _ in range(2):  # as after a kill
            rows = writer.write(cast("PlanSnapshot", snapshot), decided)
        file = Path(folder) / "decisions-0003.jsonl"
        stored = [json.loads(line) for line in file.read_text("utf-8").splitlines()] if file.exists() else []
    assert topic.found == (2 * [((7, 5), (3, 4), expected)] if ids and to != "files" else [])
    assert stored == ([] if to == "topic" else expected)
    few = [each for *_, kind, body in rows if kind != DECIDED for each in json.loads(body)]
    left = in_order(few, [body for *_, kind, body in rows if kind == DECIDED])
    shown = TOPIC if to == "files" else None  # what is not there yet is for the sinks to send
    assert values(left) == [{**each, "sink_topic": shown} for each in expected if each["reasons"]]
    assert {head.sink_topic for head in columns_of(left).heads} <= {shown}


@pytest.mark.parametrize("holds", [True, False])
def test_without_a_topic_all_are_left_for_the_sinks(holds: bool) -> None:
    snapshot = Snapshot(Deciding(POLICY, every=True, sink_topic=TOPIC))
    decided = decided_of(["t0", "t1", "t2"], [holds] * 3, [True, True, False])
    rows = DecisionWriter(Task("q", 7), 3).write(cast("PlanSnapshot", snapshot), decided)
    few = [each for *_, kind, body in rows if kind != DECIDED for each in json.loads(body)]
    found = values(in_order(few, [body for *_, kind, body in rows if kind == DECIDED]))
    assert [each["record_id"] for each in found] == ["t0", "t1", "t2"]
    assert {each["sink_topic"] for each in found} == {TOPIC}
